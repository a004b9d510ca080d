"""Where the cluster is and as whom to speak: the same rules as railctl's."""

from __future__ import annotations

import os
import tempfile
import traceback
import unittest
from pathlib import Path
from typing import Any, cast

from railyard.client import ConfigError, Endpoint, Settings, _yaml

TOKEN = "rail-user-v1." + "a" * 16 + "." + "b" * 64
FILE = """
# where railctl finds clusters
currentContext: "one"
contexts:
  "one":
    controller: ["unix:/run/a b.sock", "https://one:1"]
    ca: ca.pem
    cert: /c/cert.pem
    key: /c/key.pem
    tenant: nlp
  two:
    controller:
    - https://two
    ca: /c/ca.pem
"""


class Config(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "config.yaml"
        self.path.write_text(FILE)

    def load(self, *, env: dict[str, str] | None = None, **given: Any) -> Settings:
        return Settings.load(environ={"RAIL_CONFIG": str(self.path), **(env or {})}, **given)

    def test_argument_wins_over_environment_over_context(self) -> None:
        plain = self.load()
        self.assertEqual([str(one) for one in plain.controller], ["unix:/run/a b.sock", "https://one:1"])
        self.assertEqual((plain.tenant, plain.cert), ("nlp", "/c/cert.pem"))
        self.assertEqual(plain.ca, os.path.join(self.folder.name, "ca.pem"), "relative to the file's folder")
        env = {"RAIL_CONTROLLER": "https://env, unix:/s", "RAIL_TENANT": "env", "RAIL_CA": ""}
        mixed = self.load(env=env, tenant="given")
        self.assertEqual([str(one) for one in mixed.controller], ["https://env:7443", "unix:/s"])
        self.assertEqual((mixed.tenant, mixed.ca), ("given", plain.ca), "an empty variable is none")
        self.assertEqual(self.load(env=env, controller="https://given").controller[0].host, "given")
        self.assertEqual(self.load(tenant="").tenant, "")

    def test_a_context_is_chosen_by_argument_then_environment_then_file(self) -> None:
        self.assertEqual(self.load(env={"RAIL_CONTEXT": "two"}).controller[0].host, "two")
        self.assertEqual(self.load(env={"RAIL_CONTEXT": "two"}, context="one").controller[1].host, "one")
        with self.assertRaisesRegex(ConfigError, "did you mean `one`"):
            self.load(context="onee")
        with self.assertRaisesRegex(ConfigError, "there are: one, two"):
            self.load(context="production")

    def test_an_identity_is_never_mixed(self) -> None:
        token = self.load(env={"RAIL_TOKEN": TOKEN})
        self.assertEqual((token.cert, token.key, token.token), (None, None, TOKEN))
        with self.assertRaisesRegex(ConfigError, "key is not given"):
            self.load(cert="/x/cert.pem")

    def test_tokens_are_read_from_files_and_never_shown(self) -> None:
        file = Path(self.folder.name) / "token"
        file.write_text(TOKEN + "\n")
        settings = self.load(token=file)
        self.assertEqual(settings.token, TOKEN)
        self.assertNotIn("bbbb", repr(settings))
        for wrong in ("rail-user-v1.secret", str(file) + "x"):
            with self.assertRaises(ConfigError) as caught:
                self.load(token=wrong)
            self.assertNotIn("secret", str(caught.exception))

    def test_a_token_that_is_written_badly_is_not_shown(self) -> None:
        part = "b" * 8
        bad = (
            f" {TOKEN}",
            f"'{TOKEN}'",
            f"Bearer {TOKEN}",
            TOKEN[5:],
            f"/{TOKEN}",
            f"\0{TOKEN}",
            f"{TOKEN} ",
            TOKEN * 99,
        )
        for wrong in bad:
            for given in ({"token": wrong}, {"env": {"RAIL_TOKEN": wrong}}):
                with self.subTest(wrong), self.assertRaises(ConfigError) as caught:
                    self.load(**cast(Any, given))
                self.assertNotIn(part, "".join(traceback.format_exception(caught.exception)))
                self.assertIsNone(caught.exception.__context__)
        file = Path(self.folder.name) / "token"
        file.write_bytes(b"\xff" + TOKEN.encode())
        with self.assertRaises(ConfigError) as caught:
            self.load(token=file)
        self.assertNotIn(part, str(caught.exception))

    def test_a_file_that_is_wrong_where_its_token_stands(self) -> None:
        for wrong in (
            f"token {TOKEN}",
            f"token: 'rail-user-v1.' {TOKEN[13:]}",
            f'token: "{TOKEN}\\x"',
            f"token: [{TOKEN}] {TOKEN}",
        ):
            self.path.write_text(f"contexts:\n  one:\n    ca: x\n    {wrong}\n")
            with self.subTest(wrong), self.assertRaisesRegex(ConfigError, "config.yaml:4") as caught:
                self.load()
            self.assertNotIn(TOKEN[13:20], str(caught.exception))
            self.assertNotIn("bbbb", str(caught.exception))

    def test_what_is_missing_is_said(self) -> None:
        with self.assertRaisesRegex(ConfigError, "railctl dev up"):
            Settings.load(environ={})
        with self.assertRaisesRegex(ConfigError, "RAIL_CA"):
            Settings.load(environ={}, controller="https://a")
        for wrong in (
            "http://a",
            "a:1",
            "https://",
            "https://a:0",
            "https://a:70000",
            "unix:a",
            "https://a/b",
            "https://u@a",
        ):
            with self.assertRaises(ConfigError, msg=wrong):
                Endpoint.parse(wrong)
        self.assertEqual(Endpoint.parse("https://[::1]:5").authority, "[::1]:5")

    def test_the_file_is_found_as_by_railctl(self) -> None:
        from railyard.client.config import config_path

        self.assertEqual(config_path({"HOME": "/h"}), Path("/h/.config/railyard/config.yaml"))
        self.assertEqual(config_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}), Path("/x/railyard/config.yaml"))
        self.assertEqual(
            config_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}), Path("/h/.config/railyard/config.yaml")
        )
        self.assertEqual(config_path({"RAIL_CONFIG": "/y"}), Path("/y"))
        self.assertIsNone(config_path({}))

    def test_a_bad_file_is_refused_with_its_place(self) -> None:
        for text, found in [
            ("a: [", "config.yaml:1"),
            ("contxts: {}", "contxts"),
            ("contexts: {a: {certt: x}}", "certt"),
            ("contexts: {a: {controller: x}}", "list"),
            ("a", "no mapping"),
        ]:
            self.path.write_text(text)
            with self.assertRaisesRegex(ConfigError, found):
                self.load()


