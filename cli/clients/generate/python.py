"""The Python client: `railyard.client`'s types and calls, blocking and asynchronous."""

import keyword
import os
import re

import reading
from reading import COMMON, WIDTH, module, placed, shape, snake

ROOT = os.path.join(reading.ROOT, "node-agent/capi/python/railyard/client")
FOLDERS = ("types", "resources", "resources/aio")
ENDING = ".py"

HEAD = '''"""{about} Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

'''


def argument(name):
    word = snake(name)
    return word + "_" if keyword.iskeyword(word) else word


def class_name(tag):
    return "".join(part.capitalize() for part in module(tag).split("_")) + "Service"


def type_of(one):
    """A shape as a Python type."""
    kind = one[0]
    if kind == "ref":
        return one[1]
    if kind in ("list", "map"):
        inner = type_of(one[1])
        return f"list[{inner}]" if kind == "list" else f"dict[str, {inner}]"
    names = {"int64": "Int64", "uint64": "Int64", "bytes": "str", "string": "str", "integer": "int", "number": "float", "boolean": "bool"}
    return names.get(kind, "Any")


def comment(text, indent):
    lines = reading.lines_of(text, WIDTH - indent - 3)
    return "".join(f"{' ' * indent}#: {line}".rstrip() + "\n" for line in lines)


def docstring(text, indent):
    text = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    lines = reading.lines_of(text, WIDTH - indent)
    pad = " " * indent
    if len(lines) == 1 and len(lines[0]) + indent + 6 <= WIDTH:
        return f'{pad}"""{lines[0]}"""\n'
    lines[0] = '"""' + lines[0]
    return "".join((pad + line).rstrip() + "\n" for line in lines) + f'{pad}"""\n'


def message(name, schema):
    """The declaration of one schema."""
    about = schema.get("description", "")
    if "enum" in schema:
        values = ", ".join(f'"{value}"' for value in schema["enum"])
        line = f"{name} = Literal[{values}]\n"
        if len(line) > WIDTH:
            line = f"{name} = Literal[\n" + "".join(f'    "{value}",\n' for value in schema["enum"]) + "]\n"
        return comment(about, 0) + line
    properties = schema.get("properties", {})
    if any(keyword.iskeyword(field) for field in properties):
        fields = "".join(f'        "{field}": "{type_of(shape(one))}",\n' for field, one in properties.items())
        return comment(about, 0) + f'{name} = TypedDict(\n    "{name}",\n    {{\n{fields}    }},\n    total=False,\n)\n'
    body = docstring(about, 4) + "\n" * bool(properties) if about else ""
    body = body or ("" if properties else docstring("Nothing is in it.", 4))
    for field, one in properties.items():
        if one.get("description"):
            body += comment(one["description"], 4)
        body += f"    {field}: {type_of(shape(one))}\n"
    return f"class {name}(TypedDict, total=False):\n{body}"


def without_words(text):
    """Code without its docstrings and comments."""
    return re.sub(r"#:.*", "", re.sub(r'""".*?"""', "", text, flags=re.DOTALL))


def imports(text, known, own):
    """Lines that import what a module's text names of other modules of types."""
    text = without_words(text)
    by_module = {}
    for word in set(re.findall(r"\b[A-Z]\w+\b", text)):
        if word in known and known[word] != own:
            by_module.setdefault(known[word], []).append(word)
    lines = ""
    for place in sorted(by_module):
        names = "".join(f"    {name},\n" for name in sorted(by_module[place]))
        lines += f"from {{prefix}}.{place} import (\n{names})\n"
    return lines


