"""PyTorch's own distributed tests, as the installed PyTorch has them, with a backend: row P1 of the benchmark.

    python upstream.py --engine rail-engine --library librail.so [--out FILE] [--only REGEX] [--events]

The tests are torch/testing/_internal/distributed/distributed_test.py, read where PyTorch is installed; they need the package expecttest,
which `cargo xtask torch` installs. Many of them ask for Gloo by name; for backend rail those conditions ask for rail instead, and
everything else is as it is there. Each test is 4 processes, for rail on 2 servers with engines of their own. All run with rail and with
Gloo, and each failure is named: as ours, or as one that Gloo shares.

PyTorch checks profiler events of the backends on its own lists only, and a backend in Python is on none; --events puts rail on them.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = [0, 0, 1, 1]
RAILS = 2
#: Seconds that one test may take where PyTorch has no limit for it.
LIMIT = 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="the program rail-engine")
    parser.add_argument("--library", required=True, help="librail.so")
    parser.add_argument("--out", help="a file for the report, as JSON")
    parser.add_argument("--only", default="", help="a regular expression: tests whose names have no such part are left out")
    parser.add_argument("--events", action="store_true", help="check profiler events of rail too")
    parser.add_argument("--backend", choices=("rail", "gloo"), help="one backend alone: a line of JSON for each test")
    return parser.parse_args()


class AsGloo(ast.NodeTransformer):
    """Conditions on the backend under test that name Gloo name this one."""

    def __init__(self, backend):
        self._backend = backend

    def visit_Compare(self, node):
        self.generic_visit(node)
        if isinstance(node.left, ast.Name) and node.left.id == "BACKEND":
            node.comparators = [self._renamed(each) for each in node.comparators]
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "require_backend_is_available":
            for each in node.args:
                if isinstance(each, ast.Set):
                    each.elts = [self._renamed(name) for name in each.elts]
        return node

    def _renamed(self, node):
        is_gloo = isinstance(node, ast.Constant) and node.value == "gloo"
        return ast.copy_location(ast.Constant(self._backend), node) if is_gloo else node


def load(backend, events):
    """The module of PyTorch's tests for a backend."""
    import importlib.util

    from torch.testing._internal.common_distributed import DistTestCases

    spec = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test")
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    if backend != "gloo":
        tree = ast.fix_missing_locations(AsGloo(backend).visit(tree))
        for feature in DistTestCases.backend_feature.values():
            if "gloo" in feature:
                feature.add(backend)
        DistTestCases.backend_feature["plugin"].add(backend)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    exec(compile(tree, spec.origin, "exec"), module.__dict__)
    if events:
        for names in (module.PROFILING_SUPPORTED_BACKENDS, module.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
            names.append(backend)
    return module


def suite(options, module):
    """The tests as PyTorch's own test program has them, but forked: PyTorch is read once."""
    import torch
    from engines import Job

    class Upstream(module.TestDistBackend, module.DistributedTest._DistTestBase):
        job = None

        def setUp(self):
            super().setUp()
            if options.backend == "rail":
                Upstream.job = Job(options.engine, RANKS, RAILS, options.library)
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            super().tearDown()
            if Upstream.job is not None:
                Upstream.job.stop()
                Upstream.job = None

        @classmethod
        def _run(cls, rank, *others, **named):
            if cls.job is not None:
                os.environ.update(cls.job.environment(rank))
            super()._run(rank, *others, **named)

    names = [name for name in unittest.TestLoader().getTestCaseNames(Upstream) if re.search(options.only, name)]
    return [(name, Upstream) for name in names]


class Outcome(unittest.TestResult):
    """What became of the one test that it is given."""

    outcome, reason = "passed", ""

    def addSkip(self, test, reason):
        self.outcome, self.reason = "skipped", reason

    def addError(self, test, err):
        lines = [line.strip() for line in str(err[1]).splitlines() if line.strip()]
        # What a rank said is the last line of its traceback; the C++ frames below say less.
        said = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Lost|TimedOut|Mismatch|Stopped)\b", line)]
        self.outcome, self.reason = "failed", (said or lines or [repr(err[1])])[-1][:400]

    addFailure = addError


