"""One rank of a test job: calls everything in the package and checks what comes back."""

import array
import asyncio
import gc
import os
import sys
import threading
import time

import railyard

COUNT = 1000


def values(rank, count=COUNT):
    return array.array("f", [rank * 100 + at % 50 for at in range(count)])


def expect(found, wanted, what):
    if list(found) != list(wanted):
        sys.exit(f"{what}: {list(found)[:8]}..., not {list(wanted)[:8]}...")


def raises(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        return str(error)
    sys.exit(f"{function} did not raise {kind}")


def every_call(ranks, wait):
    """All operations; without waiting they are all under way at once."""
    rank, size = ranks.rank, ranks.size
    mine, wide = values(rank), values(rank, size * COUNT)
    total, highest, block, moved = values(0), values(0), values(0), values(0, size * COUNT)
    everything, told, got = values(0, size * COUNT), values(rank), values(0)
    following, previous = (rank + 1) % size, (rank - 1) % size
    # Receiving is begun first on all ranks, which only works without waiting.
    receiving = ranks.recv(got, previous, 7, wait=False)
    requests = [
        ranks.barrier(wait=wait),
        ranks.all_reduce(mine, total, wait=wait),
        ranks.all_reduce(mine, highest, "max", wait=wait),
        ranks.all_gather(mine, everything, wait=wait),
        ranks.reduce_scatter(wide, block, wait=wait),
        ranks.broadcast(told, size - 1, wait=wait),
        ranks.all_to_all(wide, moved, wait=wait),
        ranks.send(mine, following, 7, wait=wait),
    ]
    if wait:
        expect(requests, [None] * 8, "waiting calls return nothing")
    else:
        for request in reversed(requests):
            request.wait()
            assert request.done() and request.exception() is None
    receiving.wait(30)
    expect(total, [sum(column) for column in zip(*(values(r) for r in range(size)))], "sum")
    expect(highest, values(size - 1), "max")
    expect(everything, [v for r in range(size) for v in values(r)], "all-gather")
    own = slice(rank * COUNT, (rank + 1) * COUNT)
    expect(block, [sum(column) for column in zip(*(values(r, size * COUNT)[own] for r in range(size)))], "scatter")
    expect(told, values(size - 1), "broadcast")
    expect(moved, [v for r in range(size) for v in values(r, size * COUNT)[own]], "all-to-all")
    expect(got, values(previous), "recv")


def types(ranks):
    for code, dtype in (("d", None), ("i", None), ("q", None), ("B", "i32"), ("h", "f16"), ("H", "bf16")):
        numbers = array.array(code, bytes(64))
        ranks.all_reduce(numbers, dtype=dtype)
        expect(numbers, [0] * len(numbers), code)
    counts = array.array("q", [ranks.rank + 1] * 3)
    ranks.all_reduce(counts, op="prod")
    factorial = 1
    for factor in range(ranks.size):
        factorial *= factor + 1
    expect(counts, [factorial] * 3, "prod")
    nothing = array.array("f")
    ranks.all_reduce(nothing)


def callbacks(ranks):
    over, threads = threading.Event(), []
    numbers = array.array("d", [1.0] * 100_000)
    request = ranks.all_reduce(numbers, wait=False)
    request.add_done_callback(lambda done: (threads.append(threading.get_ident()), over.set()))
    # Nobody waits in the library, and the request may be forgotten.
    del request
    gc.collect()
    assert over.wait(30), "the callback was not called"
    expect(numbers[:3], [float(ranks.size)] * 3, "all-reduce with a callback")
    late = ranks.barrier(wait=False)
    late.wait()
    late.add_done_callback(lambda done: threads.append(done.exception()))
    expect(threads[1:], [None], "a late callback")

    async def several():
        data = [array.array("i", [ranks.rank]) for _ in range(5)]
        await asyncio.gather(*(one(ranks.all_reduce(each, wait=False)) for each in data))
        return [each[0] for each in data]

    async def one(request):
        await request

    expect(asyncio.run(several()), [sum(range(ranks.size))] * 5, "asyncio")


def shared(ranks):
    memory = ranks.alloc(4 * COUNT)
    numbers = memory.cast("f")
    numbers[:] = values(ranks.rank)
    ranks.all_reduce(numbers)
    expect(numbers, [sum(column) for column in zip(*(values(r) for r in range(ranks.size)))], "shared")
    ranks.broadcast(numbers[10:20], 0)
    del memory, numbers
    gc.collect()


def refusals(ranks):
    numbers = values(0)
    raises(railyard.InvalidArgument, ranks.all_reduce, b"read-only", dtype="i32")
    raises(railyard.InvalidArgument, ranks.all_reduce, 5)
    raises(railyard.InvalidArgument, ranks.all_reduce, bytearray(8))
    raises(railyard.InvalidArgument, ranks.all_reduce, numbers, op="median")
    raises(railyard.InvalidArgument, ranks.all_reduce, memoryview(numbers)[::2])
    raises(railyard.InvalidArgument, ranks.all_reduce, array.array("I", [1]), op="min")
    raises(railyard.InvalidArgument, ranks.all_gather, numbers, numbers)
    raises(railyard.InvalidArgument, ranks.broadcast, numbers, ranks.size + 5)
    raises(railyard.InvalidArgument, ranks.send, numbers, -1)
    raises(ValueError, ranks.all_to_all, values(0, ranks.size * 2 + 1), values(0, ranks.size * 2 + 1))
    got = values(0)
    if ranks.rank == 0:
        request = ranks.recv(got, 1, 55, wait=False)
        raises(TimeoutError, request.wait, 0.01)
        ranks.barrier()
        request.wait(30)
        expect(got, values(1), "after a wait that timed out")
    else:
        ranks.barrier()
        if ranks.rank == 1:
            ranks.send(values(1), 0, 55)
    too_many(ranks)


def too_many(ranks):
    """More at once than the engine allows is refused, and harms nothing."""
    begun, requests = os.path.join(os.path.dirname(os.environ["RAIL_ENGINE_SOCKET"]), "begun"), []
    if ranks.rank == 0:
        text = raises(railyard.Exhausted, lambda: [requests.append(ranks.barrier(wait=False)) for _ in range(1000)])
        assert 60 <= len(requests) <= 64 and "wait for one" in text, (len(requests), text)
        with open(begun + ".new", "w") as file:
            file.write(str(len(requests)))
        os.rename(begun + ".new", begun)
    deadline = time.monotonic() + 60
    while not os.path.exists(begun) and time.monotonic() < deadline:
        time.sleep(0.001)
    if ranks.rank > 0:
        with open(begun) as file:
            for _ in range(int(file.read())):
                ranks.barrier()
    for request in requests:
        request.wait()
    ranks.barrier()


def notifications(ranks):
    """A few words to each other rank, which calls nothing meanwhile."""
    ranks.subscribe()
    assert ranks.poll_notification() is None
    ranks.barrier()
    raises(railyard.InvalidArgument, ranks.notify, ranks.rank, (0, 0, 0))
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    for number in range(20):
        for other in others:
            while not ranks.notify(other, (number, (1 << 64) - 1, other)):
                time.sleep(0.001)
    came = dict.fromkeys(others, 0)
    while sum(came.values()) < 20 * len(others):
        found = ranks.poll_notification()
        if found is None:
            time.sleep(0.001)
            continue
        sender, words = found
        assert words == (came[sender], (1 << 64) - 1, ranks.rank), found
        came[sender] += 1
    ranks.barrier()


def lost(ranks):
    """Rank 1 ends without a word: everybody else is told, whether waiting or not."""
    if ranks.rank == 1:
        ranks.recv(values(0), 0, 1)
        os._exit(3)
    told = threading.Event()
    request = ranks.all_reduce(values(0), wait=False)
    request.add_done_callback(lambda _: told.set())
    if ranks.rank == 0:
        ranks.send(values(0), 1, 1)
    assert told.wait(30)
    text = raises(railyard.RankLost, request.wait)
    assert "rank 1" in text, text
    raises(railyard.RankLost, ranks.barrier)
    print("all calls right")


def main():
    ranks = railyard.Communicator()
    if sys.argv[1:] == ["lost"]:
        return lost(ranks)
    every_call(ranks, wait=False)
    every_call(ranks, wait=True)
    types(ranks)
    callbacks(ranks)
    shared(ranks)
    refusals(ranks)
    notifications(ranks)
    ranks.close()
    ranks.close()
    raises(railyard.InvalidArgument, ranks.barrier)
    print("all calls right")


if __name__ == "__main__":
    main()
