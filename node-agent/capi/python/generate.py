"""Writes what of `railyard.client` follows from the API: types of its messages, and a method for each of its calls.

    python3 generate.py openapi.json            # as /v1/openapi.json gives it; `-` reads it from standard input
    python3 generate.py openapi.json --check    # changes nothing: fails where what is there is not what would be written

A test of the repository does the latter with the document of a running controller. Standard library only.
"""

import argparse
import json
import keyword
import os
import re
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "railyard", "client")
WIDTH = 140

#: Services by their tags: the client's attribute, and the nouns that a method's name leaves out.
SERVICES = {
    "Audit": ("audit", ("audit_records",)),
    "Config": ("configs", ("configs", "config")),
    "Deleted": ("deleted", ("deleted",)),
    "Document": ("documents", ("documents",)),
    "Fabric": ("fabric", ("fabric",)),
    "Health": ("health", ("health",)),
    "Job": ("jobs", ("jobs", "job")),
    "License": ("licenses", ("licenses", "license")),
    "Node": ("nodes", ("nodes", "node")),
    "Qos": ("qos", ("qos",)),
    "Queue": ("queues", ("queues", "queue")),
    "Rail": ("rails", ("rails", "rail")),
    "Reservation": ("reservations", ("reservations", "reservation")),
    "Schedule": ("schedules", ("schedules", "schedule")),
    "Secret": ("secrets", ("secrets", "secret")),
    "ServiceClass": ("service_classes", ("service_classes", "service_class")),
    "Switch": ("switches", ("switches", "switch")),
    "Tenant": ("tenants", ("tenants", "tenant")),
    "Webhook": ("webhooks", ("webhooks", "webhook")),
}
#: Calls of agents and switches, and the document itself.
LEFT_OUT = {"join", "joinSwitch", "getOpenApi"}
#: Services whose calls are for a tenant: the client's, where the caller names none.
OF_TENANTS = {"Job", "Queue", "Schedule", "Webhook", "Secret", "Config", "Document"}
#: Whose documents say of which tenant they are.
OWNED = {"applyQueue", "applySchedule", "applyWebhook", "applySecret", "applyConfig"}
#: POST that can be repeated without a request id; `apply` and `plan` can be as well, but for what gives a secret away once.
REPEATABLE, ONCE = {"cancelJob"}, {"applyWebhook"}
#: Streams that are resumed by a revision.
WATCHES = {"watchJobs", "watchNodes"}
#: The module of messages that several services use, and the one that may use those of all.
COMMON, LAST = "common", "Document"

HEAD = '''"""{about} Written by generate.py from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

'''


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def argument(name):
    word = snake(name)
    return word + "_" if keyword.iskeyword(word) else word


def module(tag):
    return SERVICES[tag][0]


def class_name(tag):
    return "".join(part.capitalize() for part in module(tag).split("_")) + "Service"


def method_name(operation_id, tag):
    words = f"_{snake(operation_id)}_"
    for noun in SERVICES[tag][1]:
        if f"_{noun}_" in words:
            words = words.replace(f"_{noun}_", "_", 1)
            break
    word = words.strip("_")
    return word + "_" if keyword.iskeyword(word) else word


def references(schema):
    """Names of the schemas that a schema uses itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rsplit("/", 1)[1]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def operations(document):
    """All calls that people make: tag, operation, method and path, by tag and name."""
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] not in LEFT_OUT:
                found.append((operation["tags"][0], operation, method.upper(), path))
    return sorted(found, key=lambda one: (one[0], one[1]["operationId"]))


def placed(document):
    """The module of each schema that is used: its service's, or the common one. So no module needs one that needs it."""
    schemas, users = document["components"]["schemas"], {}
    for tag, operation, _, _ in operations(document):
        waiting = list(references({key: operation.get(key) for key in ("parameters", "requestBody")}))
        waiting += references(operation["responses"]["200"])
        seen = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                users.setdefault(name, set()).add(tag)
                waiting += references(schemas[name])
    places = {}
    for name, tags in users.items():
        others = tags - {LAST} or tags
        places[name] = module(next(iter(others))) if len(others) == 1 else COMMON
    return places


def type_of(schema):
    """A schema as a Python type."""
    if "allOf" in schema and "type" not in schema:
        return type_of(schema["allOf"][0])
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    kind, form = schema.get("type"), schema.get("format")
    if kind == "string" and form in ("int64", "uint64"):
        return "Int64"
    if kind == "array":
        return f"list[{type_of(schema['items'])}]"
    if kind == "object":
        value = schema.get("additionalProperties")
        return f"dict[str, {type_of(value) if isinstance(value, dict) else 'Any'}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(kind, "Any")


def comment(text, indent):
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part.strip(), WIDTH - indent - 3) or [""]]
    return "".join(f"{' ' * indent}#: {line}".rstrip() + "\n" for line in lines)


def docstring(text, indent):
    text = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part.strip(), WIDTH - indent) or [""]]
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
        fields = "".join(f'        "{field}": "{type_of(one)}",\n' for field, one in properties.items())
        return comment(about, 0) + f'{name} = TypedDict(\n    "{name}",\n    {{\n{fields}    }},\n    total=False,\n)\n'
    body = docstring(about, 4) + "\n" * bool(properties) if about else ""
    body = body or ("" if properties else docstring("Nothing is in it.", 4))
    for field, one in properties.items():
        if one.get("description"):
            body += comment(one["description"], 4)
        body += f"    {field}: {type_of(one)}\n"
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