class Yaml(unittest.TestCase):
    def test_mappings_lists_and_texts(self) -> None:
        cases: list[tuple[str, Any]] = [
            ("", None),
            ("# only this\n", None),
            ("a: b # c\nd: e#f\n", {"a": "b", "d": "e#f"}),
            ("a:\nb: ~\nc: null\n", {"a": None, "b": None, "c": None}),
            (
                "a:\n  b:\n    - c\n    - d: e\n      f: g\n  h: i\n",
                {"a": {"b": ["c", {"d": "e", "f": "g"}], "h": "i"}},
            ),
            ("a:\n- b\n- 'c''d'\nz: 1\n", {"a": ["b", "c'd"], "z": "1"}),
            ("a: [unix:/s, \"x: #\", 'a b', {c: d}]\n", {"a": ["unix:/s", "x: #", "a b", {"c": "d"}]}),
            ('{"a": {"b": ["c\\n"]}, d: }', {"a": {"b": ["c\n"]}, "d": None}),
            ('"a b": "c\\"d"\n', {"a b": 'c"d'}),
            ("a: https://h:1\n", {"a": "https://h:1"}),
            ("a: []\nb: {}\n", {"a": [], "b": {}}),
        ]
        for text, expected in cases:
            with self.subTest(text):
                self.assertEqual(_yaml.parse(text), expected)

    def test_what_is_wrong_has_its_line(self) -> None:
        for text, line in [
            ("a: 1\nb: 2\na: 3\n", 3),
            ("a: &x 1\n", 1),
            ("a: |\n  text\n", 1),
            ("a: [1\nb: 2", 1),
            ("a: 1\n  b: 2\n", 2),
            ("a: 1\n---\nb: 2\n", 2),
            ('a: "b\n', 1),
            ("a: 'b' c\n", 1),
            ("[" * 2000, 1),
        ]:
            with self.subTest(text[:20]), self.assertRaises(_yaml.Wrong) as caught:
                _yaml.parse(text)
            self.assertEqual(caught.exception.line, line)


if __name__ == "__main__":
    unittest.main()
