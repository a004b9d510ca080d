"""What all operations of the backend stand on."""

import functools

import torch

from . import versions
from .work import RailWork


def operation(title):
    """Names an operation, for profilers (`rail:title`), for messages and for `RailWork`."""

    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments, **named):
            self._made.title = title
            if not torch.autograd._profiler_enabled():
                return method(self, *arguments, **named)
            with versions.recorded(f"rail:{title}", list(_tensors(arguments))):
                return method(self, *arguments, **named)

        return call

    return decorate


def _tensors(arguments):
    """The tensors that are sent: those of the last argument that has any."""
    for argument in reversed(arguments):
        found = [tensor for tensor in _flat(argument) if isinstance(tensor, torch.Tensor)]
        if found:
            return found
    return []


def _flat(argument):
    if isinstance(argument, (list, tuple)):
        for each in argument:
            yield from _flat(each)
    else:
        yield argument


class Operations:
    """Limits, numbers and works. Whoever has this has `_ranks`, `_limit`, `_made`, `_number`, `rank()` and `size()`."""

    def _work(self, requests, finish, result, opts=None, *, source=None, collective=True, asynchronous=None):
        """The work of an operation whose calls have begun."""
        if collective:
            self._number += 1
        if asynchronous is None:
            asynchronous = getattr(opts, "asyncOp", True)
        work = RailWork(
            requests,
            _without_gradients(finish),
            result,
            asynchronous,
            title=getattr(self._made, "title", ""),
            limit=self._seconds(opts),
            number=self._number,
            source=source,
        )
        if getattr(self._made, "wanted", False):
            self._made.work = work
        return work

    def _seconds(self, opts=None):
        """The limit of one call: its own, or else the group's. Beyond the engine's own it has no effect."""
        for timeout in (getattr(opts, "timeout", None), self._limit):
            if timeout is not None and timeout.total_seconds() > 0:
                return timeout.total_seconds()
        return None

    def _expect_all(self, tensors):
        if len(tensors) != self.size():
            raise ValueError(f"backend rail: {len(tensors)} tensors for {self.size()} ranks")


def _without_gradients(function):
    if function is None:
        return None

    def run():
        with torch.no_grad():
            function()

    return run
