"""One attribute for each service of the API. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from .._core import Core
from .audit import AuditService
from .configs import ConfigsService
from .deleted import DeletedService
from .documents import DocumentsService
from .fabric import FabricService
from .health import HealthService
from .jobs import JobsService
from .licenses import LicensesService
from .nodes import NodesService
from .qos import QosService
from .queues import QueuesService
from .rails import RailsService
from .reservations import ReservationsService
from .schedules import SchedulesService
from .secrets import SecretsService
from .service_classes import ServiceClassesService
from .switches import SwitchesService
from .tenants import TenantsService
from .usage import UsageService
from .webhooks import WebhooksService


class Services:
    """The calls of the API by service."""

    def __init__(self, core: Core) -> None:
        self.audit = AuditService(core)
        self.configs = ConfigsService(core)
        self.deleted = DeletedService(core)
        self.documents = DocumentsService(core)
        self.fabric = FabricService(core)
        self.health = HealthService(core)
        self.jobs = JobsService(core)
        self.licenses = LicensesService(core)
        self.nodes = NodesService(core)
        self.qos = QosService(core)
        self.queues = QueuesService(core)
        self.rails = RailsService(core)
        self.reservations = ReservationsService(core)
        self.schedules = SchedulesService(core)
        self.secrets = SecretsService(core)
        self.service_classes = ServiceClassesService(core)
        self.switches = SwitchesService(core)
        self.tenants = TenantsService(core)
        self.usage = UsageService(core)
        self.webhooks = WebhooksService(core)
