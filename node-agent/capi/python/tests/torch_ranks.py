"""One rank of a test job that uses PyTorch on backend rail: every operation and type, groups, DDP, FSDP.

It runs on PyTorch 1.13 and later. What a version has not is skipped, and rank 0 says what and why: lines that begin with "skipped".

Argument: operations, apart, ddp, fsdp, libraries, lost, late, interrupted, torchrun. All ranks compute what every
rank has, so each checks its own results.
"""

import datetime
import importlib.util
import inspect
import os
import signal
import sys
import tempfile
import threading
import time

import railyard.communicator
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

if not hasattr(dist.Backend, "RAIL"):
    # With an installed wheel PyTorch has found the backend by itself.
    import railyard.torch  # noqa: F401
from railyard.torch import versions  # noqa: E402


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


def skipped(what, why):
    """Says once what this version of PyTorch cannot be tested with."""
    if dist.get_rank() == 0 and what not in SKIPPED:
        SKIPPED.add(what)
        print(f"skipped: {what}: PyTorch {torch.__version__} {why}", flush=True)


SKIPPED = set()
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
            # Expected numbers are exact in double precision, and old versions know no such operations of half precision on the CPU.
            exact = torch.complex128 if dtype.is_complex else torch.float64
            every = [data(rank, dtype=dtype).to(exact) for rank in ranks]
            if op == ReduceOp.PRODUCT:
                # Products stay exact with factors of 0, 1 and 2.
                every = [one.clamp(0, 2) for one in every]
            wanted = every[0]
            for other in every[1:]:
                wanted = fold(wanted, other)
            wanted = wanted.to(dtype)
            found = every[me].to(dtype, copy=True)
            dist.all_reduce(found, op, group=group)
            same(found, wanted, f"all_reduce {op} {dtype}")
            found = every[me].to(dtype).t().clone(memory_format=torch.preserve_format)
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
    any_source(group, ranks)


def any_source(group, ranks):
    """The first rank receives from whoever sends; messages of one sender stay in order, also with receives that name it."""
    me, size = ranks.index(dist.get_rank()), len(ranks)
    if me:
        for turn in range(3):
            dist.send(torch.tensor([float(dist.get_rank()), float(turn)]), ranks[0], group=group, tag=5)
        dist.barrier(group=group)
        for turn in range(2 if me == 1 else 0):
            dist.send(torch.full((4,), float(turn)), ranks[0], group=group, tag=6)
        return
    turns = dict.fromkeys(ranks[1:], 0)
    for number in range(3 * (size - 1)):
        found = torch.empty(2)
        if number % 2:
            sender = dist.recv(found, group=group, tag=5)
        else:
            work = dist.irecv(found, group=group, tag=5)
            work.wait()
            assert work.is_completed() and work.is_success(), work
            sender = ranks[work._source_rank()]
        same(found, torch.tensor([float(sender), float(turns[sender])]), "a message from any rank")
        turns[sender] += 1
    assert set(turns.values()) == {3}, turns
    # Begun before there is anything to receive: what comes first goes to what was called first.
    first, second = torch.empty(4), torch.empty(4)
    works = [dist.irecv(first, group=group, tag=6), dist.irecv(second, ranks[1], group=group, tag=6)]
    assert not works[0].is_completed() and not works[1].is_completed()
    dist.barrier(group=group)
    for work in works:
        work.wait()
    same(torch.stack([first, second]), torch.tensor([[0.0] * 4, [1.0] * 4]), "receives in their order")


def coalesced(group, ranks):
    me, size = ranks.index(dist.get_rank()), len(ranks)
    lists = [[torch.empty(3), torch.empty((0, 2)), torch.empty((2, 2))] for _ in ranks]
    dist.all_gather_coalesced(lists, [torch.full((3,), float(me)), torch.empty((0, 2)), torch.full((2, 2), float(me))], group=group)
    for rank, found in enumerate(lists):
        same(found[0], torch.full((3,), float(rank)), "all_gather_coalesced")
        same(found[2], torch.full((2, 2), float(rank)), "all_gather_coalesced")
    at = torch.tensor([[me, 0], [1, 2]])
    found = torch.sparse_coo_tensor(at, torch.tensor([1.0 + me, 2.0]), (size, 3))
    wanted = sum(torch.sparse_coo_tensor(torch.tensor([[n, 0], [1, 2]]), [1.0 + n, 2.0], (size, 3)).to_dense() for n in range(size))
    dist.all_reduce(found, group=group)
    same(found.to_dense(), wanted, "all_reduce of sparse tensors")
    assert found.is_sparse
    # Works of several steps and of one step follow each other in the order of calls.
    numbers, moved = torch.full((5,), float(me)), [torch.empty(2) for _ in ranks]
    works = [dist.all_reduce(numbers, group=group, async_op=True)]
    works.append(dist.all_gather(moved, torch.full((2,), float(me)), group=group, async_op=True))
    for work in works:
        work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
    same(numbers, torch.full((5,), float(sum(range(size)))), "all_reduce before all_gather")
    same(torch.stack(moved)[:, 0], torch.arange(float(size)), "all_gather after all_reduce")


