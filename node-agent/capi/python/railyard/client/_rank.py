"""What a rank of a function's job runs: its text goes with the job, so it needs the standard library alone."""

import base64
import importlib
import json
import os
import sys
import traceback
import zlib
from typing import Any

MARK = "\x1erailyard-result "
#: Characters of a value's JSON at most.
MAX_VALUE = 256 * 1024


def call(number: int) -> Any:
    """Makes the call that the environment describes, in `number` parts."""
    text = "".join(os.environ.pop(f"RAILYARD_CALL_{part}") for part in range(number))
    asked = json.loads(zlib.decompress(base64.b64decode(text)))
    if "pickle" in asked:
        function, arguments, named = importlib.import_module("cloudpickle").loads(base64.b64decode(asked["pickle"]))
    else:
        sys.path.insert(0, os.getcwd())
        function = importlib.import_module(asked["module"])
        for name in asked["name"].split("."):
            function = getattr(function, name)
        arguments, named = asked["args"], asked["kwargs"]
    return function(*arguments, **named)


def main(number: int) -> int:
    """Calls, and writes what came of it as the last line of standard output; the exit code says it too."""
    record: dict[str, Any] = {"ok": True}
    try:
        record["value"] = call(number)
        if len(json.dumps(record, allow_nan=False)) > MAX_VALUE:
            raise ValueError(f"the function's value has more than {MAX_VALUE} characters of JSON: write it to a file")
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            record = {"ok": True, "value": None}
        else:
            traceback.print_exc()
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            record = {"ok": False, "error": text[-4096:], "traceback": traceback.format_exc()[-16384:]}
    sys.stderr.flush()
    sys.stdout.flush()
    os.write(1, b"\n")
    data = (MARK + json.dumps(record) + "\n").encode()
    while data:
        data = data[os.write(1, data) :]
    return 0 if record["ok"] else 1
