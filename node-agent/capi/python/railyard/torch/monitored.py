"""The monitored barrier: its first rank knows who did not come, and says it. It needs no call of the engine, so it ends no job."""

import contextlib
import time

from .. import errors
from .mail import GO, GONE, HERE

#: Pause between looks, in seconds.
_PAUSE = 0.001


def barrier(mail, key, number, rank, members, limit, all_of_them):
    """This rank's call `number` of the group `key`; ranks that have left one out are met at the next one. The group's ranks
    are `members` of the job. Raises RuntimeError, in PyTorch's words, for whoever does not pass within `limit`
    seconds: on the first rank with those who are missing, the first of them or all."""
    deadline = time.monotonic() + limit
    if rank:
        return _member(mail, key, number, rank, members[0], deadline)
    if limit <= 0:
        raise RuntimeError(f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {_ms(limit)} ms.")
    wanted = set(members[1:])
    while not wanted <= mail.here(key).keys() and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    here = mail.answered(key)
    missing = [place for place, member in enumerate(members) if place and member not in here]
    for member in members[1:]:
        if member in here:
            mail.send(member, GO, key, here[member], len(missing))
    if missing:
        raise RuntimeError(_missing(missing, members, limit, all_of_them))
    return None


def _member(mail, key, number, rank, first, deadline):
    mail.send(first, HERE, key, number)
    while (missing := mail.answer(key, number)) is None and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    mail.over(key, number)
    if missing is None:
        with contextlib.suppress(errors.RailError):
            mail.send(first, GONE, key, number)
    if missing == 0:
        return
    why = "it did not answer in time" if missing is None else f"{missing} other rank(s) did not come"
    raise RuntimeError(
        f"[Rank {rank}]: Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
        f"rank 0: {why}. Please check rank 0 logs for faulty rank."
    )


def _missing(missing, members, limit, all_of_them):
    if all_of_them:
        names = ", ".join(map(str, missing))
        text = f"Ranks {names} failed to pass monitoredBarrier in {_ms(limit)} ms"
    else:
        text = f"Rank {missing[0]} failed to pass monitoredBarrier in {_ms(limit)} ms"
    if members == list(range(len(members))):
        return f"[Rank 0]: {text}"
    names = ", ".join(str(members[place]) for place in (missing if all_of_them else missing[:1]))
    return f"[Rank 0]: {text} (ranks of the job: {names})"


def _ms(seconds):
    return round(seconds * 1000)
