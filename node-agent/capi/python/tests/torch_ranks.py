"""One rank of a test job that uses PyTorch on backend rail: every operation and type, groups, DDP, FSDP.

Argument: operations, ddp, fsdp, libraries, lost. All ranks compute what every rank has, so each checks its own results.
"""

import datetime
import os
import sys
import threading

import railyard.communicator
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

if not hasattr(dist.Backend, "RAIL"):
    # With an installed wheel PyTorch has found the backend by itself.
    import railyard.torch  # noqa: F401


def data(rank, shape=(13, 7), dtype=torch.float32):
    """The same numbers on whoever asks for those of `rank`, small enough that no sum rounds or wraps."""
    generator = torch.Generator().manual_seed(1000 + rank)
    numbers = torch.randint(0 if dtype in (torch.uint8, torch.bool) else -8, 9, shape, generator=generator)
    if dtype == torch.bool:
        return numbers > 4
    if dtype.is_complex:
        return torch.complex(numbers.double(), numbers.double().flip(0)).to(dtype)
    return numbers.to(dtype)


def same(found, wanted, what):
    if not torch.equal(found, wanted):
        sys.exit(f"rank {dist.get_rank()}: {what}: {found.flatten()[:8]}, not {wanted.flatten()[:8]}")


def raises(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        return str(error)
    sys.exit(f"{function} did not raise {kind}")


FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int64, torch.int8, torch.int16, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
FOLDS = {ReduceOp.SUM: torch.add, ReduceOp.PRODUCT: torch.mul, ReduceOp.MIN: torch.minimum, ReduceOp.MAX: torch.maximum}


def reductions(group, ranks):
    me = ranks.index(dist.get_rank())
    for dtype in FLOATS + INTEGERS + COMPLEX:
        for op, fold in FOLDS.items():
            if dtype.is_complex and op != ReduceOp.SUM:
                continue
            # Products stay exact with factors of 0, 1 and 2.
            change = (lambda t: t.clamp(0, 2)) if op == ReduceOp.PRODUCT and not dtype.is_complex else (lambda t: t)
            every = [change(data(rank, dtype=dtype)) for rank in ranks]
            wanted = every[0]
            for other in every[1:]:
                wanted = fold(wanted, other)
            found = every[me].clone()
            dist.all_reduce(found, op, group=group)
            same(found, wanted, f"all_reduce {op} {dtype}")
            found = every[me].t().clone(memory_format=torch.preserve_format)
            assert not found.is_contiguous()
            dist.all_reduce(found, op, group=group)
            same(found, wanted.t(), f"all_reduce {op} {dtype}, not contiguous")
    truths = [data(rank, dtype=torch.bool) for rank in ranks]
    found = truths[me].clone()
    dist.all_reduce(found, group=group)
    same(found, torch.stack(truths).any(0), "all_reduce bool")
    for dtype in (*FLOATS, torch.complex64):
        found = torch.full((3,), float(me * len(ranks)), dtype=dtype)
        dist.all_reduce(found, ReduceOp.AVG, group=group)
        same(found, torch.full((3,), sum(range(len(ranks))), dtype=dtype), f"all_reduce AVG {dtype}")
    for root in ranks:
        found = data(dist.get_rank())
        dist.reduce(found, root, group=group)
        wanted = sum(data(rank) for rank in ranks) if root == dist.get_rank() else data(dist.get_rank())
        same(found, wanted, "reduce")
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar, group=group)
    same(scalar, torch.tensor(2.0 * len(ranks)), "all_reduce of a scalar")
    nothing = torch.empty(0)
    dist.all_reduce(nothing, group=group)
    several = [data(dist.get_rank(), (n,)) for n in (3, 40, 1)]
    dist.all_reduce_coalesced(several, group=group)
    for found, n in zip(several, (3, 40, 1)):
        same(found, sum(data(rank, (n,)) for rank in ranks), "all_reduce_coalesced")