def types(document):
    """Modules of types: path and text."""
    places, schemas = placed(document), document["components"]["schemas"]
    known = places | {"Int64": COMMON}
    files = {}
    for place in sorted({COMMON, *places.values()}):
        names = sorted(name for name, where in places.items() if where == place)
        # Names that stand for values of others come first: they are made when the module is read.
        names.sort(key=lambda name: "enum" not in schemas[name])
        parts = [message(name, schemas[name]) for name in names]
        if place == COMMON:
            text = "A 64-bit number: text in answers, as canonical JSON has it (`int(...)` reads it); a number will do in requests."
            parts.insert(0, comment(text, 0) + "Int64: TypeAlias = int | str\n")
        body = "\n\n".join(parts) if parts else ""
        code = without_words(body)
        used = [word for word in ("Any", "Literal", "TypeAlias", "TypedDict") if re.search(rf"\b{word}\b", code)]
        about = "Messages that several services use." if place == COMMON else f"Messages of `Client.{place}`."
        head = HEAD.format(about=about) + f"from typing import {', '.join(used)}\n"
        other = imports(body, known, place).replace("{prefix}", "")
        files[f"types/{place}.py"] = head + (f"\n{other}" if other else "") + "\n\n" + body
    lines = HEAD.format(about="Messages of the API as its JSON has them; what is empty may be left out.")
    for place in sorted({COMMON, *places.values()}):
        names = sorted(name for name, where in known.items() if where == place)
        lines += f"from .{place} import (\n" + "".join(f"    {name} as {name},\n" for name in names) + ")\n"
    files["types/__init__.py"] = lines
    return files


class Call(reading.Call):
    """One call as methods are written of it."""

    def __init__(self, *given):
        super().__init__(*given)
        self.name = self.words + "_" if keyword.iskeyword(self.words) else self.words
        self.constant = snake(self.id).upper()
        self.answered = type_of(self.answer)

    def declaration(self):
        """The constant that describes it."""
        more = f', tenant="{self.tenant}"' if self.tenant else ""
        more += ", request_id=True" if self.request_id else ""
        more += ", whole=True" if self.whole else ""
        more += ", owned=True" if self.owned else ""
        return f'{self.constant} = Operation("{self.id}", "{self.http}", "{self.path}", {self.repeatable}{more})\n'

    def parameters(self, left_out=()):
        """What a method takes, each on a line, and what it hands on."""
        lines = [f"{argument(one.name)}: {type_of(one.shape)}" for one in self.in_path]
        if self.body:
            lines.append(f"{argument(self.body)}: {self.body}")
        named = [one for one in self.fields if one.name not in left_out]
        if named or not self.stream:
            lines.append("*")
        given = lambda one: re.sub(r"^list\[", "Sequence[", type_of(one.shape))  # noqa: E731
        lines += [f"{argument(one.name)}: {given(one)}" for one in named if one.required]
        lines += [f"{argument(one.name)}: {given(one)} | None = None" for one in named if not one.required]
        if not self.stream or self.thing:
            lines.append("timeout: float | None = None")
        path = "{" + ", ".join(f'"{one.name}": {argument(one.name)}' for one in self.in_path) + "}"
        fields = "{" + ", ".join(f'"{one.name}": {argument(one.name)}' for one in named) + "}"
        return lines, path, fields

    def text(self):
        text = self.about()
        for one in self.fields:
            if one.about:
                text += f"\n`{argument(one.name)}`: {' '.join(one.about.split())}"
        return text.replace("\n`", "\n\n`", 1)

    def methods(self, asynchronous):
        text = self.plain(asynchronous)
        return text + ("\n" + self.paged(asynchronous) if self.pages() else "")

    def signature(self, begin, lines, answer):
        one = f"    {begin}({', '.join(['self', *lines])}) -> {answer}:\n"
        if len(one) <= WIDTH:
            return one
        return (
            f"    {begin}(\n        self,\n" + "".join(f"        {line},\n" for line in lines) + f"    ) -> {answer}:\n"
        )

    def plain(self, asynchronous):
        lines, path, fields = self.parameters()
        if self.stream:
            kind = ("Watch" if self.thing else "Records") + f"[{self.answered}]"
            begin = f"def {self.name}"
            answer = ("Async" if asynchronous else "") + kind
            make = "_watch" if self.thing else "_records"
            more = ", timeout" if self.thing else ""
            body = f"        return self.{make}({self.constant}, {path}, {fields}{more})\n"
        else:
            begin = f"{'async ' if asynchronous else ''}def {self.name}"
            answer = self.answered
            wait = "await " if asynchronous else ""
            document = argument(self.body) if self.body else None
            body = (
                f"        answer: {answer} = {wait}self._call({self.constant}, {path}, {fields}, {document}, timeout)\n"
            )
            body += "        return answer\n"
        return self.signature(begin, lines, answer) + docstring(self.text(), 8) + wrapped(body)

    def paged(self, asynchronous):
        field, rows = self.pages()
        kind = type_of(rows)
        lines, path, fields = self.parameters(("pageSize", "pageToken"))
        begin = f"{'async ' if asynchronous else ''}def {self.name}_all"
        wait = "await " if asynchronous else ""
        body = f'        rows: Sequence[{kind}] = {wait}self._pages({self.constant}, {path}, {fields}, "{field}", timeout)\n'
        about = docstring(f"All rows of `{self.name}`, page by page.", 8)
        return self.signature(begin, lines, f"Sequence[{kind}]") + about + wrapped(f"{body}        return rows\n")


