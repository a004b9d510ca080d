"""Messages between two ranks, and barriers."""

from torch._C import _distributed_c10d as c10d

from . import checks, monitored
from .operand import Bytes
from .operations import Operations, operation


class Messages(Operations):
    """Send, receive, also from any rank, barrier and monitored barrier. Whoever has this has `_calls` and `_group`."""

    _rounds = 0

    @operation("send")
    def send(self, tensors, dst, tag=0):
        data = Bytes(checks.only(tensors), read=True)
        requests = self._ranks.send(data.address, data.nbytes, dst, tag, data, self._seconds())
        return self._work(requests, None, tensors, collective=False)

    @operation("recv")
    def recv(self, tensors, src, tag=0):
        data = Bytes(checks.only(tensors), write=True)
        requests = self._ranks.recv(data.address, data.nbytes, src, tag, data, self._seconds())
        return self._work(requests, data.finish, tensors, source=lambda: src, collective=False)

    @operation("recvAnySource")
    def recv_anysource(self, tensors, tag=0):
        if not self._calls.mail.available:
            raise NotImplementedError("backend rail: recv needs a source: this librail.so is too old to receive from any rank")
        data = Bytes(checks.only(tensors), write=True)
        requests = self._ranks.recv_any(data.address, data.nbytes, tag, data, self._seconds())
        members = self._ranks.members()

        def source():
            sender = requests[0].sender
            return -1 if sender is None else members.index(sender)

        return self._work(requests, data.finish, tensors, source=source, collective=False)

    @operation("barrier")
    def barrier(self, opts=None):
        opts = opts or c10d.BarrierOptions()
        return self._work(self._ranks.barrier(self._seconds(opts)), None, [], opts)

    def monitored_barrier(self, opts=None, wait_all_ranks=False):
        """Returns when all ranks of the group are here; on the first rank an error names those who did not come in time."""
        if not self._calls.mail.available:
            raise NotImplementedError("backend rail: this librail.so is too old for a monitored barrier")
        timeout = getattr(opts, "timeout", None)
        seconds = self._seconds() if timeout is None or timeout.total_seconds() < 0 else timeout.total_seconds()
        self._rounds += 1
        members = self._ranks.members()
        limit = 1800.0 if seconds is None else seconds
        monitored.barrier(self._calls.mail, self._group, self._rounds, self.rank(), members, limit, wait_all_ranks)