def scattering(group, ranks):
    me, size = ranks.index(dist.get_rank()), len(ranks)
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        blocks = {rank: [data(rank * 50 + at, (5, 3), dtype) for at in range(size)] for rank in ranks}
        wanted = blocks[ranks[0]][me]
        for rank in ranks[1:]:
            wanted = wanted + blocks[rank][me]
        mine = blocks[dist.get_rank()]
        found = torch.empty((5, 3), dtype=dtype)
        dist.reduce_scatter(found, mine, group=group)
        same(found, wanted, f"reduce_scatter {dtype}")
        found = torch.empty((5, 3), dtype=dtype)
        dist.reduce_scatter_tensor(found, torch.cat(mine), group=group)
        same(found, wanted, f"reduce_scatter_tensor {dtype}")
        in_place = torch.cat(mine)
        found = in_place[5 * me : 5 * (me + 1)]
        dist.reduce_scatter_tensor(found, in_place, group=group)
        same(found, wanted, f"reduce_scatter_tensor in place {dtype}")
    found = torch.empty(4)
    dist.reduce_scatter_tensor(found, torch.ones(4 * size), ReduceOp.AVG, group=group)
    same(found, torch.ones(4), "reduce_scatter_tensor AVG")
    uneven = torch.empty(me + 1)
    dist.reduce_scatter(uneven, [torch.full((n + 1,), float(n)) for n in range(size)], group=group)
    same(uneven, torch.full((me + 1,), float(me * size)), "reduce_scatter of unequal blocks")


def moves(group, ranks):
    me, size = ranks.index(dist.get_rank()), len(ranks)
    for dtype in FLOATS + INTEGERS + COMPLEX + (torch.bool,):
        mine, every = data(dist.get_rank(), dtype=dtype), [data(rank, dtype=dtype) for rank in ranks]
        found = [torch.empty_like(mine) for _ in ranks]
        dist.all_gather(found, mine, group=group)
        same(torch.stack(found), torch.stack(every), f"all_gather {dtype}")
        found = torch.empty((size * 13, 7), dtype=dtype)
        dist.all_gather_into_tensor(found, mine, group=group)
        same(found, torch.cat(every), f"all_gather_into_tensor {dtype}")
        found = torch.cat(every).zero_()
        found[13 * me : 13 * (me + 1)] = mine
        dist.all_gather_into_tensor(found, found[13 * me : 13 * (me + 1)], group=group)
        same(found, torch.cat(every), f"all_gather_into_tensor in place {dtype}")
        for root in ranks:
            found = mine.t().clone(memory_format=torch.preserve_format)
            dist.broadcast(found, root, group=group)
            same(found, every[ranks.index(root)].t(), f"broadcast {dtype}")
            gathered = [torch.empty_like(mine) for _ in ranks] if root == dist.get_rank() else None
            dist.gather(mine, gathered, root, group=group)
            if gathered is not None:
                same(torch.stack(gathered), torch.stack(every), f"gather {dtype}")
            found = torch.empty_like(mine)
            dist.scatter(found, every if root == dist.get_rank() else None, root, group=group)
            same(found, every[me], f"scatter {dtype}")
    uneven = [torch.empty(rank % 3) for rank in range(size)]
    dist.all_gather(uneven, torch.full((me % 3,), float(me)), group=group)
    for rank, found in enumerate(uneven):
        same(found, torch.full((rank % 3,), float(rank)), "all_gather of unequal tensors")
    for dtype in (torch.float32, torch.uint8):
        rows = {rank: data(rank, (size * 3, 5), dtype) for rank in ranks}
        found = torch.empty((size * 3, 5), dtype=dtype)
        dist.all_to_all_single(found, rows[dist.get_rank()], group=group)
        same(found, torch.cat([rows[rank][3 * me : 3 * (me + 1)] for rank in ranks]), f"all_to_all_single {dtype}")
    # Rank a gives rank b a + 2 b rows.
    sizes = {a: [a + 2 * b for b in range(size)] for a in range(size)}
    rows = {a: data(a, (sum(sizes[a]), 3)) for a in range(size)}
    found = torch.empty((sum(sizes[a][me] for a in range(size)), 3))
    dist.all_to_all_single(found, rows[me], [sizes[a][me] for a in range(size)], sizes[me], group=group)
    wanted = [rows[a].split(sizes[a])[me] for a in range(size)]
    same(found, torch.cat(wanted), "all_to_all_single of unequal parts")
    parts = [torch.empty_like(part) for part in wanted]
    dist.all_to_all(parts, list(rows[me].split(sizes[me])), group=group)
    same(torch.cat(parts), torch.cat(wanted), "all_to_all")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": dist.get_rank()}, group=group)
    assert objects == [{"rank": rank} for rank in ranks], objects
    told = [("from", ranks[-1])] if dist.get_rank() == ranks[-1] else [None]
    dist.broadcast_object_list(told, ranks[-1], group=group)
    assert told == [("from", ranks[-1])], told
    dist.barrier(group=group)


