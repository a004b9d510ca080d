"""Receives that may take what any rank has sent.

The engine has a queue for each sender and tag. So senders announce each message by a notification, and a receive from any rank becomes
one from the rank whose message was announced first and is not yet received. Receives of one tag are begun in the order in which they are called.
"""

import collections
import contextlib
import threading
import time
from concurrent.futures import Future

from .. import errors

#: How long a receive may wait for room for its call, in seconds.
_PATIENCE = 60.0
#: Pauses of the thread that waits for announcements, in seconds: they grow while nothing comes.
_SHORT, _LONG = 0.0001, 0.002


class Inbox:
    """The messages that are announced to this process, and the receives that wait for them."""

    def __init__(self):
        self.mail = None
        self._lock = threading.Lock()
        #: For each tag the senders of messages that are announced and that no receive has, in the order of their announcements.
        self._open = {}
        #: Receives that were begun before their message was announced, for each (sender, tag).
        self._early = collections.Counter()
        #: For each tag the receives that are not begun: the first is from any rank, or finds no room for its call.
        self._waiting = {}
        self._thread = None

    def announced(self, sender, tag):
        """A message has been sent to this process; `serve` is to follow."""
        with self._lock:
            if self._early[sender, tag] > 1:
                self._early[sender, tag] -= 1
            elif not self._early.pop((sender, tag), 0):
                self._open.setdefault(tag, collections.deque()).append(sender)

    def serve(self, tag):
        """Begins what receives of a tag can begin."""
        with self._serving() as started:
            self._serve(tag, started)

    def recv(self, sender, tag, begin, limit):
        """Begins a receive by `begin(sender, limit)`, at once unless one from any rank with the same tag waits, or there is no room for its
        call (`begin` raises Exhausted): then later, with what is left of the limit. Returns what to wait for."""
        with self._lock:
            if tag not in self._waiting:
                try:
                    requests = begin(sender, limit)
                except errors.Exhausted:
                    pass
                else:
                    self._claim(sender, tag)
                    return requests
        return self._wait(Turn((sender,), begin, limit, False), tag)

    def recv_any(self, members, tag, begin, limit):
        """Begins a receive by `begin(sender, left)` from the first of `members` that has sent. Returns what to wait for."""
        self.mail.take()
        return self._wait(Turn(members, begin, limit, True), tag)

    def _wait(self, turn, tag):
        with self._serving() as started:
            self._waiting.setdefault(tag, collections.deque()).append(turn)
            self._serve(tag, started)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="rail-any-source", daemon=True)
                self._thread.start()
        return [turn]

    @contextlib.contextmanager
    def _serving(self):
        """Locks, and gives a list of what is to be said once nothing is locked: also where an interrupt comes in between."""
        started = []
        try:
            with self._lock:
                yield started
        finally:
            for function, arguments in started:
                function(*arguments)

    def _claim(self, sender, tag):
        """A receive has the sender's next message of the tag."""
        senders = self._open.get(tag, ())
        if sender not in senders:
            self._early[sender, tag] += 1
            return
        senders.remove(sender)
        if not senders:
            del self._open[tag]

    def _serve(self, tag, started):
        """Begins as many receives of the tag as can be."""
        queue = self._waiting.get(tag)
        while queue:
            turn = queue[0]
            # An interrupt leaves the receive in the queue, and what it has begun in it.
            if turn.requests is None:
                sender = turn.choose(self._open.get(tag, ()))
                if sender is None:
                    return
                try:
                    turn.requests = turn.begin(sender, turn.left())
                except errors.Exhausted as error:
                    if turn.may_wait_for_room():
                        return
                    started.append((turn.fail, (error,)))
                    queue.popleft()
                    continue
                except Exception as error:  # Whatever it is, the one who waits is to have it.
                    started.append((turn.fail, (error,)))
                    queue.popleft()
                    continue
                turn.sender = sender
                self._claim(sender, tag)
            started.append((turn.begun, ()))
            queue.popleft()
        self._waiting.pop(tag, None)

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
        with self._serving() as ended:
            for tag in list(self._waiting):
                kept = collections.deque()
                for turn in self._waiting[tag]:
                    error = why(turn)
                    if error is None:
                        kept.append(turn)
                    else:
                        ended.append((turn.fail, (error,)))
                self._waiting[tag] = kept
                self._serve(tag, ended)


class Turn:
    """A receive that waits for its turn; waited for as a `railyard.Request` is."""

    def __init__(self, members, begin, limit, any_source):
        self._members, self._any = list(members), any_source
        self.begin = begin
        self._limit = limit
        self._deadline = None if limit is None else time.monotonic() + limit
        #: Until when it may find no room for its call.
        self._patience = None
        self._future = Future()
        #: Its calls, once begun.
        self.requests = None
        #: The rank of the job whose message it gets.
        self.sender = None

    def choose(self, senders):
        """The rank to receive from: the first of those who have sent, in their order, that may be meant; None if there is none."""
        return next((rank for rank in senders if rank in self._members), None) if self._any else self._members[0]

    def left(self):
        """What is left of its limit, in seconds: a moment at least."""
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())

    def may_wait_for_room(self):
        """Whether it has not waited for room too long."""
        now = time.monotonic()
        self._patience = self._patience or now + _PATIENCE
        return now < self._patience

    def late(self, now):
        """Why it fails, if its time is over."""
        if self._deadline is None or now < self._deadline:
            return None
        return errors.TimedOut(f"nothing came from any of ranks {self._members} within {self._limit} s")

    def begun(self):
        """The receive has begun."""
        requests = self.requests
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