def monitored(group, ranks):
    """Who does not come to a monitored barrier is named by its first rank, and nothing else is harmed."""
    me, size = ranks.index(dist.get_rank()), len(ranks)
    barrier = monitored_barrier(group)
    barrier(group, timeout=datetime.timedelta(seconds=30))
    barrier(group, timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
    if size > 1 and me != size - 1:
        # The first rank answers those who came when its own time is over.
        short = datetime.timedelta(seconds=30 if me else 0.3)
        text = raises(RuntimeError, barrier, group, timeout=short)
        wanted = f"Rank {me} successfully reached monitoredBarrier" if me else f"Rank {size - 1} failed to pass monitoredBarrier"
        assert wanted in text, text
    dist.barrier(group=group)


def monitored_barrier(group):
    """The function of `torch.distributed`, where it takes other backends than Gloo, or else the group's own."""
    if versions.HAS_BACKENDS or "is only implemented for GLOO" not in inspect.getsource(dist.monitored_barrier):
        return dist.monitored_barrier
    skipped("dist.monitored_barrier", "has it for Gloo alone; the group's own one is tested")

    def own(group, timeout, wait_all_ranks=False):
        options = dist.BarrierOptions() if hasattr(dist, "BarrierOptions") else torch._C._distributed_c10d.BarrierOptions()
        options.timeout = timeout
        return (group or dist.group.WORLD).monitored_barrier(options, wait_all_ranks)

    return own


def names(group, ranks):
    group = group or dist.group.WORLD
    assert dist.get_backend(group) == "rail" and group.name() == "rail", group.name()
    before = group._get_sequence_number_for_group()
    dist.barrier(group=group)
    dist.all_reduce(torch.ones(1), group=group)
    assert group._get_sequence_number_for_group() == before + 2
    with torch.autograd.profiler.profile(record_shapes=True) as found:
        dist.all_reduce(torch.ones(2, 3), group=group)
    events = [event for event in found.function_events if event.name == "rail:all_reduce"]
    assert len(events) == 1, events
    if shapes_are_recorded():
        assert events[0].input_shapes == [[2, 3]], events[0].input_shapes
    else:
        skipped("shapes of profiler events", "records none for events in Python")


def shapes_are_recorded():
    """Whether events in Python come with the shapes of their tensors."""
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    try:
        return fast is not None and fast("none", [torch.ones(1)]) is not None
    except TypeError:
        return False


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
    if hasattr(torch, "float8_e4m3fn"):
        assert "float8" in raises((TypeError, RuntimeError), dist.all_reduce, torch.ones(4).to(torch.float8_e4m3fn))
    else:
        skipped("float8", "has no such type")
    raises((ValueError, RuntimeError), dist.all_gather_into_tensor, torch.empty(3), torch.empty(4))
    raises(ValueError, dist.all_reduce, torch.ones(3).to_sparse(), ReduceOp.MAX)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    wrong = [[torch.ones(1).double()] * dist.get_world_size()]
    for wanted, call in {
        "invalid root rank": lambda: dist.group.WORLD.broadcast(torch.ones(1), root=99),
        "requires non-empty tensor list": lambda: backend.allreduce([]),
        "invalid tensor type": lambda: backend.allgather(wrong, [torch.ones(1)]),
    }.items():
        text = raises(ValueError, call)
        assert wanted in text, text
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
            for check in (reductions, scattering, moves, messages, coalesced, monitored, names):
                check(group, ranks)
    asynchronous()
    refusals()


def apart():
    """Groups of all ranks are groups of their own, and many calls begun before any is waited for find room."""
    me, size = dist.get_rank(), dist.get_world_size()
    twin = dist.new_group(list(range(size)))
    if me == 0:
        found, other = torch.empty(1), torch.empty(1)
        work = dist.irecv(found, tag=3)
        store = dist.distributed_c10d._get_default_store()
        store.set("receiving", "1")
        dist.recv(other, 1, group=twin, tag=3)
        same(other, torch.tensor([1.0]), "a message of another group of all ranks")
        assert not work.is_completed()
        dist.barrier()
        work.wait()
        same(found, torch.tensor([2.0]), "a message of the default group")
    else:
        dist.distributed_c10d._get_default_store().wait(["receiving"])
        if me == 1:
            dist.send(torch.tensor([1.0]), 0, group=twin, tag=3)
        dist.barrier()
        if me == 1:
            dist.send(torch.tensor([2.0]), 0, tag=3)
    for tag, group in ((-1, None), (-1, twin)):
        assert "Tag must be nonnegative" in raises(ValueError, dist.send, torch.ones(1), (me + 1) % size, group=group, tag=tag)
    # Exchanges of both groups on two threads, each in an order of its own.
    wrong = []

    def exchange(group, add):
        for turn in range(20):
            sizes = [1 + (turn + rank) % 2 for rank in range(size)]
            found = [torch.empty(length) for length in sizes]
            dist.all_gather(found, torch.full((sizes[me],), float(100 * turn + me + add)), group=group)
            wanted = [torch.full((length,), float(100 * turn + rank + add)) for rank, length in enumerate(sizes)]
            if not all(map(torch.equal, found, wanted)):
                wrong.append((turn, add, found))

    threads = [threading.Thread(target=exchange, args=arguments) for arguments in ((None, 0), (twin, 50))]
    for thread in threads[:: 1 if me % 2 else -1]:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:2]
    many = [torch.full((5,), float(me + number)) for number in range(100)]
    begin = time.monotonic()
    dist.all_reduce_coalesced(many)
    took = time.monotonic() - begin
    for number, tensor in enumerate(many):
        same(tensor, torch.full((5,), float(size * number + sum(range(size)))), "one of 100 tensors")
    assert took < 20, f"100 tensors took {took} s"
    # Destroyed, a group leaves nothing.
    world, backend = (getattr(group, "_rail", group) for group in (dist.group.WORLD, twin))
    mail, key = world._calls.mail, backend._group
    mail._here[key] = {1: 1}
    dist.destroy_process_group(twin)
    if versions.HAS_BACKENDS or ".shutdown()" in inspect.getsource(dist.destroy_process_group):
        assert key not in mail._here, mail._here
    else:
        skipped("the end of a group", "does not say it to the group")
    assert world._made.__dict__.get("work") is None


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
    if not has("torch.distributed.device_mesh"):
        return skipped("fsdp", "has neither device meshes nor fully sharded parameters on the CPU")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    if fully_shards():
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


