// Messages of `Client.audit`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64 } from "./common.js";

/** Who asked, by which way. */
export interface AuditActor {
  /** The identity's URI; `anonymous` for who has shown none. */
  who?: string;
  /** The identity's roles, separated by commas. */
  roles?: string;
  /** The tenant that the identity belongs to. */
  tenant?: string;
  /** The address at the other end of the connection. */
  source?: string;
  /** The call's name. */
  rpc?: string;
  /** The caller's id for the request, where it gave one. */
  requestId?: string;
  /** The trace's id; empty without one. */
  traceId?: string;
  /** For whom an OpenID provider has vouched: its issuer, a space, and the subject there; empty for other credentials. */
  oidcSubject?: string;
}

/** An authorised change. */
export interface AuditChange {
  actor?: AuditActor;
  /** For example job. */
  kind?: string;
  name?: string;
  /** Whose the object is; empty where it is the cluster's. */
  tenant?: string;
  /** The store's revision of its last change before this one; 0 where there was none, or it is not known. */
  versionBefore?: Int64;
}

/** The log up to here, signed by the cluster's authority. */
export interface AuditCheckpoint {
  /** Who led. */
  epoch?: Int64;
  /** The oldest record that is kept from here on; what is older was dropped. */
  oldest?: Int64;
  /** The hash of the record before the oldest one. */
  anchor?: string;
  /**
   * ECDSA P-256 with SHA-256, ASN.1, by the key of the CA's certificate, over `railyard audit checkpoint 1`, a newline,
   * seq, time in milliseconds since 1970, epoch and oldest (8 bytes each, big endian), previous, and anchor. Where `beside` is
   * set, it is `railyard audit checkpoint 2` instead, and at the end follow the log (one byte, as AuditLog), and seq (8
   * bytes) and hash of `beside`.
   */
  signature?: string;
  /** The newest record of the other log, so that neither can be left out. Absent in checkpoints of before there were two. */
  beside?: AuditHead;
}

/** Calls, or handshakes, that were refused for want of authority. */
export interface AuditDenial {
  actor?: AuditActor;
  /** For example ROLE_NOT_ALLOWED. */
  reason?: string;
  /** The cause in words; of the first call where there are several. */
  detail?: string;
  /** How many calls of this caller, call and reason the record stands for; of anonymous callers, also calls of several kinds. */
  count?: Int64;
}

/** The newest record of a log. */
export interface AuditHead {
  /** Its number; 0 where there is none yet. */
  seq?: Int64;
  /** Its hash, 32 bytes. */
  hash?: string;
}

/** Two logs, each with its own numbers, chain and room: anybody can cause denials, which must not push out records of changes. */
export type AuditLog = "AUDIT_LOG_CHANGES" | "AUDIT_LOG_DENIALS";

/**
 * One record. hash = SHA-256 over the hash of the record before, and all that follows here except `revision`; each field
 * with its length.
 */
export interface AuditRecord {
  /** Counts records of its log from 1. */
  seq?: Int64;
  /** By the leader's clock. */
  time?: string;
  /** The hash of the record before: 32 bytes. */
  previous?: string;
  /** 32 bytes. */
  hash?: string;
  change?: AuditChange;
  denial?: AuditDenial;
  checkpoint?: AuditCheckpoint;
  resumed?: AuditResumed;
  /** The store's revision of the transaction of the change and of this record. In lists only: it is not in the hash. */
  revision?: Int64;
  /** In which log it is. Not in the hash as a field: each log's hashes begin with a text of its own. */
  log?: AuditLog;
}

/** A controller found what is stored of the log broken, and went on. */
export interface AuditResumed {
  cause?: string;
}

export interface ListAuditRecordsResponse {
  records?: AuditRecord[];
  /** A page may be short, also empty; the list ends where this is empty. */
  nextPageToken?: string;
}
