"""The ranks of a process group: all of the job, which the engine serves itself, or some, which exchange messages.

Both give the same calls, on addresses; each returns what to wait for (see `railyard.Request`).
"""

import ctypes
import threading
import time
import weakref
import zlib

import torch

from .. import _library, errors
from . import checks, types
from .inbox import Inbox
from .mail import SENT, Mail
from .worker import Worker

#: Tags of the backend's own messages; those of programs are below.
_OWN = 0x8000_0000
#: Messages that one rank has under way at once in each direction; the engine allows 64 calls in all.
_WAVE = 12
#: Requests that are kept in mind before those that are over are dropped: more than the engine allows.
_SWEEP = 128
#: How long a call that must not wait for room waits for another that begins, in seconds.
_SHORT = 0.01
#: How long to wait for room where the engine's limit of calls is reached.
_PATIENCE = 60.0


class Calls:
    """Begins calls of the engine in order, and waits for room where too many are under way."""

    def __init__(self, communicator):
        self.communicator = communicator
        self._lock = threading.Lock()
        self._timeout = None
        #: Requests that were begun and may go on, weakly: whoever began them may drop them.
        self._begun = []
        self.inbox = Inbox()
        self.mail = self.inbox.mail = Mail(communicator, self.inbox)
        self._met = False

    def meet(self, store, size, timeout):
        """Returns when all ranks of the job are attached: from then on nobody misses a notification."""
        if self._met or not self.mail.available:
            return
        turn, place = divmod(store.add("rail/attached", 1) - 1, size)
        if place == size - 1:
            store.set(f"rail/all-attached/{turn}", "1")
        store.wait([f"rail/all-attached/{turn}"], timeout)
        self._met = True

    def begin(self, name, arguments, keep, timeout=None):
        """Begins one call, limited to `timeout` seconds if that is not None."""
        with self._lock:
            patience = time.monotonic() + _PATIENCE
            while True:
                try:
                    return self._begin(name, arguments, keep, timeout)
                except errors.Exhausted as error:
                    if not is_full(error) or time.monotonic() > patience:
                        raise
                    time.sleep(0.0005)

    def try_begin(self, name, arguments, keep, timeout=None):
        """The same, but raises Exhausted where it would have to wait for room."""
        if not self._lock.acquire(timeout=_SHORT):
            raise errors.Exhausted("others wait for room: too many calls are under way")
        try:
            return self._begin(name, arguments, keep, timeout)
        finally:
            self._lock.release()

    def _begin(self, name, arguments, keep, timeout):
        if timeout != self._timeout:
            self.communicator.set_timeout(timeout)
            self._timeout = timeout
        try:
            request = self.communicator.call(name, arguments, keep, False)
        except errors.Exhausted:
            # Ranks of one server move their data themselves, and whoever began these calls may be the one who waits for room.
            self._begun = [each for each in self._begun if (found := each()) is not None and not found.over]
            for each in self._begun:
                if (found := each()) is not None:
                    found.progress()
            raise
        self._begun.append(weakref.ref(request))
        if len(self._begun) > _SWEEP:
            self._begun = [each for each in self._begun if (found := each()) is not None and not found.over]
        return request


def is_full(error):
    """Whether the error says that there is no room for a call now."""
    return isinstance(error, errors.Exhausted) and "under way" in str(error)


