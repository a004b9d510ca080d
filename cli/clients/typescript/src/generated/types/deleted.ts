// Messages of `Client.deleted`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

/** A tenant or a fabric document that was deleted, as long as it is kept (7 days by default, and at most 100 of them). */
export interface Deleted {
  /** "tenant" or "fabric". */
  kind?: string;
  name?: string;
  deleteTime?: string;
  /** Until then it can be brought back, unless newer ones need its place. */
  expireTime?: string;
  /** Who deleted it. */
  deletedBy?: string;
  /** What is kept with a tenant. */
  queues?: number;
  schedules?: number;
  webhooks?: number;
  /** Reservations that it had a share in. */
  reservations?: number;
  /** Service classes that named it. */
  serviceClasses?: number;
  /** Its documents that were too many to be kept. */
  leftOut?: number;
  /** Servers that a fabric document cables. */
  nodes?: number;
}

export interface ListDeletedResponse {
  deleted?: Deleted[];
}

export interface UndeleteRequest {
  /** "tenant" or "fabric". */
  kind?: string;
  name?: string;
  /** Only check, and tell what would come back. */
  dryRun?: boolean;
}

export interface UndeleteResponse {
  /** What has come back, with as much of each as that. */
  restored?: Deleted;
  /** What has not come back, and why. */
  notes?: string[];
}
