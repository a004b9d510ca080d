// Messages of the API as its JSON has them; what is empty may be left out. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

export type * from "./audit.js";
export type * from "./common.js";
export type * from "./configs.js";
export type * from "./deleted.js";
export type * from "./documents.js";
export type * from "./fabric.js";
export type * from "./health.js";
export type * from "./jobs.js";
export type * from "./licenses.js";
export type * from "./nodes.js";
export type * from "./qos.js";
export type * from "./queues.js";
export type * from "./rails.js";
export type * from "./reservations.js";
export type * from "./schedules.js";
export type * from "./secrets.js";
export type * from "./service_classes.js";
export type * from "./switches.js";
export type * from "./tenants.js";
export type * from "./usage.js";
export type * from "./webhooks.js";
