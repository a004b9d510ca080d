"""Messages of `Client.tenants`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import TypedDict

from .common import (
    Int64,
    IsolationPolicy,
    Metadata,
    Role,
    Shape,
)


class DeleteTenantResponse(TypedDict, total=False):
    #: Jobs that have ended; their records and logs go with the tenant.
    jobs: int
    queues: int
    schedules: int
    webhooks: int
    #: Reservations that it has a share in.
    reservations: int
    secrets: int
    configs: int


class IssueCertificateRequest(TypedDict, total=False):
    #: PEM certificate signing request; only its key is used.
    csrPem: str
    #: Empty for an administrator.
    tenant: str
    user: str
    role: str
    #: At most 30 days; default 12 hours.
    lifetime: str


class IssueCertificateResponse(TypedDict, total=False):
    certificatePem: str
    caPem: str
    expires: str


class IssueTokenRequest(TypedDict, total=False):
    tenant: str
    user: str
    role: str
    lifetime: str


class IssueTokenResponse(TypedDict, total=False):
    token: str
    expires: str


class IssuedToken(TypedDict, total=False):
    id: str
    #: Empty for an administrator of the cluster.
    tenant: str
    user: str
    role: Role
    #: The identity that asked for it.
    issuedBy: str
    issued: str
    expires: str
    #: Its user's credentials were taken back after it was issued: it is not taken any more.
    revoked: bool


class ListRevocationsResponse(TypedDict, total=False):
    revocations: list[Revocation]


class ListTenantsResponse(TypedDict, total=False):
    tenants: list[Tenant]
    nextPageToken: str
    revision: Int64


class ListTokensResponse(TypedDict, total=False):
    #: The newest first, at most 10000.
    tokens: list[IssuedToken]


class Quota(TypedDict, total=False):
    #: GPUs that the tenant's running jobs may hold together; 0 means none.
    gpus: int
    #: Jobs that it may have which have not ended; 0 means the server's limit.
    jobs: int
    #: What it can always have; part of `gpus`. What others are not using of theirs may be borrowed beyond it.
    guaranteed: Shape
    #: Share of what is free, against other tenants' weights; default 1.
    weight: int
    #: Bytes of the controller's store that its jobs may take, ended ones included; 0 means the server's limit.
    storedBytes: Int64
    #: Schedules that it may have; 0 means the server's limit.
    schedules: int


class Revocation(TypedDict, total=False):
    subject: str
    reason: str
    #: Who revoked it.
    revokedBy: str
    #: What was issued until then is refused; a serial number is refused whenever it was issued.
    revoked: str
    #: Nothing that was revoked could be valid any more then; the entry goes.
    expires: str


class RevokeRequest(TypedDict, total=False):
    #: "node/NAME", "tenant/TENANT/user/USER", "admin/USER", or one certificate: "serial/HEX".
    subject: str
    #: Why; shown to administrators.
    reason: str


class Tenant(TypedDict, total=False):
    #: "rail/v1".
    apiVersion: str
    #: "Tenant".
    kind: str
    metadata: Metadata
    spec: TenantSpec
    status: TenantStatus


class TenantSpec(TypedDict, total=False):
    description: str
    quota: Quota
    #: How much isolation its jobs must have. It may ask for more than the cluster's own setting, never for less: the stricter of the two
    #: holds.
    isolation: IsolationPolicy


class TenantStatus(TypedDict, total=False):
    gpusUsed: int
    jobsActive: int
    #: Bytes of the controller's store that its jobs take, counted by what was asked; see Quota.stored_bytes.
    storedBytes: Int64
    #: How much isolation its jobs must have, with the cluster's own setting.
    isolation: IsolationPolicy


class WhoAmIResponse(TypedDict, total=False):
    identity: str
    tenant: str
    user: str
    role: Role
    #: Certificates of the authorities that the cluster trusts, the one that issues first: two while one follows the other.
    caPem: str
    #: What the caller's role may call, by paths such as /rail.v1.JobService/CreateJob. What is somebody's own may ask for more: a user
    #: changes no other user's job.
    mayCall: list[str]