def wrapped(body):
    """A call that is too long for a line, with an argument on each."""
    lines = []
    for line in body.splitlines():
        found = re.fullmatch(r"(\s+)(.*?self\._\w+\()(.*)\)", line) if len(line) > WIDTH else None
        if not found:
            lines.append(line)
            continue
        pad, begin, rest = found.groups()
        lines.append(pad + begin)
        for part in re.findall(r"\{[^}]*\}|[^,{}]+", rest):
            part = part.strip()
            if not part:
                continue
            if len(part) + len(pad) + 6 > WIDTH:
                lines.append(f"{pad}    {{")
                lines += [f"{pad}        {entry.strip()}," for entry in part[1:-1].split(",")]
                lines.append(f"{pad}    }},")
            else:
                lines.append(f"{pad}    {part},")
        lines.append(f"{pad})")
    return "\n".join(lines) + "\n"


def resources(document):
    """Modules of calls, blocking and asynchronous: path and text."""
    known = placed(document) | {"Int64": COMMON}
    by_tag = reading.calls(document, Call)
    files = {}
    for tag, calls in by_tag.items():
        for prefix in ("", "Async"):
            files[f"resources/{'aio/' if prefix else ''}{module(tag)}.py"] = service(tag, calls, prefix, known)
    for prefix in ("", "Async"):
        files[f"resources/{'aio/' if prefix else ''}__init__.py"] = bundle(by_tag, prefix)
    return files


def service(tag, calls, prefix, known):
    """The text of one module of calls."""
    dots = "..." if prefix else ".."
    body = "" if prefix else "".join(call.declaration() for call in calls) + "\n\n"
    body += f'class {prefix}{class_name(tag)}({prefix}Resource):\n    """`{prefix}Client.{module(tag)}`."""\n\n'
    body += "\n".join(call.methods(bool(prefix)) for call in calls)
    used = [f"{prefix}Resource"]
    used += [word for word in ("AsyncRecords", "AsyncWatch", "Records", "Watch") if f" {word}[" in body]
    head = HEAD.format(about=f"Calls of `{prefix}Client.{module(tag)}`.")
    head += "from collections.abc import Sequence\n\n" if "Sequence[" in body else ""
    head += "" if prefix else "from .._core import Operation\n"
    head += f"from {dots}_resource import {', '.join(sorted(used))}\n"
    head += imports(body, known, "").replace("{prefix}", f"{dots}types")
    if prefix:
        names = "".join(f"    {call.constant},\n" for call in calls)
        head += f"from ..{module(tag)} import (\n{names})\n\n"
    return f"{head}\n{body}"


def bundle(by_tag, prefix):
    """The class that has an attribute for each service."""
    dots, tags = "..." if prefix else "..", sorted(by_tag, key=module)
    lines = HEAD.format(about="One attribute for each service of the API.") + f"from {dots}_core import Core\n"
    lines += "".join(f"from .{module(tag)} import {prefix}{class_name(tag)}\n" for tag in tags)
    lines += f'\n\nclass {prefix}Services:\n    """The calls of the API by service."""\n\n    def __init__(self, core: Core) -> None:\n'
    return lines + "".join(f"        self.{module(tag)} = {prefix}{class_name(tag)}(core)\n" for tag in tags)


def files(document):
    """All that is generated: path and text."""
    return types(document) | resources(document)
