// Messages of `Client.tenants`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, IsolationPolicy, Metadata, Role, Shape } from "./common.js";

export interface DeleteTenantResponse {
  /** Jobs that have ended; their records and logs go with the tenant. */
  jobs?: number;
  queues?: number;
  schedules?: number;
  webhooks?: number;
  /** Reservations that it has a share in. */
  reservations?: number;
  secrets?: number;
  configs?: number;
}

export interface IssueCertificateRequest {
  /** PEM certificate signing request; only its key is used. */
  csrPem?: string;
  /** Empty for an administrator. */
  tenant?: string;
  user?: string;
  role?: string;
  /** At most 30 days; default 12 hours. */
  lifetime?: string;
}

export interface IssueCertificateResponse {
  certificatePem?: string;
  caPem?: string;
  expires?: string;
}

export interface IssueTokenRequest {
  tenant?: string;
  user?: string;
  role?: string;
  lifetime?: string;
}

export interface IssueTokenResponse {
  token?: string;
  expires?: string;
}

export interface IssuedToken {
  id?: string;
  /** Empty for an administrator of the cluster. */
  tenant?: string;
  user?: string;
  role?: Role;
  /** The identity that asked for it. */
  issuedBy?: string;
  issued?: string;
  expires?: string;
  /** Its user's credentials were taken back after it was issued: it is not taken any more. */
  revoked?: boolean;
}

export interface ListRevocationsResponse {
  revocations?: Revocation[];
}

export interface ListTenantsResponse {
  tenants?: Tenant[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface ListTokensResponse {
  /** The newest first, at most 10000. */
  tokens?: IssuedToken[];
}

export interface Quota {
  /** GPUs that the tenant's running jobs may hold together; 0 means none. */
  gpus?: number;
  /** Jobs that it may have which have not ended; 0 means the server's limit. */
  jobs?: number;
  /** What it can always have; part of `gpus`. What others are not using of theirs may be borrowed beyond it. */
  guaranteed?: Shape;
  /** Share of what is free, against other tenants' weights; default 1. */
  weight?: number;
  /** Bytes of the controller's store that its jobs may take, ended ones included; 0 means the server's limit. */
  storedBytes?: Int64;
  /** Schedules that it may have; 0 means the server's limit. */
  schedules?: number;
}

export interface Revocation {
  subject?: string;
  reason?: string;
  /** Who revoked it. */
  revokedBy?: string;
  /** What was issued until then is refused; a serial number is refused whenever it was issued. */
  revoked?: string;
  /** Nothing that was revoked could be valid any more then; the entry goes. */
  expires?: string;
}

export interface RevokeRequest {
  /** "node/NAME", "tenant/TENANT/user/USER", "admin/USER", or one certificate: "serial/HEX". */
  subject?: string;
  /** Why; shown to administrators. */
  reason?: string;
}

export interface Tenant {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Tenant". */
  kind?: string;
  metadata?: Metadata;
  spec?: TenantSpec;
  status?: TenantStatus;
}

export interface TenantSpec {
  description?: string;
  quota?: Quota;
  /**
   * How much isolation its jobs must have. It may ask for more than the cluster's own setting, never for less: the stricter of the two
   * holds.
   */
  isolation?: IsolationPolicy;
}

export interface TenantStatus {
  gpusUsed?: number;
  jobsActive?: number;
  /** Bytes of the controller's store that its jobs take, counted by what was asked; see Quota.stored_bytes. */
  storedBytes?: Int64;
  /** How much isolation its jobs must have, with the cluster's own setting. */
  isolation?: IsolationPolicy;
}

export interface WhoAmIResponse {
  identity?: string;
  tenant?: string;
  user?: string;
  role?: Role;
  /** Certificates of the authorities that the cluster trusts, the one that issues first: two while one follows the other. */
  caPem?: string;
  /**
   * What the caller's role may call, by paths such as /rail.v1.JobService/CreateJob. What is somebody's own may ask for more: a user
   * changes no other user's job.
   */
  mayCall?: string[];
}
