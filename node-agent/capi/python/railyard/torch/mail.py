"""What ranks of the backend say to each other beside calls: the engine's notifications, sorted by what they are about."""

import threading
import time

from .. import errors

#: Kinds of notifications, in the upper half of the first word; the lower half is a tag or a group. Others are not ours.
SENT, HERE, GO = 0x7261_0001, 0x7261_0002, 0x7261_0003
#: How long to wait where the engine takes nothing, in seconds.
_PATIENCE = 60.0


class Mail:
    """Notifications of this process, which `inbox` gets, or a monitored barrier asks for."""

    def __init__(self, communicator, inbox):
        self._communicator, self._inbox = communicator, inbox
        self._lock = threading.Lock()
        #: For each group: the rounds of its monitored barrier, and who is there.
        self._here = {}
        #: Answers of first ranks that nobody has taken: (group, round) to how many ranks were missing.
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
        announced = []
        try:
            with self._lock:
                while (found := self._communicator.poll_notification()) is not None:
                    self._sort(*found, announced)
        finally:
            # Not under the lock: the inbox begins receives.
            for sender, tag in announced:
                self._inbox.announced(sender, tag)

    def _sort(self, sender, words, announced):
        kind, key = words[0] >> 32, words[0] & 0xFFFF_FFFF
        if kind == SENT:
            announced.append((sender, key))
        elif kind == HERE:
            self._here.setdefault(key, {}).setdefault(words[1], set()).add(sender)
        elif kind == GO:
            self._go[key, words[1]] = words[2]

    def here(self, group, number):
        """The ranks of the job that are at monitored barrier `number` of a group."""
        self.take()
        with self._lock:
            return set(self._here.get(group, {}).get(number, ()))

    def answer(self, group, number):
        """What the first rank of the group has said of that barrier, or None."""
        self.take()
        with self._lock:
            return self._go.pop((group, number), None)

    def over(self, group, number):
        """Forgets barriers of the group up to this one."""
        with self._lock:
            rounds = self._here.get(group, {})
            for old in [each for each in rounds if each <= number]:
                del rounds[old]
            if not rounds:
                self._here.pop(group, None)
            for old in [each for each in self._go if each[0] == group and each[1] <= number]:
                del self._go[old]