def run_alone(options):
    """Runs the tests with one backend, and prints a line for each."""
    os.environ.update(BACKEND=options.backend, WORLD_SIZE=str(len(RANKS)), DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(LIMIT))
    import torch

    torch.set_num_threads(1)
    if options.backend == "rail":
        import railyard.torch  # noqa: F401  (registers the backend)
    module = load(options.backend, options.events)
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name, case in suite(options, module):
        result, begin = Outcome(), time.monotonic()
        case(name).run(result)
        seconds = round(time.monotonic() - begin, 2)
        print(json.dumps({"test": name, "outcome": result.outcome, "reason": result.reason, "seconds": seconds}), file=report)


def with_backend(options, backend, room):
    """The outcomes of all tests with one backend, by name."""
    command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--backend", backend, "--engine", options.engine]
    command += ["--library", options.library, "--only", options.only, *(["--events"] if options.events else [])]
    rendezvous = f"file://{room}/{backend}-rendezvous"
    environment = os.environ | {"INIT_METHOD": rendezvous, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.path.dirname(HERE), os.environ.get("PYTHONPATH")]))
    found = {}
    log = os.path.join(tempfile.gettempdir(), f"upstream-{backend}.log")
    with open(log, "w", encoding="utf-8") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        for line in child.stdout:
            one = json.loads(line)
            found[one["test"]] = one
            print(f"{backend}: {one['test']}: {one['outcome']} {one['reason']} ({one['seconds']} s)", file=sys.stderr, flush=True)
        if child.wait():
            with open(log, encoding="utf-8", errors="replace") as said:
                last = said.read().strip().splitlines()[-1:]
            raise SystemExit(f"the tests with {backend} ended with {child.returncode}: {' '.join(last)} (more in {log})")
    return found


def count(found):
    return {kind: sum(one["outcome"] == kind for one in found.values()) for kind in ("passed", "failed", "skipped")}


def nothing_shown(rail, gloo):
    """Why the outcomes are worth nothing, or None: both must have run the same tests, and passed some."""
    differing = sorted(rail.keys() ^ gloo.keys())
    if differing:
        return f"{len(differing)} tests ran with one backend alone: {', '.join(differing[:5])}"
    for backend, found in (("rail", rail), ("gloo", gloo)):
        if not count(found)["passed"]:
            return f"no test passed with {backend}"
    return None


def compare(rail, gloo):
    """The report: figures of both, every failure of rail with whose it is, and tests that rail alone leaves out."""
    void = nothing_shown(rail, gloo)
    if void:
        return {"void": void, "rail": count(rail), "gloo": count(gloo)}
    failures = []
    for name, one in rail.items():
        if one["outcome"] == "failed":
            shared = gloo[name]["outcome"] == "failed"
            failures.append({"test": name, "whose": "shared with Gloo" if shared else "ours", "reason": one["reason"]})
    only_here = [name for name, one in rail.items() if one["outcome"] == "skipped" and gloo[name]["outcome"] == "passed"]
    gloo_alone = [name for name, one in gloo.items() if one["outcome"] == "failed" and rail[name]["outcome"] != "failed"]
    return {
        "rail": count(rail),
        "gloo": count(gloo),
        "failures": failures,
        "skipped_by_rail_alone": only_here,
        "failed_by_gloo_alone": gloo_alone,
    }


def main():
    options = arguments()
    if options.backend:
        return run_alone(options)
    with tempfile.TemporaryDirectory() as room:
        report = compare(*(with_backend(options, backend, room) for backend in ("rail", "gloo")))
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    if "void" in report:
        print(f"void: {report['void']}", file=sys.stderr)
        return 1
    ours = [one for one in report["failures"] if one["whose"] == "ours"]
    return 1 if ours or report["skipped_by_rail_alone"] else 0


if __name__ == "__main__":
    sys.exit(main())
