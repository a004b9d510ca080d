"""Documents applied as `railctl apply` does, and what they would change: a plan by the controller's own rules."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from . import errors
from ._core import Core, Operation
from ._jobs import create
from .errors import ApiError, ConfigError, NotFound
from .resources import (
    configs,
    documents,
    fabric,
    licenses,
    queues,
    reservations,
    schedules,
    secrets,
    service_classes,
    switches,
    tenants,
    webhooks,
)
from .resources.jobs import GET_JOB

#: Documents that are planned together at most.
MOST = 256

#: What is applied: a document, several of them, a file of JSON or YAML, or the text of one.
Documents = Mapping[str, Any] | str | os.PathLike[str] | Iterable["Documents"]


@dataclass(frozen=True)
class Kind:
    """How documents of one kind are planned, applied and read."""

    #: The field of a planned document.
    field: str
    apply: Operation | None
    get: Operation
    #: It belongs to a tenant.
    of_tenant: bool = False


KINDS = {
    "Fabric": Kind("fabric", fabric.APPLY_FABRIC, fabric.GET_FABRIC),
    "Tenant": Kind("tenant", tenants.APPLY_TENANT, tenants.GET_TENANT),
    "Queue": Kind("queue", queues.APPLY_QUEUE, queues.GET_QUEUE, True),
    "ServiceClass": Kind("serviceClass", service_classes.APPLY_SERVICE_CLASS, service_classes.GET_SERVICE_CLASS),
    "License": Kind("license", licenses.APPLY_LICENSE, licenses.GET_LICENSE),
    "Switch": Kind("switch", switches.APPLY_SWITCH, switches.GET_SWITCH),
    "Reservation": Kind("reservation", reservations.APPLY_RESERVATION, reservations.GET_RESERVATION),
    "Schedule": Kind("schedule", schedules.APPLY_SCHEDULE, schedules.GET_SCHEDULE, True),
    "Webhook": Kind("webhook", webhooks.APPLY_WEBHOOK, webhooks.GET_WEBHOOK, True),
    "Secret": Kind("secret", secrets.APPLY_SECRET, secrets.GET_SECRET, True),
    "Config": Kind("config", configs.APPLY_CONFIG, configs.GET_CONFIG, True),
    "Job": Kind("job", None, GET_JOB, True),
}


@dataclass(frozen=True)
class FieldChange:
    """One field that would be another: its path, and its value before and after (None: it is not there)."""

    path: str
    before: Any
    after: Any


@dataclass
class Change:
    """What comes of one document: CREATED, CHANGED, UNCHANGED or REFUSED, as `outcome` says."""

    kind: str
    name: str
    tenant: str
    outcome: str
    #: The document as it is, None where it is not there, and as it would be; neither of them for a secret.
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    #: Why it is refused.
    refusal: ApiError | None = None
    #: The answer of the call that has applied it; None in a dry run, and where nothing was to be done.
    applied: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def fields(self) -> list[FieldChange]:
        """The fields that differ, by their paths."""
        return list(compared("", self.before, self.after)) if self.outcome in ("CREATED", "CHANGED") else []

    def diff(self) -> str:
        """The difference as `diff -u` writes it; empty where there is none."""
        old = [] if self.before is None else json.dumps(self.before, indent=2, sort_keys=True).splitlines(True)
        new = [] if self.after is None else json.dumps(self.after, indent=2, sort_keys=True).splitlines(True)
        return "".join(
            line.rstrip("\n") + "\n" for line in difflib.unified_diff(old, new, f"{self} as it is", str(self))
        )

    def __str__(self) -> str:
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", self.kind).lower()
        return f"{kind}/{self.tenant}/{self.name}" if self.tenant else f"{kind}/{self.name}"


class Changes(Sequence[Change]):
    """What comes of documents, in their order. `str` of it is for people."""

    def __init__(self, all_: list[Change], dry_run: bool) -> None:
        self.all = all_
        self.dry_run = dry_run

    @overload
    def __getitem__(self, index: int) -> Change: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Change]: ...

    def __getitem__(self, index: int | slice) -> Change | Sequence[Change]:
        return self.all[index]

    def __len__(self) -> int:
        return len(self.all)

    @property
    def changed(self) -> bool:
        """Something is not as the documents say, or was not."""
        return any(one.outcome != "UNCHANGED" for one in self.all)

    @property
    def refused(self) -> list[Change]:
        """Those that the controller refuses."""
        return [one for one in self.all if one.outcome == "REFUSED"]

    def __str__(self) -> str:
        lines = []
        for one in self.all:
            lines.append(f"{one} {one.outcome.lower()}" + (f": {one.refusal}" if one.refusal else ""))
            if one.outcome == "CHANGED":
                lines += [f"  {change.path}: {change.before!r} -> {change.after!r}" for change in one.fields]
        return "\n".join(lines)


class ApplyRefused(errors.ClientError):
    """Some documents would be refused, so that none was applied. `changes` has all of them."""

    def __init__(self, changes: Changes) -> None:
        super().__init__("nothing was applied:\n" + "\n".join(f"{one}: {one.refusal}" for one in changes.refused))
        self.changes = changes


def compared(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    """Fields that differ; lists are compared whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from compared(f"{path}.{key}" if path else str(key), before.get(key), after.get(key))
    elif before != after:
        yield FieldChange(path, before, after)


