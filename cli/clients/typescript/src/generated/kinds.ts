// Kinds of documents. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Operation } from "../core.js";
import { operations } from "./operations.js";

/** How documents of one kind are planned, applied and read. */
export interface Kind {
  /** The field of a planned document. */
  readonly field: string;
  /** Absent for jobs, which are submitted. */
  readonly apply?: Operation;
  readonly get: Operation;
  readonly ofTenant: boolean;
}

export const kinds: Readonly<Record<string, Kind>> = {
  Fabric: { field: "fabric", apply: operations.applyFabric, get: operations.getFabric, ofTenant: false },
  Tenant: { field: "tenant", apply: operations.applyTenant, get: operations.getTenant, ofTenant: false },
  Queue: { field: "queue", apply: operations.applyQueue, get: operations.getQueue, ofTenant: true },
  ServiceClass: { field: "serviceClass", apply: operations.applyServiceClass, get: operations.getServiceClass, ofTenant: false },
  License: { field: "license", apply: operations.applyLicense, get: operations.getLicense, ofTenant: false },
  Reservation: { field: "reservation", apply: operations.applyReservation, get: operations.getReservation, ofTenant: false },
  Schedule: { field: "schedule", apply: operations.applySchedule, get: operations.getSchedule, ofTenant: true },
  Webhook: { field: "webhook", apply: operations.applyWebhook, get: operations.getWebhook, ofTenant: true },
  Job: { field: "job", get: operations.getJob, ofTenant: true },
  Secret: { field: "secret", apply: operations.applySecret, get: operations.getSecret, ofTenant: true },
  Config: { field: "config", apply: operations.applyConfig, get: operations.getConfig, ofTenant: true },
  Switch: { field: "switch", apply: operations.applySwitch, get: operations.getSwitch, ofTenant: false },
};
