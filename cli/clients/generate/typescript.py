"""The TypeScript client: types, operations, services, classes of errors, kinds of documents."""

import json
import os
import re

import reading
from reading import COMMON, WIDTH, camel, module, pascal, placed, shape

ROOT = os.path.join(reading.ROOT, "cli/clients/typescript/src/generated")
FOLDERS = ("", "types", "services")
ENDING = ".ts"

HEAD = "// {about} Written by cli/clients/generate from the OpenAPI document: do not change it by hand.\n\n"
NAMES = {"bytes": "string", "string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def type_of(one):
    """A shape as a type."""
    if one[0] == "ref":
        return one[1]
    if one[0] == "list":
        return f"{type_of(one[1])}[]"
    if one[0] == "map":
        return f"Record<string, {type_of(one[1])}>"
    return "Int64" if one[0] in ("int64", "uint64") else NAMES.get(one[0], "unknown")


def comment(text, indent):
    """A comment of documentation."""
    pad = " " * indent
    lines = reading.lines_of(text.replace("*/", "* /"), WIDTH - indent - 3)
    if not text.strip():
        return ""
    if len(lines) == 1 and len(lines[0]) + indent + 7 <= WIDTH:
        return f"{pad}/** {lines[0]} */\n"
    return f"{pad}/**\n" + "".join(f"{pad} * {line}".rstrip() + "\n" for line in lines) + f"{pad} */\n"


def message(name, schema):
    about = comment(schema.get("description", ""), 0)
    if "enum" in schema:
        return about + listed(f"export type {name} =", " | ".join(json.dumps(value) for value in schema["enum"]), " | ")
    body = ""
    for field, one in schema.get("properties", {}).items():
        body += comment(one.get("description", ""), 2) + f"  {field}?: {type_of(shape(one))};\n"
    return f"{about}export interface {name} {{\n{body}}}\n" if body else f"{about}export type {name} = Record<string, never>;\n"


def listed(begin, values, between):
    """A declaration, on lines of its own if it is long."""
    line = f"{begin} {values};\n"
    if len(line) <= WIDTH:
        return line
    return f"{begin}\n" + "\n".join(f"  {between.strip()} {value}" for value in values.split(between)) + ";\n"


def imports(text, known, own, where):
    """Lines that import the types that a text names."""
    code = re.sub(r"/\*\*.*?\*/|\"[^\"\n]*\"", "", text, flags=re.DOTALL)
    by_module = {}
    for word in set(re.findall(r"\b[A-Z]\w+\b", code)):
        if known.get(word, own) != own:
            by_module.setdefault(known[word], []).append(word)
    return "".join(f'import type {{ {", ".join(sorted(by_module[place]))} }} from "{where}{place}.js";\n' for place in sorted(by_module))


def types(document):
    places, schemas = placed(document), document["components"]["schemas"]
    known, files = places | {"Int64": COMMON}, {}
    for place in sorted({COMMON, *places.values()}):
        names = sorted(name for name, where in places.items() if where == place)
        parts = [message(name, schemas[name]) for name in names]
        if place == COMMON:
            text = "A 64-bit number: text, as canonical JSON has it. `Number(...)` or `BigInt(...)` reads it."
            parts.insert(0, comment(text, 0) + "export type Int64 = string;\n")
        body = "\n".join(parts)
        about = "Messages that several services use." if place == COMMON else f"Messages of `Client.{camel(place)}`."
        other = imports(body, known, place, "./")
        files[f"types/{place}.ts"] = HEAD.format(about=about) + (f"{other}\n" if other else "") + body
    lines = HEAD.format(about="Messages of the API as its JSON has them; what is empty may be left out.")
    files["types/index.ts"] = lines + "".join(f'export type * from "./{place}.js";\n' for place in sorted({COMMON, *places.values()}))
    return files


class Call(reading.Call):
    """One call as methods are written of it."""

    def __init__(self, *given):
        super().__init__(*given)
        self.name = camel(self.words)
        self.params = f"{pascal(self.id)}Params"
        self.answered = type_of(self.answer)

    def operation_text(self):
        """What describes it."""
        names = ", ".join(json.dumps(one.name) for one in self.fields)
        parts = [f'name: "{self.id}"', f'method: "{self.http}"', f'path: "{self.path}"', f"repeatable: {str(self.repeatable).lower()}"]
        parts += [f"fields: [{names}]"]
        parts += [f'tenant: "{self.tenant}"'] if self.tenant else []
        parts += [f"{word}: true" for word, has in (("requestId", self.request_id), ("whole", self.whole), ("owned", self.owned)) if has]
        parts += [f'thing: "{self.thing}"'] if self.thing else []
        line = f"  {self.id}: {{ {', '.join(parts)} }},\n"
        return line if len(line) <= WIDTH else f"  {self.id}: {{\n" + "".join(f"    {part},\n" for part in parts) + "  },\n"

    def interface(self, left_out=(), name=None):
        """What a call may be given beside what is in its path."""
        body = ""
        for one in self.fields:
            if one.name not in left_out:
                body += comment(one.about, 2) + f"  {one.name}{'' if one.required else '?'}: {type_of(one.shape)};\n"
        base = "WatchOptions" if self.thing else "CallOptions"
        return f"export interface {name or self.params} extends {base} {{\n{body}}}\n"

    def given(self, kind):
        path = "".join(f"{one.name}: {type_of(one.shape)}, " for one in self.in_path)
        body = f"{camel_first(self.body)}: {self.body}, " if self.body else ""
        default = "" if any(one.required for one in self.fields) else " = {}"
        return f"{path}{body}params: {kind}{default}"

    def methods(self):
        path = "{ " + ", ".join(one.name for one in self.in_path) + " }" if self.in_path else "{}"
        body = camel_first(self.body) if self.body else "undefined"
        if self.stream:
            kind, make = ("Watch", "watching") if self.thing else ("Records", "records")
            text = f"  {self.name}({self.given(self.params)}): {kind}<{self.answered}> {{\n"
            text += f"    return this.{make}(operations.{self.id}, {path}, params);\n  }}\n"
            return comment(self.about(), 2) + text
        text = f"  async {self.name}({self.given(self.params)}): Promise<{self.answered}> {{\n"
        text += f"    return this.call(operations.{self.id}, {path}, params, {body});\n  }}\n"
        text = comment(self.about(), 2) + text
        if self.pages():
            field, rows = self.pages()
            kind = f"Omit<{self.params}, \"pageToken\">"
            text += "\n" + comment(f"All rows of `{self.name}`, page by page.", 2)
            text += f"  {self.name}All({self.given(kind)}): Pages<{type_of(rows)}> {{\n"
            text += f'    return this.pages(operations.{self.id}, {path}, params, "{field}");\n  }}\n'
        return text


def camel_first(name):
    """A message's name as an argument's; one that is a word of the language has a mark behind it."""
    word = name[:1].lower() + name[1:]
    return f"{word}_" if word in ("switch", "function", "default", "delete") else word


def services(document):
    known, files = placed(document) | {"Int64": COMMON}, {}
    by_tag = reading.calls(document, Call)
    for tag, all_ in by_tag.items():
        body = "\n".join(call.interface() for call in all_)
        body += "\n" + comment(f"`Client.{camel(module(tag))}`.", 0) + f"export class {pascal(module(tag))}Service extends Resource {{\n"
        body += "\n".join(call.methods() for call in all_) + "}\n"
        used = [word for word in ("CallOptions", "WatchOptions") if re.search(rf"\b{word}\b", body)]
        head = HEAD.format(about=f"Calls of `Client.{camel(module(tag))}`.")
        head += f'import type {{ {", ".join(used)} }} from "../../core.js";\nimport {{ Resource }} from "../../resource.js";\n'
        streams = [word for word in ("Pages", "Records") if f" {word}<" in body]
        head += f'import type {{ {", ".join(streams)} }} from "../../resource.js";\n' if streams else ""
        head += 'import type { Watch } from "../../watch.js";\n' if " Watch<" in body else ""
        head += 'import { operations } from "../operations.js";\n'
        files[f"services/{module(tag)}.ts"] = head + imports(body, known, "", "../types/") + "\n" + body
    lines = HEAD.format(about="One attribute for each service of the API.") + 'import type { Core } from "../../core.js";\n'
    tags = sorted(by_tag, key=module)
    lines += "".join(f'import {{ {pascal(module(tag))}Service }} from "./{module(tag)}.js";\n' for tag in tags)
    lines += "\n" + "".join(f'export * from "./{module(tag)}.js";\n' for tag in tags)
    lines += "\n/** The calls of the API by service. */\nexport class Services {\n"
    lines += "".join(f"  readonly {camel(module(tag))}: {pascal(module(tag))}Service;\n" for tag in tags)
    lines += "\n  constructor(core: Core) {\n"
    lines += "".join(f"    this.{camel(module(tag))} = new {pascal(module(tag))}Service(core);\n" for tag in tags) + "  }\n}\n"
    files["services/index.ts"] = lines
    text = HEAD.format(about="What describes each call of the API.") + 'import type { Operation } from "../core.js";\n\n'
    body = "".join(call.operation_text() for tag in tags for call in by_tag[tag])
    files["operations.ts"] = f"{text}export const operations = {{\n{body}}} satisfies Record<string, Operation>;\n"
    return files


def error_name(name):
    return name if name.endswith("Error") else f"{name}Error"


def errors():
    text = HEAD.format(about="One class for each class of error of the API.") + 'import { ApiError } from "../errors.js";\n'
    text += 'import type { ErrorFields } from "../errors.js";\n'
    for name, word, code, status, about in reading.errors():
        text += "\n" + comment(about.replace("`retry_after`", "`retryAfterMs`"), 0) + f"export class {error_name(name)} extends ApiError {{\n"
        text += f'  constructor(message: string, fields: ErrorFields = {{}}) {{\n    super(message, {{ code: {code}, status: "{status}", '
        text += f'errorClass: "{word}", ...fields }});\n    this.name = "{error_name(name)}";\n  }}\n}}\n'
    text += "\n/** Classes by the API's word for them. */\nexport const byClass = {\n"
    text += "".join(f'  "{word}": {error_name(name)},\n' for name, word, *_ in reading.errors() if name != "TlsError") + "} as const;\n"
    return {"errors.ts": text}


def kinds(document):
    text = HEAD.format(about="Kinds of documents.") + 'import type { Operation } from "../core.js";\n'
    text += 'import { operations } from "./operations.js";\n\n/** How documents of one kind are planned, applied and read. */\n'
    text += "export interface Kind {\n  /** The field of a planned document. */\n  readonly field: string;\n"
    text += "  /** Absent for jobs, which are submitted. */\n  readonly apply?: Operation;\n  readonly get: Operation;\n"
    text += "  readonly ofTenant: boolean;\n}\n\nexport const kinds: Readonly<Record<string, Kind>> = {\n"
    for one in reading.kinds(document):
        apply = f"apply: operations.{one.apply.id}, " if one.apply else ""
        text += f'  {one.name}: {{ field: "{one.field}", {apply}get: operations.{one.get.id}, ofTenant: {str(one.of_tenant).lower()} }},\n'
    return {"kinds.ts": text + "};\n"}


def files(document):
    """All that is generated: path and text."""
    return types(document) | services(document) | errors() | kinds(document)
