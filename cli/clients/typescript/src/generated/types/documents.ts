// Messages of `Client.documents`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Config } from "./configs.js";
import type { Fabric } from "./fabric.js";
import type { Job } from "./jobs.js";
import type { License } from "./licenses.js";
import type { Queue } from "./queues.js";
import type { Reservation } from "./reservations.js";
import type { Schedule } from "./schedules.js";
import type { Secret } from "./secrets.js";
import type { ServiceClass } from "./service_classes.js";
import type { Switch } from "./switches.js";
import type { Tenant } from "./tenants.js";
import type { Webhook } from "./webhooks.js";

/** One document of any kind that is made by a file. */
export interface Document {
  fabric?: Fabric;
  tenant?: Tenant;
  queue?: Queue;
  serviceClass?: ServiceClass;
  license?: License;
  reservation?: Reservation;
  schedule?: Schedule;
  webhook?: Webhook;
  /** It would be submitted. */
  job?: Job;
  secret?: Secret;
  config?: Config;
  switch?: Switch;
}

/** What the call that applies the document alone would have answered in place of it. */
export interface DocumentRefusal {
  /** The class of the error as in REST answers, for example invalid, not-found, infeasible. */
  class?: string;
  /** Stable, UPPER_SNAKE_CASE. */
  reason?: string;
  message?: string;
  violations?: FieldViolation[];
}

/** One thing that is wrong with a request, tied to a field. */
export interface FieldViolation {
  /** Path in lowerCamelCase, for example spec.gang.nodes. */
  field?: string;
  message?: string;
}

export interface PlanDocumentsRequest {
  /** At least 1, at most 256, and 16 MiB together; at most one of them is a fabric, and arrays have at most 10000 elements in all. */
  documents?: Document[];
  /** Much fewer servers than the present fabric cables are meant. */
  allowShrink?: boolean;
  /** Names of tenants that were deleted not long ago may be given away again. */
  reuseNames?: boolean;
  /** The tenant of the jobs (administrators only). */
  onBehalfOf?: string;
}

export interface PlanDocumentsResponse {
  /** One for each document, in their order. */
  documents?: PlannedDocument[];
}

/** What would come of one document. */
export interface PlannedDocument {
  outcome?: PlannedDocumentOutcome;
  /** As it would be; absent where it is refused. */
  document?: Document;
  /** Why; only where it is refused. */
  refusal?: DocumentRefusal;
}

export type PlannedDocumentOutcome = "CREATED" | "CHANGED" | "UNCHANGED" | "REFUSED";