def messages(group, ranks):
    me, size = ranks.index(dist.get_rank()), len(ranks)
    if size == 1:
        return
    following, previous = ranks[(me + 1) % size], ranks[(me - 1) % size]
    found = torch.empty(100)
    works = [dist.irecv(found, previous, group=group, tag=3)]
    works.append(dist.isend(data(dist.get_rank(), (100,)), following, group=group, tag=3))
    for work in works:
        work.wait()
    same(found, data(previous, (100,)), "isend and irecv")
    odd = torch.empty(3, dtype=torch.uint8)
    operations = [
        dist.P2POp(dist.isend, torch.full((3,), me, dtype=torch.uint8), following, group),
        dist.P2POp(dist.irecv, odd, previous, group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(odd, torch.full((3,), (me - 1) % size, dtype=torch.uint8), "batch_isend_irecv")
    text = raises((NotImplementedError, RuntimeError), dist.recv, torch.empty(1), group=group)
    assert "source" in text, text


def asynchronous():
    """Works end on the library's threads, in any order, whoever waits."""
    size = dist.get_world_size()
    tensors = [torch.full((1000 * n + 1,), float(n)) for n in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    threads = []
    futures = [work.get_future().then(lambda f: threads.append(threading.get_ident()) or f.value()[0]) for work in works]
    for n, future in reversed(list(enumerate(futures))):
        same(future.wait(), torch.full((1000 * n + 1,), float(n * size)), "a future's value")
    for work in works:
        work.wait()
    half = torch.full((9,), dist.get_rank(), dtype=torch.int8)
    work = dist.all_reduce(half, async_op=True)
    work.wait(datetime.timedelta(seconds=30))
    same(half, torch.full((9,), sum(range(size)), dtype=torch.int8), "an asynchronous call that is widened")
    # Many at once: more than the engine takes, so some wait for room.
    many = [torch.ones(1) for _ in range(300)]
    for work in [dist.all_reduce(tensor, async_op=True) for tensor in many]:
        work.wait()
    assert all(tensor.item() == size for tensor in many)


def refusals():
    """What is not possible is refused on the spot, and the ranks stay in step."""
    for op in (ReduceOp.BAND, ReduceOp.BXOR):
        assert "not supported" in raises((ValueError, RuntimeError), dist.all_reduce, torch.ones(3, dtype=torch.int32), op)
    assert "float8" in raises((TypeError, RuntimeError), dist.all_reduce, torch.ones(4).to(torch.float8_e4m3fn))
    raises((ValueError, RuntimeError), dist.all_gather_into_tensor, torch.empty(3), torch.empty(4))
    raises((ValueError, RuntimeError), dist.all_reduce, torch.ones(3).to_sparse())
    dist.barrier()


def operations():
    # PyTorch's array interface has no code for it: it is known by the tensor's own type, on a GPU too.
    kinds = [railyard.communicator._bfloat16(torch.zeros(1, dtype=kind)) for kind in (torch.bfloat16, torch.float16)]
    assert kinds == ["bf16", None], kinds
    world = list(range(dist.get_world_size()))
    groups = [(None, world), (dist.new_group(world), world)]
    groups += [(dist.new_group([rank]), [rank]) for rank in world]
    if len(world) > 2:
        groups += [(dist.new_group(world[1:]), world[1:]), (dist.new_group(world[::2]), world[::2])]
    for group, ranks in groups:
        if dist.get_rank() in ranks:
            for check in (reductions, scattering, moves, messages):
                check(group, ranks)
    asynchronous()
    refusals()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 5)
        )

    def forward(self, inputs):
        return self.layers(inputs)


def plain():
    """A model without anything that depends on which samples are together."""
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 5))


