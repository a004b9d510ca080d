"""The little YAML that a configuration file needs: mappings, lists and texts, no aliases, no tags. Every scalar is a text."""

from __future__ import annotations

import json
import re
from typing import Any

#: Deeper than any configuration file.
MAX_DEPTH = 8

_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE = re.compile(r"'(?:[^']|'')*'")


def shown(part: str, line: str) -> str:
    """A part of a line as errors show it: 40 characters at most, and none of a line that has a token."""
    return "..." if "rail-user-" in line else part.strip()[:40]


class Wrong(ValueError):
    """Why a text is no configuration, with the line (from 1)."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"{line}: {message}")
        self.line = line


def parse(text: str) -> Any:
    """Reads one document; an empty one, and an empty value, is None. Raises `Wrong`."""
    lines: list[tuple[int, int, str]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        bare = _without_comment(raw).rstrip()
        if bare in ("", "---", "...") and not (bare == "---" and lines):
            continue
        if bare == "---":
            raise Wrong(number, "a configuration file is one document")
        if "\t" in bare[: len(bare) - len(bare.lstrip())]:
            raise Wrong(number, "tabs do not indent")
        lines.append((number, len(bare) - len(bare.lstrip()), bare.lstrip()))
    reader = _Reader(lines)
    value = reader.block(0, 0) if lines else None
    if reader.at < len(lines):
        raise Wrong(lines[reader.at][0], "this is indented as nothing before it")
    return value


def _without_comment(line: str) -> str:
    at = 0
    while at < len(line):
        if line[at] == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
        begins = at == 0 or line[at - 1] in " \t[{,:-"
        quoted = {'"': _DOUBLE, "'": _SINGLE}.get(line[at]) if begins else None
        found = quoted.match(line, at) if quoted else None
        at = found.end() if found else at + 1
    return line


class _Reader:
    """The lines that have something on them: number, indentation, text."""

    def __init__(self, lines: list[tuple[int, int, str]]) -> None:
        self.lines = lines
        self.at = 0

    def block(self, least: int, depth: int) -> Any:
        """The mapping, list or value that begins here, indented by `least` or more."""
        number, indent, text = self.lines[self.at]
        if depth > MAX_DEPTH:
            raise Wrong(number, "nested too deep for a configuration file")
        if indent < least:
            return None
        if text == "-" or text.startswith("- "):
            return self.items(indent, depth)
        if _key(text) is None:
            self.at += 1
            return Flow(number, text).whole()
        return self.mapping(indent, depth)

    def items(self, indent: int, depth: int) -> list[Any]:
        """The list that begins here: lines with a dash."""
        found = []
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here != indent or not (text == "-" or text.startswith("- ")):
                break
            rest = text[1:].lstrip()
            if rest:
                self.lines[self.at] = (number, here + len(text) - len(rest), rest)
            else:
                self.at += 1
            found.append(self.block(indent + 1, depth + 1) if self.at < len(self.lines) else None)
        return found

    def mapping(self, indent: int, depth: int) -> dict[str, Any]:
        """The mapping that begins here: lines with a key, each with its value behind it or below it."""
        found: dict[str, Any] = {}
        while self.at < len(self.lines):
            number, here, text = self.lines[self.at]
            if here != indent:
                break
            split = _key(text)
            if split is None:
                raise Wrong(number, f"expected `key: value`, found `{shown(text, text)}`")
            name, rest = Flow(number, split[0]).whole(), split[1]
            if not isinstance(name, str):
                raise Wrong(number, "a key must be a plain text")
            if name in found:
                raise Wrong(number, f"`{name}` stands here twice")
            self.at += 1
            if rest:
                found[name] = Flow(number, rest).whole()
                continue
            deeper = indent + 1
            if self.at < len(self.lines) and self.lines[self.at][2].startswith("-"):
                deeper = indent
            below = self.at < len(self.lines) and self.lines[self.at][1] >= deeper
            found[name] = self.block(deeper, depth + 1) if below else None
        return found


def _key(text: str) -> tuple[str, str] | None:
    """The key of a line and what follows its colon."""
    quoted = {'"': _DOUBLE, "'": _SINGLE}.get(text[0])
    found = quoted.match(text) if quoted else re.match(r"[^\[\]{},#&*!|>%@`:]+(?::\S[^\s:]*)*?(?=:(\s|$))", text)
    if not found:
        return None
    rest = text[found.end() :].lstrip()
    if not rest.startswith(":") or (len(rest) > 1 and not rest[1].isspace()):
        return None
    return found.group().strip(), rest[1:].strip()


class Flow:
    """A value on one line: a text, `[a, b]` or `{a: b}`."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.at = 0

    def wrong(self, message: str) -> Wrong:
        return Wrong(self.number, message)

    def whole(self) -> Any:
        """The value, with nothing behind it."""
        if self.text[:1] not in ("[", "{", '"', "'"):
            return self.plain(self.text)
        value = self.value(0)
        if self.text[self.at :].strip():
            raise self.wrong(f"`{shown(self.text[self.at :], self.text)}` stands behind a value")
        return value

    def plain(self, text: str) -> str | None:
        text = text.strip()
        if text[:1] in ("&", "*", "!", "|", ">"):
            raise self.wrong("aliases, tags and blocks of text are not used in a configuration file")
        return None if text in ("", "~", "null") else text

    def blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def value(self, depth: int) -> Any:
        """The value that begins here, whatever follows it."""
        if depth > MAX_DEPTH:
            raise self.wrong("nested too deep for a configuration file")
        self.blank()
        first = self.text[self.at : self.at + 1]
        if first == "[":
            return [value for _, value in self.entries("]", depth)]
        if first == "{":
            return {key: value for key, value in self.entries("}", depth) if key is not None}
        if first in ('"', "'"):
            return self.quoted(first)
        found = re.compile(r"[^\[\]{},]*?(?=\s*(?:[\[\]{},]|:\s|$))").match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.plain(found.group() if found else "")

    def quoted(self, mark: str) -> str:
        found = (_DOUBLE if mark == '"' else _SINGLE).match(self.text, self.at)
        if not found:
            raise self.wrong("a quotation mark has no partner")
        self.at = found.end()
        if mark == "'":
            return found.group()[1:-1].replace("''", "'")
        try:
            return str(json.loads(found.group()))
        except ValueError as error:
            raise self.wrong(f"{shown(found.group(), self.text)} is not quoted as JSON quotes") from error

    def entries(self, end: str, depth: int) -> list[tuple[str | None, Any]]:
        """What is between brackets, with keys where they are braces."""
        found: list[tuple[str | None, Any]] = []
        self.at += 1
        while True:
            self.blank()
            if self.text[self.at : self.at + 1] == end:
                self.at += 1
                return found
            key, value = None, self.value(depth + 1)
            self.blank()
            if end == "}":
                if self.text[self.at : self.at + 1] != ":" or not isinstance(value, str):
                    raise self.wrong("expected `key: value`")
                self.at += 1
                key, value = value, self.value(depth + 1)
                if any(key == known for known, _ in found):
                    raise self.wrong(f"`{key}` stands here twice")
                self.blank()
            found.append((key, value))
            mark = self.text[self.at : self.at + 1]
            if mark == ",":
                self.at += 1
            elif mark != end:
                raise self.wrong(f"expected `,` or `{end}`")
