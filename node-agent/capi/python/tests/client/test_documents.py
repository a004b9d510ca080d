"""Documents that are applied, against a server that answers as a test says; and functions as they are sent."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from railyard.client import ApplyRefused, Change, ConfigError, Named
from railyard.client._functions import packed, results, without_results
from railyard.client._jobs import described, duration, merged
from railyard.client.apply import compared, read
from tests.client.fake import Asked, Server, client, http, refusal

QUEUE = {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 3}}
WITH_YAML = importlib.util.find_spec("yaml") is not None


def planned(*outcomes: Any) -> bytes:
    """The answer of a plan; a dict is a refusal."""
    found = []
    for outcome in outcomes:
        if isinstance(outcome, dict):
            found.append({"outcome": "REFUSED", "refusal": outcome})
        else:
            metadata = {"name": "q", "tenant": "nlp", "resourceVersion": "7"}
            found.append(
                {
                    "outcome": outcome,
                    "document": {"queue": {"kind": "Queue", "metadata": metadata, "spec": {"weight": 3}}},
                }
            )
    return http({"documents": found})


def there(weight: int) -> bytes:
    metadata = {"name": "q", "tenant": "nlp", "uid": "u", "resourceVersion": "5"}
    return http({"kind": "Queue", "metadata": metadata, "spec": {"weight": weight}, "status": {"gpusUsed": 1}})


class Applied(unittest.TestCase):
    def answered(self, *plan: Any) -> Server:
        def answer(asked: Asked, number: int) -> bytes:
            if ":plan" in asked.target:
                return planned(*plan)
            return there(2 if asked.method == "GET" else 3)

        return Server(answer)

    def test_a_dry_run_says_what_would_change(self) -> None:
        with self.answered("CHANGED", "UNCHANGED") as server, client(server.port) as api:
            changes = api.apply([QUEUE, QUEUE], dry_run=True)
        self.assertEqual([asked.method for asked in server.asked], ["POST", "GET", "GET"])
        self.assertEqual(server.asked[0].body["documents"][0]["queue"]["metadata"], {"name": "q", "tenant": "nlp"})
        self.assertEqual(server.asked[0].body["onBehalfOf"], "nlp")
        self.assertEqual(
            [(one.outcome, str(one)) for one in changes], [("CHANGED", "queue/nlp/q"), ("UNCHANGED", "queue/nlp/q")]
        )
        self.assertEqual([(one.path, one.before, one.after) for one in changes[0].fields], [("spec.weight", 2, 3)])
        self.assertIn('-    "weight": 2\n+    "weight": 3\n', changes[0].diff())
        self.assertEqual((changes.changed, changes[1].fields), (True, []))
        self.assertEqual(str(changes), "queue/nlp/q changed\n  spec.weight: 2 -> 3\nqueue/nlp/q unchanged")

    def test_only_what_differs_is_applied(self) -> None:
        with self.answered("CREATED", "UNCHANGED") as server, client(server.port) as api:
            changes = api.apply([QUEUE, QUEUE])
        applied = [asked for asked in server.asked if asked.target == "/v1/queues"]
        self.assertEqual(len(applied), 1)
        self.assertEqual((changes[0].before, changes[1].applied), (None, None))
        self.assertEqual((changes[0].applied or {})["spec"], {"weight": 3})

    def test_one_that_is_refused_keeps_all_from_being_applied(self) -> None:
        wrong = {
            "class": "invalid",
            "reason": "NO_TENANT",
            "message": "no",
            "violations": [{"field": "spec.x", "message": "y"}],
        }
        with self.answered("CREATED", wrong) as server, client(server.port) as api:
            with self.assertRaises(ApplyRefused) as caught:
                api.apply([QUEUE, QUEUE])
            changes = api.apply([QUEUE, QUEUE], dry_run=True)
        self.assertTrue(all(asked.target == "/v1/documents:plan" for asked in server.asked))
        error = caught.exception.changes.refused[0].refusal
        self.assertTrue(error is not None and error.reason == "NO_TENANT" and error.violations[0].field == "spec.x")
        self.assertEqual(len(changes.refused), 1)

    def test_a_document_that_cannot_be_read_names_its_field(self) -> None:
        answer = refusal(
            400, "invalid", "INVALID_BODY", violations=[{"field": "documents[0].queue.spec.x", "message": "unknown"}]
        )
        with Server(lambda asked, number: answer) as server, client(server.port) as api:
            with self.assertRaisesRegex(ValueError, "INVALID_BODY"):
                api.apply(QUEUE)
            for wrong in ({"kind": "Node"}, {}, [QUEUE] * 257, "[1]", Path("/none.json")):
                with self.assertRaises(ConfigError):
                    api.apply(wrong)
            self.assertEqual(len(api.apply([])), 0)

    def test_documents_are_read_from_files_and_texts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "queue.json"
            path.write_text(json.dumps([QUEUE, QUEUE]))
            self.assertEqual(read([path, QUEUE, json.dumps(QUEUE)]), [QUEUE] * 4)

    @unittest.skipUnless(WITH_YAML, "PyYAML is not installed")
    def test_yaml(self) -> None:
        text = "kind: Queue\nmetadata: {name: q}\nspec: {weight: 3}\n---\nkind: Job\nspec: {beginTime: 2026-11-20T10:00:00Z}\n---\n"
        self.assertEqual(read(text), [QUEUE, {"kind": "Job", "spec": {"beginTime": "2026-11-20T10:00:00Z"}}])
        self.assertRaises(ConfigError, read, "a: [")

    def test_changes_are_called_as_by_railctl(self) -> None:
        self.assertEqual(str(Change("ServiceClass", "normal", "", "CREATED")), "service-class/normal")
        self.assertEqual(str(Change("Queue", "q", "nlp", "CREATED")), "queue/nlp/q")

    def test_fields_that_differ(self) -> None:
        found = list(compared("", {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 2, "c": [1, 2]}, "d": 1, "e": {}}))
        self.assertEqual([one.path for one in found], ["a.b", "a.c", "e"])


class Described(unittest.TestCase):
    def job(self, **given: Any) -> dict[str, Any]:
        fields = dict.fromkeys(
            ("ranks_per_node", "name", "env", "working_dir", "time_limit", "queue", "priority", "labels", "spec")
        )
        return described(["true"], **{**fields, "nodes": 1, "gpus_per_node": 0, "prefix": "job", **given})

    def test_what_is_left_out_is_not_sent(self) -> None:
        spec = {"gang": {"nodes": 1, "gpusPerNode": 0}, "command": {"argv": ["true"]}, "rails": {"none": True}}
        self.assertEqual(
            self.job(), {"apiVersion": "rail/v1", "kind": "Job", "metadata": {"generateName": "job-"}, "spec": spec}
        )
        self.assertNotIn("rails", self.job(nodes=2)["spec"])
        for gang in ({"nodes": 2}, {"gpusPerNode": 8}):
            self.assertNotIn("rails", self.job(spec={"gang": gang})["spec"])
        self.assertEqual(self.job(nodes=2, spec={"gang": {"nodes": 1}})["spec"]["rails"], {"none": True})

    def test_spec_is_merged(self) -> None:
        spec = self.job(gpus_per_node=2, time_limit=90, spec={"gang": {"minNodes": 1}, "rails": {"required": 2}})[
            "spec"
        ]
        self.assertEqual(spec["gang"], {"nodes": 1, "gpusPerNode": 2, "minNodes": 1})
        self.assertEqual((spec["timeLimit"], spec["rails"]), ("90s", {"required": 2}))
        self.assertEqual(merged({"a": [1]}, {"a": [2]}), {"a": [2]})

    def test_lengths_of_time(self) -> None:
        self.assertEqual([duration(one) for one in (1, 0.5, "1h30m", 100)], ["1s", "0.5s", "1h30m", "100s"])


def function(number: int, more: int = 0) -> dict[str, int]:
    """What is sent."""
    return {"sum": number + more, "rank": int(os.environ["RANK"])}


class Functions(unittest.TestCase):
    def ran(self, work: Any, *args: Any, **kwargs: Any) -> tuple[int, str, dict[str, Any] | None]:
        call = packed(work, args, kwargs)
        env = {**os.environ, **call.env, "RANK": "3"}
        done = subprocess.run(
            call.argv(sys.executable), env=env, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, results.last(done.stdout)

    def test_a_function_is_sent_by_its_name(self) -> None:
        code, out, record = self.ran(Named("os.path:join"), "a", "b")
        self.assertEqual((code, record, without_results(out)), (0, {"ok": True, "value": "a/b"}, ""))

    def test_what_a_function_raises_comes_back(self) -> None:
        code, _, record = self.ran(Named("json:loads"), "{")
        self.assertEqual((code, (record or {})["ok"]), (1, False))
        self.assertIn("JSONDecodeError", (record or {})["error"])
        code, _, record = self.ran(Named("sys:exit"), 3)
        self.assertEqual((code, (record or {})["ok"]), (1, False))
        self.assertEqual(self.ran(Named("sys:exit"))[0], 0)

    def test_a_value_that_is_no_json_is_an_error(self) -> None:
        _, _, record = self.ran(Named("pathlib:Path"), "a")
        self.assertIn("not JSON serializable", (record or {})["error"])
        _, _, record = self.ran(Named("operator:mul"), "x", 300_000)
        self.assertIn("256", (record or {})["error"].replace("262144", "256"))

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_a_function_is_sent_by_value(self) -> None:
        grow = 10
        _, _, record = self.ran(lambda number: number + grow, 1)
        self.assertEqual(record, {"ok": True, "value": 11})

    def test_what_cannot_be_sent(self) -> None:
        with self.assertRaisesRegex(ConfigError, "MODULE:FUNCTION"):
            Named("nothing")
        with self.assertRaisesRegex(ConfigError, "JSON"):
            packed(Named("os:getenv"), [object()], {})
        if importlib.util.find_spec("cloudpickle") is None:
            with self.assertRaisesRegex(ConfigError, "install cloudpickle"):
                packed(lambda: None, [], {})
            call = packed(function, [1], {"more": 2})
            self.assertEqual(call.name, "tests.client.test_documents:function")
        with self.assertRaisesRegex(ConfigError, "let it read a file"):
            packed(Named("os:getenv"), [os.urandom(600_000).hex()], {})


if __name__ == "__main__":
    unittest.main()
