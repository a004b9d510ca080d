// One attribute for each service of the API. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Core } from "../../core.js";
import { AuditService } from "./audit.js";
import { ConfigsService } from "./configs.js";
import { DeletedService } from "./deleted.js";
import { DocumentsService } from "./documents.js";
import { FabricService } from "./fabric.js";
import { HealthService } from "./health.js";
import { JobsService } from "./jobs.js";
import { LicensesService } from "./licenses.js";
import { NodesService } from "./nodes.js";
import { QosService } from "./qos.js";
import { QueuesService } from "./queues.js";
import { RailsService } from "./rails.js";
import { ReservationsService } from "./reservations.js";
import { SchedulesService } from "./schedules.js";
import { SecretsService } from "./secrets.js";
import { ServiceClassesService } from "./service_classes.js";
import { SwitchesService } from "./switches.js";
import { TenantsService } from "./tenants.js";
import { UsageService } from "./usage.js";
import { WebhooksService } from "./webhooks.js";

export * from "./audit.js";
export * from "./configs.js";
export * from "./deleted.js";
export * from "./documents.js";
export * from "./fabric.js";
export * from "./health.js";
export * from "./jobs.js";
export * from "./licenses.js";
export * from "./nodes.js";
export * from "./qos.js";
export * from "./queues.js";
export * from "./rails.js";
export * from "./reservations.js";
export * from "./schedules.js";
export * from "./secrets.js";
export * from "./service_classes.js";
export * from "./switches.js";
export * from "./tenants.js";
export * from "./usage.js";
export * from "./webhooks.js";

/** The calls of the API by service. */
export class Services {
  readonly audit: AuditService;
  readonly configs: ConfigsService;
  readonly deleted: DeletedService;
  readonly documents: DocumentsService;
  readonly fabric: FabricService;
  readonly health: HealthService;
  readonly jobs: JobsService;
  readonly licenses: LicensesService;
  readonly nodes: NodesService;
  readonly qos: QosService;
  readonly queues: QueuesService;
  readonly rails: RailsService;
  readonly reservations: ReservationsService;
  readonly schedules: SchedulesService;
  readonly secrets: SecretsService;
  readonly serviceClasses: ServiceClassesService;
  readonly switches: SwitchesService;
  readonly tenants: TenantsService;
  readonly usage: UsageService;
  readonly webhooks: WebhooksService;

  constructor(core: Core) {
    this.audit = new AuditService(core);
    this.configs = new ConfigsService(core);
    this.deleted = new DeletedService(core);
    this.documents = new DocumentsService(core);
    this.fabric = new FabricService(core);
    this.health = new HealthService(core);
    this.jobs = new JobsService(core);
    this.licenses = new LicensesService(core);
    this.nodes = new NodesService(core);
    this.qos = new QosService(core);
    this.queues = new QueuesService(core);
    this.rails = new RailsService(core);
    this.reservations = new ReservationsService(core);
    this.schedules = new SchedulesService(core);
    this.secrets = new SecretsService(core);
    this.serviceClasses = new ServiceClassesService(core);
    this.switches = new SwitchesService(core);
    this.tenants = new TenantsService(core);
    this.usage = new UsageService(core);
    this.webhooks = new WebhooksService(core);
  }
}