class Call:
    """One call as methods are written of it."""

    def __init__(self, document, tag, operation, method, path):
        self.schemas = document["components"]["schemas"]
        self.tag, self.operation, self.http, self.path = tag, operation, method, path
        self.id = operation["operationId"]
        self.name = method_name(self.id, tag)
        self.constant = snake(self.id).upper()
        answer = operation["responses"]["200"]["content"]
        self.stream = "application/x-ndjson" in answer
        self.answer = type_of(answer["application/x-ndjson" if self.stream else "application/json"]["schema"])
        self.in_path, self.fields, self.body = [], [], None
        for one in operation.get("parameters", ()):
            entry = (one["name"], type_of(one["schema"]), one["required"], one.get("description", ""))
            (self.in_path if one["in"] == "path" else self.fields).append(entry)
        self.whole = False
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            name = type_of(schema)
            self.whole = name.endswith("Request")
            if self.whole:
                required = self.schemas[name].get("required", ())
                for field, one in self.schemas[name].get("properties", {}).items():
                    self.fields.append((field, type_of(one), field in required, one.get("description", "")))
            else:
                self.body = name

    def tenant(self):
        names = [name for name, *_ in self.fields if name in ("tenant", "onBehalfOf")]
        return names[0] if names and self.tag in OF_TENANTS else ""

    def declaration(self):
        """The constant that describes it."""
        verb = self.id.startswith(("apply", "plan")) and self.id not in ONCE
        repeatable = self.http in ("GET", "PUT") or self.id in REPEATABLE or verb
        more = f', tenant="{self.tenant()}"' if self.tenant() else ""
        more += ", request_id=True" if any(name == "requestId" for name, *_ in self.fields) else ""
        more += ", whole=True" if self.whole else ""
        more += ", owned=True" if self.id in OWNED else ""
        return f'{self.constant} = Operation("{self.id}", "{self.http}", "{self.path}", {repeatable}{more})\n'

    def parameters(self, left_out=()):
        """What a method takes, each on a line, and what it hands on."""
        lines = [f"{argument(name)}: {kind}" for name, kind, *_ in self.in_path]
        if self.body:
            lines.append(f"{argument(self.body)}: {self.body}")
        named = [one for one in self.fields if one[0] not in left_out]
        if named or not self.stream:
            lines.append("*")
        given = lambda kind: re.sub(r"^list\[", "Sequence[", kind)  # noqa: E731
        lines += [f"{argument(name)}: {given(kind)}" for name, kind, required, _ in named if required]
        lines += [f"{argument(name)}: {given(kind)} | None = None" for name, kind, required, _ in named if not required]
        if not self.stream or self.id in WATCHES:
            lines.append("timeout: float | None = None")
        path = "{" + ", ".join(f'"{name}": {argument(name)}' for name, *_ in self.in_path) + "}"
        fields = "{" + ", ".join(f'"{name}": {argument(name)}' for name, *_ in named) + "}"
        return lines, path, fields

    def about(self):
        text = self.operation.get("description") or f"The call {self.id} of the API."
        said = [(name, more) for name, _, _, more in self.fields if more]
        for name, more in said:
            text += f"\n`{argument(name)}`: {' '.join(more.split())}"
        return text.replace("\n`", "\n\n`", 1)

    def pages(self):
        """The field and the type of what a list has, if it comes in pages."""
        schema = self.schemas.get(self.answer, {}).get("properties", {})
        if "nextPageToken" not in schema or not any(name == "pageToken" for name, *_ in self.fields):
            return None
        rows = [(name, type_of(one["items"])) for name, one in schema.items() if one.get("type") == "array"]
        return rows[0] if len(rows) == 1 else None

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
            kind = ("Watch" if self.id in WATCHES else "Records") + f"[{self.answer}]"
            begin = f"def {self.name}"
            answer = ("Async" if asynchronous else "") + kind
            make = "_watch" if self.id in WATCHES else "_records"
            more = ", timeout" if self.id in WATCHES else ""
            body = f"        return self.{make}({self.constant}, {path}, {fields}{more})\n"
        else:
            begin = f"{'async ' if asynchronous else ''}def {self.name}"
            answer = self.answer
            wait = "await " if asynchronous else ""
            document = argument(self.body) if self.body else None
            body = (
                f"        answer: {answer} = {wait}self._call({self.constant}, {path}, {fields}, {document}, timeout)\n"
            )
            body += "        return answer\n"
        return self.signature(begin, lines, answer) + docstring(self.about(), 8) + wrapped(body)

    def paged(self, asynchronous):
        field, kind = self.pages()
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
    by_tag = {}
    for one in operations(document):
        by_tag.setdefault(one[0], []).append(Call(document, *one))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", help="the OpenAPI document; - for standard input")
    parser.add_argument("--check", action="store_true", help="change nothing, and fail where something would change")
    options = parser.parse_args()
    with sys.stdin if options.document == "-" else open(options.document, encoding="utf-8") as file:
        document = json.load(file)
    files = types(document) | resources(document)
    wrong = []
    for folder in ("types", "resources", "resources/aio"):
        os.makedirs(os.path.join(PACKAGE, folder), exist_ok=True)
        there = [f"{folder}/{name}" for name in os.listdir(os.path.join(PACKAGE, folder)) if name.endswith(".py")]
        for extra in sorted(set(there) - set(files)):
            wrong.append(extra)
            if not options.check:
                os.remove(os.path.join(PACKAGE, extra))
    for path, text in sorted(files.items()):
        place = os.path.join(PACKAGE, path)
        old = None
        if os.path.exists(place):
            with open(place, encoding="utf-8") as file:
                old = file.read()
        if old != text:
            wrong.append(path)
            if not options.check:
                with open(place, "w", encoding="utf-8") as file:
                    file.write(text)
    for path in wrong:
        print(f"railyard/client/{path}: {'not as the API says it: run generate.py' if options.check else 'written'}")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
