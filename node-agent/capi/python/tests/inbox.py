"""Receives from any rank against a model: random orders of announcements and receives, from seeds. Needs no engine.

Every message goes to one receive and every receive gets one message; receives of one tag begin in the order of their calls.
"""

import collections
import random
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from railyard import errors
from railyard.torch import monitored
from railyard.torch.inbox import Inbox
from railyard.torch.mail import HERE, SENT, Mail


class Network:
    """Notifications between processes that are none."""

    def __init__(self, size):
        self._queues, self._lock = [[] for _ in range(size)], threading.Lock()
        self.inboxes = []
        for rank in range(size):
            self.inboxes.append(Inbox())
            self.inboxes[rank].mail = Mail(Port(self, rank), self.inboxes[rank])

    def put(self, to, notification):
        with self._lock:
            self._queues[to].append(notification)

    def take(self, rank):
        with self._lock:
            return self._queues[rank].pop(0) if self._queues[rank] else None


class Port:
    """What `Mail` needs of a communicator."""

    notifies = True

    def __init__(self, network, rank):
        self._network, self._rank = network, rank
        self._busy = random.Random(rank)

    def subscribe(self):
        pass

    def notify(self, to, words):
        if self._busy.random() < 0.1:
            return False
        self._network.put(to, (self._rank, words))
        return True

    def poll_notification(self):
        return self._network.take(self._rank)


class Call:
    """A call of the engine that is over at once."""

    def __init__(self):
        self._future = Future()
        self._future.set_result(None)

    def add_done_callback(self, function):
        self._future.add_done_callback(lambda _: function(self))

    def exception(self):
        return None

    def done(self):
        return True

    def wait(self, timeout=None):
        pass


def one_order(seed):
    """Ranks 1 to 3 send to rank 0, which receives from any rank and from named ones, in a random order."""
    chance, network = random.Random(seed), Network(4)
    inbox, others = network.inboxes[0], [1, 2, 3]
    sends = [chance.choice(others) for _ in range(chance.randint(1, 15))]
    # One message may be left for a receive that names its sender.
    named = [sends[-1]] if chance.random() < 0.5 else []
    begun, calls = [], []

    def begin(sender, _):
        begun.append(sender)
        return [Call()]

    receives = [None] * (len(sends) - len(named))
    actions = [("send", to) for to in sends] + [("receive", sender) for sender in receives]
    chance.shuffle(actions)
    for what, other in actions:
        if what == "send":
            network.inboxes[other].mail.send(0, SENT, 9)
        else:
            calls += inbox.recv_any(others, 9, begin, 30)
        if chance.random() < 0.3:
            inbox.mail.take()
    for call in calls:
        call.wait(30)
    left = list(sends)
    for sender in begun:
        left.remove(sender)
    assert len(left) == len(named), (seed, sends, begun)
    for sender in left:
        for call in inbox.recv(sender, 9, begin, 30):
            call.wait(30)
    inbox.mail.take()
    arrivals = [other for what, other in actions if what == "send"]
    assert begun == arrivals, ("not in the order of arrivals", seed, sends, begun)
    assert not inbox._open and not inbox._early and not inbox._waiting, seed
    assert [call.sender for call in calls] == begun[: len(calls)], (seed, begun)


def limits_and_order():
    network = Network(3)
    inbox, begun = network.inboxes[0], []

    def begin(sender, _=None):
        begun.append(sender)
        return [Call()]

    first = inbox.recv_any([1, 2], 4, begin, 30)[0]
    second = inbox.recv(2, 4, lambda sender, _: begin((sender, "named")), 30)[0]
    assert not begun and not first.done() and not second.done()
    for _ in range(2):
        network.inboxes[2].mail.send(0, SENT, 4)
    first.wait(30)
    second.wait(30)
    assert begun == [2, (2, "named")] and first.sender == 2, begun
    try:
        inbox.recv_any([1, 2], 4, begin, 0.05)[0].wait(30)
    except errors.TimedOut as error:
        assert "ranks [1, 2]" in str(error), error
    else:
        sys.exit("a receive that nobody sends to did not end")