def read(given: Documents) -> list[dict[str, Any]]:
    """Documents as mappings. Raises ConfigError where a text or a file cannot be read as some."""
    if isinstance(given, Mapping):
        return [dict(given)]
    if isinstance(given, os.PathLike):
        path = Path(given)
        try:
            return parsed(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
    if isinstance(given, str):
        return parsed(given, "the text")
    return [document for one in given for document in read(one)]


def parsed(text: str, where: str) -> list[dict[str, Any]]:
    """Documents of a text: JSON, or YAML where PyYAML is installed."""
    try:
        values = json.loads(text)
    except ValueError:
        try:
            import yaml  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise ConfigError(f"{where} is no JSON, and YAML needs the package PyYAML") from error
        try:
            values = [one for one in yaml.load_all(text, _loader(yaml)) if one is not None]
        except yaml.YAMLError as error:
            raise ConfigError(f"{where}: {error}") from error
    found = values if isinstance(values, list) else [values]
    for one in found:
        if not isinstance(one, dict):
            raise ConfigError(f"{where}: a document is a mapping")
    return found


def _loader(yaml: Any) -> Any:
    """Times stay texts, as JSON has them."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in all_ if tag != "tag:yaml.org,2002:timestamp"]
        for first, all_ in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def kind_of(document: Mapping[str, Any]) -> Kind:
    """The kind of a document. Raises ConfigError."""
    kind = document.get("kind")
    if kind not in KINDS:
        raise ConfigError(f"kind `{kind}` is not made by a document; {', '.join(KINDS)} are")
    return KINDS[str(kind)]


async def planned(
    core: Core, all_: list[dict[str, Any]], allow_shrink: bool, reuse_names: bool
) -> list[dict[str, Any]]:
    """What the controller says that would come of documents, each as if those before it had been applied."""
    if not all_:
        return []
    if len(all_) > MOST:
        raise ConfigError(f"{len(all_)} documents; {MOST} are applied together at most")
    wired = []
    for document in all_:
        kind = kind_of(document)
        owned = kind.of_tenant and kind.apply is not None
        wired.append({kind.field: core.owned(document) if owned else document})
    fields = {"documents": wired, "allowShrink": allow_shrink or None, "reuseNames": reuse_names or None}
    answer = await core.call(documents.PLAN_DOCUMENTS, {}, fields)
    found: list[dict[str, Any]] = answer.get("documents", [])
    if len(found) != len(all_):
        raise errors.InternalError("the plan has another number of documents", reason="BROKEN_ANSWER")
    return found


async def plan(core: Core, all_: list[dict[str, Any]], allow_shrink: bool, reuse_names: bool) -> Changes:
    """What documents would change, with what there is now."""
    changes = []
    for document, found in zip(all_, await planned(core, all_, allow_shrink, reuse_names), strict=True):
        kind = kind_of(document)
        after = (found.get("document") or {}).get(kind.field)
        metadata = (after or document).get("metadata") or {}
        tenant = (metadata.get("tenant") or core.settings.tenant) if kind.of_tenant else ""
        outcome = str(found.get("outcome", "REFUSED"))
        change = Change(
            str(document["kind"]), metadata.get("name") or metadata.get("generateName", ""), tenant, outcome
        )
        if "refusal" in found:
            change.refusal = errors.of_error(found["refusal"], 0, f"apply {change}")
        if kind.apply is None and change.refusal is not None and change.refusal.reason == "NAME_TAKEN":
            await same_job(core, document, change)
        elif kind.field != "secret" and change.refusal is None:
            before = await current(core, kind, change) if outcome != "CREATED" else None
            change.before, change.after = settled(before), settled(after)
        changes.append(change)
    return Changes(changes, True)


async def current(core: Core, kind: Kind, change: Change) -> dict[str, Any] | None:
    """A document as it is; None where it is not there."""
    path = {"name": change.name} if "{name}" in kind.get.path else {}
    try:
        found: dict[str, Any] = await core.call(kind.get, path, {"tenant": change.tenant} if kind.of_tenant else {})
    except NotFound:
        return None
    return found


async def same_job(core: Core, document: dict[str, Any], change: Change) -> None:
    """A job whose name is taken is unchanged if the one that is there asks for the same, as the controller reads it."""
    there = await current(core, KINDS["Job"], change)
    metadata = document.get("metadata") or {}
    other = {key: value for key, value in metadata.items() if key != "name"} | {"generateName": "plan-"}
    answer = (await planned(core, [{**document, "metadata": other}], False, False))[0]
    meant = (answer.get("document") or {}).get("job")
    if there is None or meant is None:
        return
    meant = {**meant, "metadata": {**meant.get("metadata", {}), "name": change.name}}
    before, after = settled(there), settled(meant)
    for one in (before, after):
        # The controller finds these.
        one["metadata"] = {key: value for key, value in one["metadata"].items() if key in ("name", "labels")}
    if before == after:
        change.outcome, change.refusal = "UNCHANGED", None
    change.before, change.after = before, after


def settled(document: dict[str, Any] | None) -> Any:
    """Only what a document says: no status, and of the metadata the names and labels."""
    if document is None:
        return None
    found = {key: value for key, value in document.items() if key != "status"}
    if found.get("kind") == "Webhook":
        # It is shown once, to whoever has it made.
        found["spec"] = {key: value for key, value in found.get("spec", {}).items() if key != "secret"}
    kept = ("name", "tenant", "labels", "generateName")
    found["metadata"] = {key: value for key, value in found.get("metadata", {}).items() if key in kept}
    return found


async def apply(core: Core, given: Documents, *, dry_run: bool, allow_shrink: bool, reuse_names: bool) -> Changes:
    """Applies documents that are not as they say, in their order, if none of them would be refused."""
    all_ = read(given)
    changes = await plan(core, all_, allow_shrink, reuse_names)
    changes.dry_run = dry_run
    if dry_run:
        return changes
    if changes.refused:
        raise ApplyRefused(changes)
    for document, change in zip(all_, changes, strict=True):
        if change.outcome == "UNCHANGED":
            continue
        kind = kind_of(document)
        if kind.apply is None:
            change.applied = dict(await create(core, document, None, None, False))
            change.name = change.applied.get("metadata", {}).get("name", change.name)
            continue
        more: dict[str, object] = {"allowShrink": allow_shrink or None} if kind.field == "fabric" else {}
        if kind.field == "tenant":
            more = {"reuseName": reuse_names or None}
        change.applied = await core.call(kind.apply, {}, more, document)
    return changes