def fully_shards():
    """Whether this version's fully_shard works on the CPU, whatever the backend: its pass records an event of a stream, which 2.6's CPU has not."""
    works = hasattr(torch.cpu.Stream, "record_event")
    if not works:
        skipped("fully_shard", "has no events of the CPU's streams, with Gloo neither")
    return works


def has(module):
    """Whether this version has a module."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def libraries():
    """What else builds on process groups: sharding in two dimensions, sharded optimizers, hooks, tensors on a mesh."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    world = dist.get_world_size()
    torch.manual_seed(3)
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
    if has("torch.distributed.device_mesh"):
        meshes(world)
    else:
        skipped("meshes and checkpoints", "has no device meshes")
    loader()


def meshes(world):
    """A model that is sharded in two dimensions, functional collectives, tensors on a mesh, a checkpoint."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    if fully_shards():
        torch.manual_seed(3)
        model = plain()
        fully_shard(model, mesh=mesh)
        expect_same_curve(train(model, model.parameters(), own_share, 4, world), 4)
    same(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD) + 0, torch.full((3,), float(world)), "functional")
    spread = distribute_tensor(torch.arange(2.0 * world), init_device_mesh("cpu", (world,)), [Shard(0)])
    same(spread.full_tensor(), torch.arange(2.0 * world), "a tensor on a mesh")
    checkpoint(mesh)


def checkpoint(mesh):
    """A sharded model is saved by all ranks and read back by all."""
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    models = []
    for seed in (3, 4):
        torch.manual_seed(seed)
        models.append(plain())
        fully_shard(models[-1], mesh=mesh)
    one, other = models
    dcp.save(get_model_state_dict(one), checkpoint_id=folder[0])
    state = get_model_state_dict(other)
    dcp.load(state, checkpoint_id=folder[0])
    set_model_state_dict(other, state)
    for mine, found in zip(one.parameters(), other.parameters(), strict=True):
        same(found.full_tensor(), mine.full_tensor(), "a parameter from a checkpoint")


class Squares(torch.utils.data.Dataset):
    """What a loader's workers, which are forked, give."""

    def __len__(self):
        return 32

    def __getitem__(self, at):
        return torch.full((3,), float(at * at))