def absent(wait_for_all):
    """Rank 2 does not come, or neither does rank 1: the first rank names it, and who came hears at once."""
    network, members = Network(3), [0, 1, 2]

    def come(rank, limit):
        try:
            monitored.barrier(network.inboxes[rank].mail, 7, 1, rank, members, limit, wait_for_all)
        except RuntimeError as error:
            return str(error)
        return ""

    came = [0] if wait_for_all else [0, 1]
    with ThreadPoolExecutor(2) as threads:
        said = list(threads.map(lambda rank: come(rank, 30 if rank else 0.3), came))
    wanted = "Ranks 1, 2 failed to pass monitoredBarrier" if wait_for_all else "Rank 2 failed to pass monitoredBarrier"
    assert wanted in said[0] and all("successfully reached monitoredBarrier" in text for text in said[1:]), said


def no_room():
    """A receive that finds no room for its call holds nobody up, and begins when there is room, with what is left of its limit."""
    network = Network(3)
    inbox, room, limits = network.inboxes[0], threading.Event(), []

    def begin(sender, left):
        if not room.is_set():
            raise errors.Exhausted("64 calls are under way")
        limits.append((sender, left))
        return [Call()]

    first = inbox.recv(1, 4, begin, 30)[0]
    network.inboxes[2].mail.send(0, SENT, 4)
    second = inbox.recv_any([1, 2], 4, begin, 30)[0]
    # Another tag goes on meanwhile.
    inbox.recv(1, 5, lambda sender, left: [Call()], 30)[0].wait(30)
    assert not first.done() and not second.done() and not limits
    room.set()
    first.wait(30)
    second.wait(30)
    assert [sender for sender, _ in limits] == [1, 2] and all(left < 30 for _, left in limits), limits


def interrupted():
    """An interrupt as a receive begins loses neither the receive nor its message."""
    network = Network(2)
    inbox, calls = network.inboxes[0], []

    def begin(sender, _):
        calls.append(sender)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return [Call()]

    turn = inbox.recv_any([1], 4, begin, 30)[0]
    with inbox._lock:
        inbox._open[4] = collections.deque([1])
        try:
            inbox._serve(4, [])
        except KeyboardInterrupt:
            pass
    turn.wait(30)
    assert calls == [1, 1] and not inbox._open, (calls, inbox._open)


def left_out():
    """Rank 1 leaves a monitored barrier out, then gives one up that rank 0 leaves out: the next ones pass, and each of both."""
    network, members = Network(2), [0, 1]

    def come(rank, number, limit):
        try:
            monitored.barrier(network.inboxes[rank].mail, 7, number, rank, members, limit, False)
        except RuntimeError as error:
            return str(error)
        return ""

    assert "Rank 1 failed to pass" in come(0, 1, 0.05)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(come, (0, 1), (2, 1), (30, 30))) == ["", ""]
        assert "did not answer in time" in come(1, 2, 0.05)
        network.inboxes[0].mail.take()
        assert "Rank 1 failed to pass" in come(0, 3, 0.05), "one that is gone was counted"
        assert list(threads.map(come, (0, 1), (4, 3), (30, 30))) == ["", ""]
    network.inboxes[1].mail.send(0, HERE, 7, 9)
    mail = network.inboxes[0].mail
    assert mail.here(7) == {1: 9}
    mail.forget(7)
    assert not mail.here(7)


def main():
    first = random.SystemRandom().randrange(1 << 32) if len(sys.argv) < 2 else int(sys.argv[1])
    print(f"seeds {first} to {first + 299}", flush=True)
    for seed in range(first, first + 300):
        one_order(seed)
    limits_and_order()
    absent(False)
    absent(True)
    no_room()
    interrupted()
    left_out()
    print("inbox right")


if __name__ == "__main__":
    main()
