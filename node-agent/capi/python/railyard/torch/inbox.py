"""Receives that may take what any rank has sent.

The engine has a queue for each sender and tag. So senders announce each message by a notification, and a receive from any rank becomes
one from a rank whose message is announced and not yet received. Receives of one tag are begun in the order in which they are called.
"""

import collections
import threading
import time
from concurrent.futures import Future

from .. import errors

#: Pauses of the thread that waits for announcements, in seconds: they grow while nothing comes.
_SHORT, _LONG = 0.0001, 0.002


class Inbox:
    """The messages that are announced to this process, and the receives that wait for them."""

    def __init__(self):
        self.mail = None
        self._lock = threading.Lock()
        #: Messages announced less receives begun, for each (sender, tag) where they differ.
        self._open = collections.Counter()
        #: For each tag the receives that are not begun: the first is from any rank.
        self._waiting = {}
        self._thread = None

    def announced(self, sender, tag):
        """A message has been sent to this process."""
        with self._lock:
            self._count(sender, tag, 1)
            started = self._serve(tag)
        _start(started)

    def recv(self, sender, tag, begin, limit):
        """Begins a receive by `begin(sender)`, at once unless one from any rank with the same tag waits. Returns what to wait for."""
        with self._lock:
            if tag not in self._waiting:
                requests = begin(sender)
                self._count(sender, tag, -1)
                return requests
        return self._wait(Turn((sender,), begin, limit, False), tag)

    def recv_any(self, members, tag, begin, limit):
        """Begins a receive by `begin(sender)` from the first of `members` that has sent. Returns what to wait for."""
        self.mail.take()
        return self._wait(Turn(members, begin, limit, True), tag)

    def _wait(self, turn, tag):
        with self._lock:
            self._waiting.setdefault(tag, collections.deque()).append(turn)
            started = self._serve(tag)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="rail-any-source", daemon=True)
                self._thread.start()
        _start(started)
        return [turn]

    def _count(self, sender, tag, change):
        self._open[sender, tag] += change
        if not self._open[sender, tag]:
            del self._open[sender, tag]

    def _serve(self, tag):
        """Begins as many receives of the tag as can be. Returns what is to be said of them once nothing is locked."""
        started, queue = [], self._waiting.get(tag)
        while queue:
            turn = queue[0]
            sender = turn.choose(lambda rank: self._open.get((rank, tag), 0) > 0)
            if sender is None:
                return started
            queue.popleft()
            try:
                started.append((turn.begun, (sender, turn.begin(sender))))
                self._count(sender, tag, -1)
            except Exception as error:  # Whatever it is, the one who waits is to have it.
                started.append((turn.fail, (error,)))
        self._waiting.pop(tag, None)
        return started

    def _watch(self):
        """Takes announcements in until no receive waits."""
        pause = _SHORT
        while True:
            with self._lock:
                waiting = sum(map(len, self._waiting.values()))
                if not waiting:
                    self._thread = None
                    return
            try:
                self.mail.take()
            except Exception as error:  # The job has failed: all that wait are to know.
                failure = error
                self._fail(lambda _, failure=failure: failure)
            now = time.monotonic()
            self._fail(lambda turn: turn.late(now))
            with self._lock:
                moved = sum(map(len, self._waiting.values())) != waiting
            pause = _SHORT if moved else min(_LONG, pause * 1.3)
            time.sleep(pause)

    def _fail(self, why):
        """Ends the receives for which there is a reason."""
        ended = []
        with self._lock:
            for tag in list(self._waiting):
                kept = collections.deque()
                for turn in self._waiting[tag]:
                    error = why(turn)
                    if error is None:
                        kept.append(turn)
                    else:
                        ended.append((turn.fail, (error,)))
                self._waiting[tag] = kept
                ended += self._serve(tag)
        _start(ended)


def _start(started):
    """Says of receives that they have begun, or failed: whoever waits for them goes on, so nothing may be locked."""
    for function, arguments in started:
        function(*arguments)


class Turn:
    """A receive that waits for its turn; waited for as a `railyard.Request` is."""

    def __init__(self, members, begin, limit, any_source):
        self._members, self._any = list(members), any_source
        self.begin = begin
        self._limit = limit
        self._deadline = None if limit is None else time.monotonic() + limit
        self._future = Future()
        #: The rank of the job whose message it gets.
        self.sender = None

    def choose(self, has_sent):
        """The rank to receive from, or None if none has sent."""
        return next((rank for rank in self._members if has_sent(rank)), None) if self._any else self._members[0]

    def late(self, now):
        """Why it fails, if its time is over."""
        if self._deadline is None or now < self._deadline:
            return None
        return errors.TimedOut(f"nothing came from any of ranks {self._members} within {self._limit} s")

    def begun(self, sender, requests):
        """The receive has begun."""
        self.sender = sender
        left = [len(requests)]
        lock = threading.Lock()

        def one_over(_):
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                found = (request.exception() for request in requests)
                error = next((each for each in found if each is not None), None)
                if error is None:
                    self._future.set_result(None)
                else:
                    self.fail(error)

        for request in requests:
            request.add_done_callback(one_over)

    def fail(self, error):
        """The receive has failed."""
        self._future.set_exception(error)

    def done(self):
        """Whether it is over, well or not."""
        return self._future.done()

    def wait(self, timeout=None):
        """Returns when it is complete. Raises what made it fail, or TimedOut after `timeout` seconds (and it goes on)."""
        try:
            self._future.result(timeout)
        except TimeoutError as error:
            if self._future.done():
                raise
            raise errors.TimedOut(f"not complete within {timeout} s; the operation goes on") from error

    def exception(self):
        """What made it fail, if it is over and did."""
        return self._future.exception() if self._future.done() else None

    def add_done_callback(self, function):
        """Has `function(self)` called when it is over."""
        self._future.add_done_callback(lambda _: function(self))