def loader():
    """Forked workers of a data loader come and go while the rank's collectives go on."""
    shares = torch.utils.data.distributed.DistributedSampler(Squares(), shuffle=False)
    for _ in range(2):
        total = torch.zeros(1)
        loads = torch.utils.data.DataLoader(
            Squares(), batch_size=4, sampler=shares, num_workers=2, multiprocessing_context="fork"
        )
        for batch in loads:
            part = batch[:, 0].sum().reshape(1)
            dist.all_reduce(part)
            total += part
        same(total, torch.tensor([float(sum(at * at for at in range(32)))]), "what all workers have loaded")


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


def late():
    """ctrl-C ends a wait at once, and the ranks stay in step; a barrier to which nobody comes says that in PyTorch's words."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        begin = time.monotonic()
        try:
            store.set("pid", str(os.getpid()))
            dist.barrier()
            sys.exit("the barrier ended, and nobody else was there")
        except KeyboardInterrupt:
            took = time.monotonic() - begin
        assert took < 20, f"ctrl-C took {took} s"
        store.set("interrupted", "1")
        dist.new_group()
        store.wait(["late"])
        store.set("left", "1")
    else:
        pid = int(store.get("pid"))
        # Surely in the wait by then; if not, the test proves less.
        time.sleep(0.5)
        os.kill(pid, signal.SIGINT)
        store.wait(["interrupted"])
        dist.barrier()
        short = dist.new_group()
        # Later: making a group has the group's limit too.
        short.set_timeout(datetime.timedelta(seconds=1))
        begin = time.monotonic()
        text = raises(RuntimeError, dist.barrier, short)
        assert " Timed out " in text and 0.9 < time.monotonic() - begin < 20, text
        store.set("late", "1")
        # The store ends with this process.
        store.wait(["left"])


def interrupted():
    """ctrl-C in a collective of some ranks ends the process, though the group's thread still waits for the others."""
    store = dist.distributed_c10d._get_default_store()
    group = dist.new_group([0, 1])
    if dist.get_rank() == 1:
        store.set("pid", str(os.getpid()))
        try:
            dist.broadcast(torch.ones(3), 0, group=group)
        except KeyboardInterrupt:
            store.set("interrupted", "1")
            print("interrupted right", flush=True)
        # As the interpreter does it, without leaving together.
        sys.exit(0)
    if dist.get_rank() == 0:
        pid = int(store.get("pid"))
        # Surely in the wait by then; if not, the test proves less.
        time.sleep(0.5)
        os.kill(pid, signal.SIGINT)
        store.wait(["interrupted"])
        until = time.monotonic() + 20
        while not ended(pid):
            assert time.monotonic() < until, "rank 1 does not end"
            time.sleep(0.01)
        store.set("ended", "1")
    store.wait(["ended"])


def ended(pid):
    """Whether a process is over, though nobody has asked for its exit code."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def torchrun():
    """Started by torchrun, one agent for each rank of the job."""
    assert os.environ["TORCHELASTIC_RUN_ID"] and dist.get_rank() == int(os.environ["RANK"])
    found = torch.ones(3)
    dist.all_reduce(found)
    same(found, torch.full((3,), float(dist.get_world_size())), "all_reduce")


def main():
    # Whoever starts tests in the background has them ignore it, and Python leaves that as it is.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    dist.init_process_group("rail", timeout=datetime.timedelta(seconds=60))
    what = sys.argv[1]
    known = {"operations": operations, "ddp": ddp, "fsdp": fsdp, "libraries": libraries, "apart": apart}
    (known | {"lost": lost, "late": late, "interrupted": interrupted, "torchrun": torchrun})[what]()
    print(f"{what} right", flush=True)
    if what in ("lost", "late", "interrupted"):
        # The job has failed, so nobody can leave together.
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
