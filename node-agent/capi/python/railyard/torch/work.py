"""Works: what PyTorch waits for."""

import threading

import torch

from .. import errors
from . import versions


class RailWork(versions.Work):
    """One or more calls of the engine that together are one operation of PyTorch.

    `finish` runs once after the last of them, on the thread that notices: the library's where the work is asynchronous. `title`, `limit`
    (seconds) and `number` (of the group's collective) are for who asks and for messages; `source` gives the rank that was received from.
    """

    def __init__(self, requests, finish, result, asynchronous, *, title="", limit=None, number=0, source=None):
        super().__init__()
        self._requests = requests
        self._finish = finish
        self._result = result
        self._title, self._limit, self._number, self._source = title, limit, number, source
        self._lock = threading.Lock()
        self._left = len(requests)
        self._over = threading.Event()
        self._error = None
        self._settled = False
        # `_plain` is what ends; `_future` has the error as PyTorch's C++ side knows errors, which `then` alone makes.
        self._plain = self._future = None
        self._watched = False
        if asynchronous or not requests:
            self._watch()

    def _watch(self):
        with self._lock:
            if self._watched:
                return
            self._watched = True
        if not self._requests:
            self._settle()
        for request in self._requests:
            request.add_done_callback(self._one_over)

    def _one_over(self, _):
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._settle()

    def _settle(self):
        """All requests are over: makes the result whole and tells everybody, once."""
        with self._lock:
            if self._settled:
                return
            self._settled = True
        for request in self._requests:
            self._error = self._error or request.exception()
        if self._error is None and self._finish is not None:
            try:
                self._finish()
            except Exception as error:  # Whatever it is, the one who waits is to have it.
                self._error = error
        self._error = self._named(self._error)
        self._finish = None
        with self._lock:
            plain = self._plain
            self._over.set()
        if plain is not None:
            plain.set_result(None)

    def wait(self, timeout=None):
        """True when the operation is complete. Raises what made it fail."""
        seconds = timeout.total_seconds() if timeout is not None else 0
        limit = seconds if seconds > 0 else None
        if not self._watched:
            try:
                for request in self._requests:
                    request.wait(limit)
            except errors.RailError as error:
                if not all(request.done() for request in self._requests):
                    raise self._named(error) from None
            self._settle()
        if not self._over.wait(limit):
            raise errors.TimedOut(
                f"backend rail: Timed out waiting {round(limit * 1000)}ms for {self._title or 'work'}; the operation goes on"
            )
        if self._error is not None:
            raise self._error
        return True

    def _named(self, error):
        """The error with the operation's name, and with the words that programs look for in those of PyTorch's own backends."""
        if isinstance(error, errors.TimedOut):
            limit = f"{round(self._limit * 1000)}ms " if self._limit else ""
            named = errors.TimedOut(f"backend rail: Timed out waiting {limit}for {self._title}: {error}")
        elif isinstance(error, (errors.RankLost, errors.PeerLost, errors.EngineLost)):
            named = type(error)(f"backend rail: Connection closed by peer in {self._title}: {error}", error.status)
        else:
            return error
        named.__cause__ = error
        return named

    def is_completed(self):
        """Whether the operation is over."""
        if not self._watched and all(request.done() for request in self._requests):
            self._settle()
        return self._over.is_set()

    def is_success(self):
        """Whether the operation is over and went well."""
        return self.is_completed() and self._error is None

    def exception(self):
        """What made the operation fail."""
        return self._error

    def result(self):
        """The tensors that the operation changed."""
        return self._result

    def synchronize(self):
        """As `wait`."""
        self.wait()

    def source_rank(self):
        """The rank of the group whose message it got."""
        if self._source is None:
            raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv from any call.")
        return self._source()

    _source_rank = source_rank

    def _get_sequence_number(self):
        return self._number

    def get_future(self):
        """A future with the tensors that the operation changed, completed on a thread of the library."""
        with self._lock:
            made = self._future is None
            if made:
                self._plain = torch.futures.Future()
                self._future = self._plain.then(self._value)
            over = self._over.is_set()
        if made and over:
            self._plain.set_result(None)
        elif made:
            self._watch()
        return self._future

    def _value(self, _):
        if self._error is not None:
            raise self._error
        return self._result
