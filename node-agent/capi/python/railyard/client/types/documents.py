"""Messages of `Client.documents`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from typing import Literal, TypedDict

from .configs import (
    Config,
)
from .fabric import (
    Fabric,
)
from .jobs import (
    Job,
)
from .licenses import (
    License,
)
from .queues import (
    Queue,
)
from .reservations import (
    Reservation,
)
from .schedules import (
    Schedule,
)
from .secrets import (
    Secret,
)
from .service_classes import (
    ServiceClass,
)
from .switches import (
    Switch,
)
from .tenants import (
    Tenant,
)
from .webhooks import (
    Webhook,
)


PlannedDocumentOutcome = Literal["CREATED", "CHANGED", "UNCHANGED", "REFUSED"]


class Document(TypedDict, total=False):
    """One document of any kind that is made by a file."""

    fabric: Fabric
    tenant: Tenant
    queue: Queue
    serviceClass: ServiceClass
    license: License
    reservation: Reservation
    schedule: Schedule
    webhook: Webhook
    #: It would be submitted.
    job: Job
    secret: Secret
    config: Config
    switch: Switch


#: What the call that applies the document alone would have answered in place of it.
DocumentRefusal = TypedDict(
    "DocumentRefusal",
    {
        "class": "str",
        "reason": "str",
        "message": "str",
        "violations": "list[FieldViolation]",
    },
    total=False,
)


class FieldViolation(TypedDict, total=False):
    """One thing that is wrong with a request, tied to a field."""

    #: Path in lowerCamelCase, for example spec.gang.nodes.
    field: str
    message: str


class PlanDocumentsRequest(TypedDict, total=False):
    #: At least 1, at most 256, and 16 MiB together; at most one of them is a fabric, and arrays have at most 10000 elements in all.
    documents: list[Document]
    #: Much fewer servers than the present fabric cables are meant.
    allowShrink: bool
    #: Names of tenants that were deleted not long ago may be given away again.
    reuseNames: bool
    #: The tenant of the jobs (administrators only).
    onBehalfOf: str


class PlanDocumentsResponse(TypedDict, total=False):
    #: One for each document, in their order.
    documents: list[PlannedDocument]


class PlannedDocument(TypedDict, total=False):
    """What would come of one document."""

    outcome: PlannedDocumentOutcome
    #: As it would be; absent where it is refused.
    document: Document
    #: Why; only where it is refused.
    refusal: DocumentRefusal
