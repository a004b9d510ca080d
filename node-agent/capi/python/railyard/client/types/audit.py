"""Messages of `Client.audit`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .common import (
    Int64,
)


#: Two logs, each with its own numbers, chain and room: anybody can cause denials, which must not push out records of changes.
AuditLog = Literal["AUDIT_LOG_CHANGES", "AUDIT_LOG_DENIALS"]


class AuditActor(TypedDict, total=False):
    """Who asked, by which way."""

    #: The identity's URI; `anonymous` for who has shown none.
    who: str
    #: The identity's roles, separated by commas.
    roles: str
    #: The tenant that the identity belongs to.
    tenant: str
    #: The address at the other end of the connection.
    source: str
    #: The call's name.
    rpc: str
    #: The caller's id for the request, where it gave one.
    requestId: str
    #: The trace's id; empty without one.
    traceId: str
    #: For whom an OpenID provider has vouched: its issuer, a space, and the subject there; empty for other credentials.
    oidcSubject: str


class AuditChange(TypedDict, total=False):
    """An authorised change."""

    actor: AuditActor
    #: For example job.
    kind: str
    name: str
    #: Whose the object is; empty where it is the cluster's.
    tenant: str
    #: The store's revision of its last change before this one; 0 where there was none, or it is not known.
    versionBefore: Int64


class AuditCheckpoint(TypedDict, total=False):
    """The log up to here, signed by the cluster's authority."""

    #: Who led.
    epoch: Int64
    #: The oldest record that is kept from here on; what is older was dropped.
    oldest: Int64
    #: The hash of the record before the oldest one.
    anchor: str
    #: ECDSA P-256 with SHA-256, ASN.1, by the key of the CA's certificate, over `railyard audit checkpoint 1`, a newline,
    #: seq, time in milliseconds since 1970, epoch and oldest (8 bytes each, big endian), previous, and anchor. Where `beside` is
    #: set, it is `railyard audit checkpoint 2` instead, and at the end follow the log (one byte, as AuditLog), and seq (8
    #: bytes) and hash of `beside`.
    signature: str
    #: The newest record of the other log, so that neither can be left out. Absent in checkpoints of before there were two.
    beside: AuditHead


class AuditDenial(TypedDict, total=False):
    """Calls, or handshakes, that were refused for want of authority."""

    actor: AuditActor
    #: For example ROLE_NOT_ALLOWED.
    reason: str
    #: The cause in words; of the first call where there are several.
    detail: str
    #: How many calls of this caller, call and reason the record stands for; of anonymous callers, also calls of several kinds.
    count: Int64


class AuditHead(TypedDict, total=False):
    """The newest record of a log."""

    #: Its number; 0 where there is none yet.
    seq: Int64
    #: Its hash, 32 bytes.
    hash: str


class AuditRecord(TypedDict, total=False):
    """One record. hash = SHA-256 over the hash of the record before, and all that follows here except `revision`; each field
    with its length.
    """

    #: Counts records of its log from 1.
    seq: Int64
    #: By the leader's clock.
    time: str
    #: The hash of the record before: 32 bytes.
    previous: str
    #: 32 bytes.
    hash: str
    change: AuditChange
    denial: AuditDenial
    checkpoint: AuditCheckpoint
    resumed: AuditResumed
    #: The store's revision of the transaction of the change and of this record. In lists only: it is not in the hash.
    revision: Int64
    #: In which log it is. Not in the hash as a field: each log's hashes begin with a text of its own.
    log: AuditLog


class AuditResumed(TypedDict, total=False):
    """A controller found what is stored of the log broken, and went on."""

    cause: str


class ListAuditRecordsResponse(TypedDict, total=False):
    records: list[AuditRecord]
    #: A page may be short, also empty; the list ends where this is empty.
    nextPageToken: str
