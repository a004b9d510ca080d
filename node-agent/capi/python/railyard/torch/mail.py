"""What ranks of the backend say to each other beside calls: the engine's notifications, sorted by what they are about."""

import threading
import time

from .. import errors

#: Kinds of notifications, in the upper half of the first word; the lower half is a tag or a group. Others are not ours.
SENT, HERE, GO, GONE = 0x7261_0001, 0x7261_0002, 0x7261_0003, 0x7261_0004
#: How long to wait where the engine takes nothing, in seconds.
_PATIENCE = 60.0


class Mail:
    """Notifications of this process, which `inbox` gets, or a monitored barrier asks for."""

    def __init__(self, communicator, inbox):
        self._communicator, self._inbox = communicator, inbox
        self._lock = threading.Lock()
        #: For each group: who is at its monitored barrier, and how many barriers that rank has called.
        self._here = {}
        #: Answers of first ranks that nobody has taken: (group, number of the barrier here) to how many ranks were missing.
        self._go = {}
        self.available = communicator.notifies
        if self.available:
            communicator.subscribe()

    def send(self, to, kind, key, *words):
        """Notifies rank `to` of the job. Raises where the job has failed, or the engine takes nothing for long."""
        first, second = (*words, 0, 0)[:2]
        patience = time.monotonic() + _PATIENCE
        while not self._communicator.notify(to, (kind << 32 | key, first, second)):
            if time.monotonic() > patience:
                raise errors.Exhausted(f"the engine took no notification for {_PATIENCE:.0f} s")
            self.take()
            time.sleep(0.0002)

    def take(self):
        """Takes in what has come. Raises where the job has failed."""
        if not self.available:
            return
        announced = set()
        try:
            with self._lock:
                while (found := self._communicator.poll_notification()) is not None:
                    self._sort(*found, announced)
        finally:
            # Not under the lock: the inbox begins receives.
            for tag in announced:
                self._inbox.serve(tag)

    def _sort(self, sender, words, announced):
        kind, key = words[0] >> 32, words[0] & 0xFFFF_FFFF
        if kind == SENT:
            # Under the lock, so that the inbox has them in their order.
            self._inbox.announced(sender, key)
            announced.add(key)
        elif kind == HERE:
            self._here.setdefault(key, {})[sender] = words[1]
        elif kind == GONE:
            here = self._here.get(key, {})
            if here.get(sender) == words[1]:
                del here[sender]
        elif kind == GO:
            self._go[key, words[1]] = words[2]

    def here(self, group):
        """The ranks of the job that are at a monitored barrier of a group, with how many barriers each has called."""
        self.take()
        with self._lock:
            return dict(self._here.get(group, {}))

    def answered(self, group):
        """Forgets who is at the group's monitored barrier: it is over on the first rank."""
        with self._lock:
            return self._here.pop(group, {})

    def answer(self, group, number):
        """What the first rank of the group has said of that barrier, or None."""
        self.take()
        with self._lock:
            return self._go.pop((group, number), None)

    def over(self, group, number):
        """Forgets answers to barriers of the group up to this one."""
        with self._lock:
            for old in [each for each in self._go if each[0] == group and each[1] <= number]:
                del self._go[old]

    def forget(self, group):
        """The group is destroyed."""
        with self._lock:
            self._here.pop(group, None)
            for old in [each for each in self._go if each[0] == group]:
                del self._go[old]