def batches(steps, world):
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        yield torch.randn(8 * world, 20, generator=generator), torch.randn(8 * world, 5, generator=generator)


def train(model, parameters, share, steps, world):
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    losses = []
    for inputs, targets in batches(steps, world):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(share(inputs)), share(targets))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def own_share(tensor):
    return tensor.chunk(dist.get_world_size())[dist.get_rank()]


def alone(steps):
    """The loss curve of one process with all samples."""
    torch.manual_seed(3)
    model = plain()
    return train(model, model.parameters(), lambda tensor: tensor, steps, dist.get_world_size())


def expect_same_curve(losses, steps):
    dist.all_reduce(losses, ReduceOp.AVG)
    difference = (losses - alone(steps)).abs().max().item()
    assert difference < 1e-5, f"the loss differs from that of one process by {difference}"


def expect_replicas_equal(model):
    for name, tensor in model.state_dict().items():
        every = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(every, tensor)
        for other in every:
            same(other, tensor, f"replicas of {name}")


def ddp():
    from torch.nn.parallel import DistributedDataParallel

    for options in ({}, {"bucket_cap_mb": 0.01}, {"gradient_as_bucket_view": True, "static_graph": True}):
        torch.manual_seed(3 if dist.get_rank() == 0 else 99)
        model = DistributedDataParallel(plain(), **options)
        losses = train(model, model.parameters(), own_share, 6, dist.get_world_size())
        expect_replicas_equal(model)
        expect_same_curve(losses, 6)
    torch.manual_seed(3)
    model = DistributedDataParallel(Model(), find_unused_parameters=True)
    train(model, model.parameters(), own_share, 3, dist.get_world_size())
    dist.barrier()


def fsdp():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    torch.manual_seed(3)
    model = plain()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    expect_same_curve(train(model, model.parameters(), own_share, 6, dist.get_world_size()), 6)
    torch.manual_seed(3)
    model = FullyShardedDataParallel(plain(), device_id=torch.device("cpu"), use_orig_params=True)
    expect_same_curve(train(model, model.parameters(), own_share, 6, dist.get_world_size()), 6)


def libraries():
    """What else builds on process groups: sharding in two dimensions, sharded optimizers, hooks, tensors on a mesh."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.nn.parallel import DistributedDataParallel

    world = dist.get_world_size()
    torch.manual_seed(3)
    model = plain()
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    expect_same_curve(train(model, model.parameters(), own_share, 4, world), 4)

    model = DistributedDataParallel(plain())
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    train(model, model.parameters(), own_share, 3, world)
    expect_replicas_equal(model)

    model = DistributedDataParallel(plain())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.05)
    for inputs, targets in batches(3, world):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(own_share(inputs)), own_share(targets)).backward()
        optimizer.step()
    expect_replicas_equal(model)

    same(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0, torch.full((3,), float(world)), "functional")
    spread = distribute_tensor(torch.arange(2.0 * world), init_device_mesh("cpu", (world,)), [Shard(0)])
    same(spread.full_tensor(), torch.arange(2.0 * world), "a tensor on a mesh")


def lost():
    """Rank 1 ends in the middle of training: the others get an exception that names it, and no hang."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(plain())
    train(model, model.parameters(), own_share, 2, dist.get_world_size())
    if dist.get_rank() == 1:
        os._exit(3)
    text = raises(RuntimeError, train, model, model.parameters(), own_share, 50, dist.get_world_size())
    # Its own node knows which rank it was, the others which node.
    assert "RankLost" in text and ("rank 1" in text or "node 1" in text), text


def main():
    dist.init_process_group("rail", timeout=datetime.timedelta(seconds=60))
    what = sys.argv[1]
    {"operations": operations, "ddp": ddp, "fsdp": fsdp, "libraries": libraries, "lost": lost}[what]()
    print(f"{what} right", flush=True)
    if what == "lost":
        # A rank is missing, so nobody can leave together.
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
