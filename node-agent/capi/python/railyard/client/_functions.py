"""Functions as jobs: how one is sent, and how the values that it gave come back.

A function travels in the environment of the job's command, by value (pickled with cloudpickle) or by its name (`module:function`). Its
value comes back as JSON in the last line that a rank writes: what is read from logs is never unpickled.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import inspect
import json
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _rank
from .errors import ConfigError

#: Characters of one variable of the environment (Linux takes 128 KiB), and how many a call may take.
PART, PARTS = 96 * 1024, 6
#: `python3 -c` of this runs what the environment says.
START = "import os;exec(os.environ.pop('RAILYARD_RANK'))"


@dataclass(frozen=True)
class Call:
    """A function with its arguments, as a command and its environment."""

    name: str
    env: dict[str, str]

    def argv(self, python: str) -> list[str]:
        """The command of each rank."""
        return [python, "-c", START]


class Named:
    """A function of a module that the servers have, by its name: `Named("package.module:function")`."""

    def __init__(self, path: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", path):
            raise ConfigError(f"`{path}` is not MODULE:FUNCTION")
        self.path = path


def packed(work: Callable[..., Any] | Named, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """A call as it is sent. Raises ConfigError if it cannot be."""
    if isinstance(work, Named):
        path = work.path
        asked: dict[str, Any] | None = by_name(work.path, args, kwargs)
    else:
        path = f"{getattr(work, '__module__', '')}:{getattr(work, '__qualname__', type(work).__name__)}"
        asked = by_value(work, args, kwargs) if importlib.util.find_spec("cloudpickle") else None
        if asked is None:
            if not importable(work):
                text = (
                    f"{path} cannot be found by its name on a server: install cloudpickle here and on the servers, or move it into a "
                    "module that the servers have"
                )
                raise ConfigError(text)
            asked = by_name(path, args, kwargs)
    text = base64.b64encode(zlib.compress(json.dumps(asked).encode(), 9)).decode()
    parts = [text[at : at + PART] for at in range(0, len(text), PART)]
    if len(parts) > PARTS:
        raise ConfigError(
            f"{path} with its arguments has {len(text)} characters, packed; {PART * PARTS} are sent at most: let it read a file"
        )
    source = inspect.getsource(_rank) + f"\nsys.exit(main({len(parts)}))\n"
    env = {f"RAILYARD_CALL_{number}": part for number, part in enumerate(parts)}
    return Call(path, {"RAILYARD_RANK": source, **env})


def by_name(path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    module, _, name = path.partition(":")
    try:
        json.dumps([list(args), dict(kwargs)])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: arguments are sent as JSON without cloudpickle: {error}") from error
    return {"module": module, "name": name, "args": list(args), "kwargs": dict(kwargs)}


def by_value(work: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    cloudpickle = importlib.import_module("cloudpickle")
    try:
        data = cloudpickle.dumps((work, tuple(args), dict(kwargs)))
    except Exception as error:
        raise ConfigError(f"the function or an argument cannot be pickled: {error}") from error
    return {"pickle": base64.b64encode(data).decode()}


def importable(work: Callable[..., Any]) -> bool:
    """Whether a function is found by its module and name."""
    module, name = getattr(work, "__module__", "__main__"), getattr(work, "__qualname__", "<")
    if module in ("__main__", None) or "<" in name:
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is work


class results:  # noqa: N801
    """Values in what a rank wrote."""

    #: Characters of the longest line that carries one, with what may stand around it.
    LONGEST = _rank.MAX_VALUE * 2 + 64 * 1024
    LINE = re.compile(re.escape(_rank.MARK) + r"(.*)\n?")

    @classmethod
    def last(cls, text: str) -> dict[str, Any] | None:
        """The last record; None if there is none that is whole."""
        for found in reversed(cls.LINE.findall(text)):
            try:
                record = json.loads(found)
            except ValueError:
                continue
            if isinstance(record, dict):
                return record
        return None


def without_results(text: str) -> str:
    """What a rank wrote itself."""
    return re.sub(r"\n?" + results.LINE.pattern, "", text)
