"""One attribute for each service of the API. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from ..._core import Core
from .audit import AsyncAuditService
from .configs import AsyncConfigsService
from .deleted import AsyncDeletedService
from .documents import AsyncDocumentsService
from .fabric import AsyncFabricService
from .health import AsyncHealthService
from .jobs import AsyncJobsService
from .licenses import AsyncLicensesService
from .nodes import AsyncNodesService
from .qos import AsyncQosService
from .queues import AsyncQueuesService
from .rails import AsyncRailsService
from .reservations import AsyncReservationsService
from .schedules import AsyncSchedulesService
from .secrets import AsyncSecretsService
from .service_classes import AsyncServiceClassesService
from .switches import AsyncSwitchesService
from .tenants import AsyncTenantsService
from .usage import AsyncUsageService
from .webhooks import AsyncWebhooksService


class AsyncServices:
    """The calls of the API by service."""

    def __init__(self, core: Core) -> None:
        self.audit = AsyncAuditService(core)
        self.configs = AsyncConfigsService(core)
        self.deleted = AsyncDeletedService(core)
        self.documents = AsyncDocumentsService(core)
        self.fabric = AsyncFabricService(core)
        self.health = AsyncHealthService(core)
        self.jobs = AsyncJobsService(core)
        self.licenses = AsyncLicensesService(core)
        self.nodes = AsyncNodesService(core)
        self.qos = AsyncQosService(core)
        self.queues = AsyncQueuesService(core)
        self.rails = AsyncRailsService(core)
        self.reservations = AsyncReservationsService(core)
        self.schedules = AsyncSchedulesService(core)
        self.secrets = AsyncSecretsService(core)
        self.service_classes = AsyncServiceClassesService(core)
        self.switches = AsyncSwitchesService(core)
        self.tenants = AsyncTenantsService(core)
        self.usage = AsyncUsageService(core)
        self.webhooks = AsyncWebhooksService(core)
