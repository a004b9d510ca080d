"""One reading of the OpenAPI document, of which the client of each language is written.

What is here is of no language: which calls there are and what they take, how names are split into words, in which module a message
belongs, which fields know "absent" apart from "zero". Standard library only.
"""

import importlib.util
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
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
    "Usage": ("usage", ("usage_records", "usage")),
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
#: Streams that are resumed by a revision, and the field of an event that has what it is about.
WATCHES = {"watchJobs": "job", "watchNodes": "node"}
#: The module of messages that several services use, and the one that may use those of all.
COMMON, LAST = "common", "Document"


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(words):
    """`service_classes` as `serviceClasses`."""
    first, *rest = words.split("_")
    return first + "".join(part.capitalize() for part in rest)


def pascal(words):
    """`service_classes` as `ServiceClasses`."""
    return "".join(part[:1].upper() + part[1:] for part in words.split("_"))


def module(tag):
    return SERVICES[tag][0]


def references(schema):
    """Names of the schemas that a schema uses itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield named(schema)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def named(schema):
    return schema["$ref"].rsplit("/", 1)[1]


def shape(schema):
    """What a schema is, for any language: (`ref`, NAME), (`list`, SHAPE), (`map`, SHAPE), or one of `int64`, `uint64`, `bytes`, `string`,
    `integer`, `number`, `boolean`, `any` alone."""
    if "allOf" in schema and "type" not in schema:
        return shape(schema["allOf"][0])
    if "$ref" in schema:
        return ("ref", named(schema))
    kind, form = schema.get("type"), schema.get("format")
    if kind == "string" and form in ("int64", "uint64"):
        return (form,)
    if kind == "string" and form == "byte":
        return ("bytes",)
    if kind == "array":
        return ("list", shape(schema["items"]))
    if kind == "object":
        value = schema.get("additionalProperties")
        return ("map", shape(value) if isinstance(value, dict) else ("any",))
    return (kind,) if kind in ("string", "integer", "number", "boolean") else ("any",)


def operations(document):
    """All calls that people make, by service and name."""
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] not in LEFT_OUT:
                found.append((operation["tags"][0], operation, method.upper(), path))
    return sorted(found, key=lambda one: (one[0], one[1]["operationId"]))


def calls(document, kind=None):
    """The calls by their services' tags; `kind` is the language's own class of `Call`."""
    found = {}
    for one in operations(document):
        found.setdefault(one[0], []).append((kind or Call)(document, *one))
    return found


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


class Field:
    """A parameter of a call, or a field of its body."""

    def __init__(self, name, schema, required, about):
        self.name, self.shape, self.required, self.about = name, shape(schema), required, about


class Call:
    """One call of the API."""

    def __init__(self, document, tag, operation, method, path):
        self.schemas = document["components"]["schemas"]
        self.tag, self.operation, self.http, self.path = tag, operation, method, path
        self.id = operation["operationId"]
        #: The method's name in words, as `list_usage`.
        self.words = method_words(self.id, tag)
        answer = operation["responses"]["200"]["content"]
        self.stream = "application/x-ndjson" in answer
        #: Of a watch: the field of its events that has what they are about.
        self.thing = WATCHES.get(self.id, "")
        self.answer = shape(answer["application/x-ndjson" if self.stream else "application/json"]["schema"])
        self.in_path, self.fields, self.body = [], [], None
        for one in operation.get("parameters", ()):
            field = Field(one["name"], one["schema"], one["required"], one.get("description", ""))
            (self.in_path if one["in"] == "path" else self.fields).append(field)
        #: The fields are the body.
        self.whole = False
        if "requestBody" in operation:
            name = named(operation["requestBody"]["content"]["application/json"]["schema"])
            self.whole = name.endswith("Request")
            if self.whole:
                required = self.schemas[name].get("required", ())
                for field, one in self.schemas[name].get("properties", {}).items():
                    self.fields.append(Field(field, one, field in required, one.get("description", "")))
            else:
                self.body = name
        #: The field that is the tenant's name where the caller gives none.
        tenants = [field.name for field in self.fields if field.name in ("tenant", "onBehalfOf")]
        self.tenant = tenants[0] if tenants and tag in OF_TENANTS else ""
        self.request_id = any(field.name == "requestId" for field in self.fields)
        self.owned = self.id in OWNED
        #: Done twice it is as if done once.
        verb = self.id.startswith(("apply", "plan")) and self.id not in ONCE
        self.repeatable = method in ("GET", "PUT") or self.id in REPEATABLE or verb

    def about(self):
        """What it does, without its fields."""
        return self.operation.get("description") or f"The call {self.id} of the API."

    def pages(self):
        """The field and the shape of what a list has, if it comes in pages."""
        schema = self.schemas.get(self.answer[-1], {}).get("properties", {})
        if "nextPageToken" not in schema or not any(field.name == "pageToken" for field in self.fields):
            return None
        rows = [(name, shape(one["items"])) for name, one in schema.items() if one.get("type") == "array"]
        return rows[0] if len(rows) == 1 else None


def method_words(operation_id, tag):
    words = f"_{snake(operation_id)}_"
    for noun in SERVICES[tag][1]:
        if f"_{noun}_" in words:
            words = words.replace(f"_{noun}_", "_", 1)
            break
    return words.strip("_")


class Kind:
    """A kind of documents: the field of a planned document, and the calls that apply one and read it."""

    def __init__(self, field, name, by_id):
        self.field, self.name = field, name
        #: None for jobs, which are submitted.
        self.apply = by_id.get(f"apply{name}")
        self.get = by_id[f"get{name}"]
        self.of_tenant = self.get.tag in OF_TENANTS


def kinds(document):
    """Kinds of documents, in the order of the schema."""
    by_id = {call.id: call for all_ in calls(document).values() for call in all_}
    fields = document["components"]["schemas"]["Document"]["properties"]
    return [Kind(field, shape(one)[1], by_id) for field, one in fields.items()]


def present():
    """Fields that know "absent" apart from "zero" (`optional` in the schema), as (message, field); OpenAPI has no word for that."""
    found, folder = set(), os.path.join(ROOT, "proto/rail/v1")
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".proto"):
            continue
        with open(os.path.join(folder, file), encoding="utf-8") as text:
            lines = [re.sub(r"//.*|\"(?:[^\"\\]|\\.)*\"", "", line) for line in text]
        blocks = []
        for line in lines:
            opened = re.match(r"\s*message (\w+) \{", line)
            if field := re.match(r"\s*optional [\w.]+ (\w+) =", line):
                found.add(("".join(name for name in blocks if name), camel(field[1])))
            for brace in re.findall(r"[{}]", line):
                if brace == "}":
                    blocks.pop()
                else:
                    blocks.append(opened[1] if opened else "")
                    opened = None
    return found


def errors():
    """Classes of errors: name, the API's word, HTTP status, gRPC code, meaning. Those of the Python client are the list."""
    path = os.path.join(ROOT, "node-agent/capi/python/railyard/client/errors.py")
    spec = importlib.util.spec_from_file_location("railyard_errors", path)
    read = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = read
    spec.loader.exec_module(read)
    kinds_ = [*read._KINDS, read.TlsError]
    return [(one.__name__, one.error_class, one.code, one.status, one.__doc__.strip()) for one in kinds_]


def lines_of(text, width):
    """A text's paragraphs, broken to a width."""
    return [line for part in text.strip().splitlines() for line in textwrap.wrap(part.strip(), width) or [""]]


def settled(root, folders, ending, files, check):
    """Writes files below a folder, and removes others of that ending; gives what was or would be changed."""
    wrong = []
    for folder in folders:
        os.makedirs(os.path.join(root, folder), exist_ok=True)
        there = [os.path.join(folder, name) for name in os.listdir(os.path.join(root, folder)) if name.endswith(ending)]
        for extra in sorted(set(there) - set(files)):
            wrong.append(extra)
            if not check:
                os.remove(os.path.join(root, extra))
    for path, text in sorted(files.items()):
        place = os.path.join(root, path)
        old = None
        if os.path.exists(place):
            with open(place, encoding="utf-8") as file:
                old = file.read()
        if old != text:
            wrong.append(path)
            if not check:
                with open(place, "w", encoding="utf-8") as file:
                    file.write(text)
    return [os.path.relpath(os.path.join(root, path), ROOT) for path in wrong]