class Whole:
    """All ranks of the job, in their order. Messages of a group with a name meet those of no other group."""

    def __init__(self, calls, rank, size, name=""):
        self.calls, self.rank, self.size, self._name = calls, rank, size, name
        self._last = self._worker = None

    def members(self):
        """The group's ranks as ranks of the job."""
        return list(range(self.size))

    def all_reduce(self, numbers, timeout):
        how = numbers.how
        arguments = (numbers.address, numbers.address, numbers.count, how.code, how.op)
        return [self.calls.begin("all_reduce", arguments, numbers, timeout)]

    def reduce_scatter(self, numbers, out, timeout):
        how = numbers.how
        arguments = (numbers.address, out.data_ptr(), out.numel(), how.code, how.op)
        return [self.calls.begin("reduce_scatter", arguments, (numbers, out), timeout)]

    def all_gather(self, source, target, nbytes, keep, timeout):
        code, count = types.carrier(nbytes)
        return [self.calls.begin("all_gather", (source, target, count, code), keep, timeout)]

    def all_to_all(self, source, target, nbytes, keep, timeout):
        code, count = types.carrier(nbytes)
        return [self.calls.begin("all_to_all", (source, target, count, code), keep, timeout)]

    def broadcast(self, address, nbytes, root, keep, timeout):
        code, count = types.carrier(nbytes)
        return [self.calls.begin("broadcast", (address, count, code, root), keep, timeout)]

    def barrier(self, timeout):
        return [self.calls.begin("barrier", (), None, timeout)]

    def exchange(self, sends, receives, keep, timeout):
        """Sends each (address, nbytes) of `sends` to its rank and receives likewise; None and no bytes are left out."""
        steps = list(self._steps(sends, receives))
        if len(steps) <= _WAVE and (self._last is None or self._last.done()):
            return [request for step in steps for request in self._begin(step, keep, timeout)]
        return self._task(lambda: self._exchange(steps, keep, timeout))

    def _task(self, function):
        """Has it done after all tasks before, on the group's thread: messages of the group are in the order of its operations."""
        if self._worker is None:
            self._worker = Worker("rail-group")
        self._last = Task(self._worker, function)
        return [self._last]

    def send(self, address, nbytes, to, tag, keep, timeout):
        code, count = types.carrier(nbytes)
        to, tag = self._global(to), self._tag(tag)
        requests = [self.calls.begin("send", (address, count, code, to, tag), keep, timeout)]
        if self.calls.mail.available:
            self.calls.mail.take()
            self.calls.mail.send(to, SENT, tag)
        return requests

    def recv(self, address, nbytes, sender, tag, keep, timeout):
        self.calls.mail.take()
        begin = self._receive(address, nbytes, self._tag(tag), keep)
        return self.calls.inbox.recv(self._global(sender), self._tag(tag), begin, timeout)

    def recv_any(self, address, nbytes, tag, keep, timeout):
        others = [member for at, member in enumerate(self.members()) if at != self.rank]
        begin = self._receive(address, nbytes, self._tag(tag), keep)
        return self.calls.inbox.recv_any(others, self._tag(tag), begin, timeout)

    def _receive(self, address, nbytes, tag, keep):
        """What begins a receive once its sender, and how long it may still take, are known; raises where there is no room."""
        code, count = types.carrier(nbytes)
        return lambda sender, left: [self.calls.try_begin("recv", (address, count, code, sender, tag), keep, left)]

    def _global(self, rank):
        return rank

    def _tag(self, tag):
        """The engine's tag for a program's one."""
        checks.tag(tag)
        return zlib.crc32(f"{self._name}/{tag}".encode()) & 0x7FFF_FFFF if self._name else tag

    def _own_tag(self):
        return _OWN | zlib.crc32(self._name.encode()) if self._name else _OWN

    def _steps(self, sends, receives):
        """Whom to send to and whom to receive from, so that no step of one rank waits for a later one of another."""
        if sends[self.rank] is not None and receives[self.rank] is not None:
            ctypes.memmove(receives[self.rank][0], sends[self.rank][0], sends[self.rank][1])
        for distance in range(1, self.size):
            to, sender = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            step = []
            if receives[sender] is not None and receives[sender][1] > 0:
                step.append(("recv", sender, *receives[sender]))
            if sends[to] is not None and sends[to][1] > 0:
                step.append(("send", to, *sends[to]))
            if step:
                yield step

    def _begin(self, step, keep, timeout):
        for name, peer, address, nbytes in step:
            code, count = types.carrier(nbytes)
            arguments = (address, count, code, self._global(peer), self._own_tag())
            yield self.calls.begin(name, arguments, keep, timeout)

    def _exchange(self, steps, keep, timeout):
        """An exchange from beginning to end, a few steps at a time."""
        for first in range(0, len(steps), _WAVE):
            wave = [request for step in steps[first : first + _WAVE] for request in self._begin(step, keep, timeout)]
            for request in wave:
                request.wait()


