"""A thread that does one thing after the other."""

import queue
import threading
import weakref
from concurrent.futures import Future


class Worker:
    """A daemon: the interpreter waits for the threads of `concurrent.futures` before the rank is detached, and such a thread may wait
    for other ranks. It ends when nothing refers to this any more."""

    def __init__(self, name):
        self._queue = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._queue,), name=name, daemon=True).start()
        weakref.finalize(self, self._queue.put, None).atexit = False

    def submit(self, function, *arguments):
        """Has it called after all before; a future of its result."""
        future = Future()
        self._queue.put((future, function, arguments))
        return future


def _work(jobs):
    while (job := jobs.get()) is not None:
        future, function, arguments = job
        try:
            result = function(*arguments)
        except BaseException as error:  # Whatever it is, the one who waits is to have it.
            future.set_exception(error)
        else:
            future.set_result(result)
            del result
        # Until the next one comes nothing is to be kept alive.
        del job, future, function, arguments
