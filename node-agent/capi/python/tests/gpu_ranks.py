"""One of two ranks on two servers, with arrays on a GPU whose library is a stand-in for CUDA's."""

import array
import ctypes
import os
import sys

import railyard

COUNT = 2048
cuda = ctypes.CDLL(os.environ["RAIL_CUDA_LIBRARY"])
cuda.fake_alloc.restype = ctypes.c_uint64
cuda.fake_alloc.argtypes = [ctypes.c_uint64]
cuda.fake_write.argtypes = cuda.fake_read.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]


class OnGpu:
    """Floats on the GPU, as PyTorch and CuPy show them."""

    def __init__(self, values):
        self.size = len(values) * 4
        self.pointer = cuda.fake_alloc(self.size)
        cuda.fake_write(self.pointer, values.tobytes(), self.size)
        self.__cuda_array_interface__ = {
            "shape": (len(values),),
            "typestr": "<f4",
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }

    def values(self):
        room = ctypes.create_string_buffer(self.size)
        cuda.fake_read(self.pointer, room, self.size)
        return array.array("f", room.raw)


def values(rank, count=COUNT):
    return array.array("f", [rank * 100 + at % 50 for at in range(count)])


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found!r}, not {wanted!r}"[:500])


def raises(function, *arguments):
    try:
        function(*arguments)
    except railyard.InvalidArgument as error:
        return str(error)
    sys.exit(f"{function} did not raise")


with railyard.Communicator() as ranks:
    rank, other = ranks.rank, 1 - ranks.rank
    mine, both = OnGpu(values(rank)), OnGpu(values(9, 2 * COUNT))
    assert "are not registered" in raises(ranks.all_reduce, mine)
    memory, wide = ranks.register(mine), ranks.register((both.pointer, both.size))
    assert memory.direct and memory.way.startswith("dma-buf: "), memory.way
    assert "registered before" in raises(ranks.register, mine)
    expect(ranks.last_way(), wide.way, "the way of the latest registration")

    ranks.all_gather(mine, both)
    assert ranks.last_way().startswith("dma-buf: "), ranks.last_way()
    expect(both.values(), values(0) + values(1), "all_gather")

    if rank == 0:
        ranks.send(mine, 1)
        assert ranks.last_way().startswith("dma-buf: "), ranks.last_way()
    else:
        got = OnGpu(values(5))
        with ranks.register(got):
            ranks.recv(got, 0)
            assert ranks.last_way().startswith("staged: what comes in"), ranks.last_way()
            expect(got.values(), values(0), "recv")

    request = ranks.all_reduce(mine, wait=False)
    assert request.way == "staged: sums are made by the processor", request.way
    request.wait()
    total = array.array("f", [a + b for a, b in zip(values(0), values(1))])
    expect(mine.values(), total, "all_reduce")

    numbers = values(rank)
    request = ranks.all_reduce(numbers, wait=False)
    request.wait()
    expect(request.way, "", "the way of ordinary memory")
    memory.release()
    memory.release()
    assert "are not registered" in raises(ranks.all_reduce, mine)
    assert "no memory of a GPU is registered" in raises(
        lambda: ranks._check(ranks._library.rail_gpu_release(ranks._handle, mine.pointer))
    )
    wide.release()
print("all calls right")