class Part(Whole):
    """Some ranks of the job. The engine has one communicator for all, so these exchange messages and reduce themselves, in
    the order of ranks. Operations of more than one step run on a thread of the group."""

    def __init__(self, calls, rank, members, name):
        super().__init__(calls, rank, len(members), name)
        self._members = members

    def members(self):
        return list(self._members)

    def all_reduce(self, numbers, timeout):
        if self.size == 1:
            return []

        def run():
            block = -(-numbers.count // self.size)
            wide = numbers.memory.new_zeros(block * self.size)
            wide[: numbers.count] = numbers.memory.view(-1)
            own = self._reduced(wide, block, numbers.how, timeout)
            self._gather(own.data_ptr(), wide.data_ptr(), block * wide.element_size(), (own, wide), timeout)
            numbers.memory.view(-1).copy_(wide[: numbers.count])

        return self._task(run)

    def reduce_scatter(self, numbers, out, timeout):
        def run():
            out.view(-1).copy_(self._reduced(numbers.memory.view(-1), out.numel(), numbers.how, timeout))

        return self._task(run)

    def all_gather(self, source, target, nbytes, keep, timeout):
        sends = [(source, nbytes)] * self.size
        receives = [(target + rank * nbytes, nbytes) for rank in range(self.size)]
        return self.exchange(sends, receives, keep, timeout)

    def all_to_all(self, source, target, nbytes, keep, timeout):
        sends = [(source + rank * nbytes, nbytes) for rank in range(self.size)]
        receives = [(target + rank * nbytes, nbytes) for rank in range(self.size)]
        return self.exchange(sends, receives, keep, timeout)

    def broadcast(self, address, nbytes, root, keep, timeout):
        if self.size == 1:
            return []

        def run():
            # A binomial tree: in each round those who have it send it on.
            place, mask = (self.rank - root) % self.size, 1
            while mask < self.size and not place & mask:
                mask <<= 1
            if place:
                sender = (self.rank - mask) % self.size
                self._wait(("recv", sender, address, nbytes), keep, timeout)
            while mask > 1:
                mask >>= 1
                if place + mask < self.size:
                    self._wait(("send", (self.rank + mask) % self.size, address, nbytes), keep, timeout)

        return self._task(run)

    def barrier(self, timeout):
        token = torch.zeros(self.size + 1, dtype=torch.int16)
        return self.all_gather(token.data_ptr() + 2 * self.size, token.data_ptr(), 2, token, timeout)

    def _wait(self, message, keep, timeout):
        for request in self._begin([message], keep, timeout):
            request.wait()

    def _gather(self, source, target, nbytes, keep, timeout):
        sends = [(source, nbytes)] * self.size
        receives = [(target + rank * nbytes, nbytes) for rank in range(self.size)]
        self._exchange(list(self._steps(sends, receives)), keep, timeout)

    def _reduced(self, wide, block, how, timeout):
        """This rank's block of the reduction of all ranks' `wide`, folded in the order of ranks."""
        nbytes = block * wide.element_size()
        parts = wide.new_empty((self.size, block))
        sends = [(wide.data_ptr() + rank * nbytes, nbytes) for rank in range(self.size)]
        receives = [(parts.data_ptr() + rank * nbytes, nbytes) for rank in range(self.size)]
        self._exchange(list(self._steps(sends, receives)), (wide, parts), timeout)
        half = how.dtype in (torch.float16, torch.bfloat16)
        parts = parts.float() if half else parts
        fold = {"sum": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}
        fold = next(function for name, function in fold.items() if _library.OPS[name] == how.op)
        result = parts[0].clone()
        for part in parts[1:]:
            result = fold(result, part)
        return result.to(how.dtype)

    def _global(self, rank):
        return self._members[rank]


class Task:
    """Something of several steps on another thread; waited for as a `railyard.Request` is."""

    def __init__(self, worker, function):
        self._future = worker.submit(self._run, function)

    @staticmethod
    def _run(function):
        with torch.no_grad():
            function()

    def done(self):
        return self._future.done()

    def wait(self, timeout=None):
        try:
            self._future.result(timeout)
        except TimeoutError as error:
            if isinstance(error, errors.RailError):
                raise
            raise errors.TimedOut(f"not complete within {timeout} s; the operation goes on") from None

    def exception(self):
        return self._future.exception() if self._future.done() else None

    def add_done_callback(self, function):
        self._future.add_done_callback(lambda _: function(self))
