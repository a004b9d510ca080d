// Calls of `Client.tenants`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteTenantResponse, IssueCertificateResponse, IssueTokenResponse, ListRevocationsResponse, ListTenantsResponse, ListTokensResponse, Revocation, Tenant, WhoAmIResponse } from "../types/tenants.js";

export interface ApplyTenantParams extends CallOptions {
  dryRun?: boolean;
  /** Takes the name of a tenant that was deleted not long ago, which rests otherwise. Not for a dry run. */
  reuseName?: boolean;
}

export interface DeleteTenantParams extends CallOptions {
  /** If given, refused unless it is the tenant's: a late copy must not hit a tenant that was made since. */
  uid?: string;
  /** Tells what would go with it, and deletes nothing. */
  dryRun?: boolean;
}

export interface GetTenantParams extends CallOptions {
}

export interface IssueCertificateParams extends CallOptions {
  /** PEM certificate signing request; only its key is used. */
  csrPem: string;
  /** Empty for an administrator. */
  tenant?: string;
  user: string;
  role: string;
  /** At most 30 days; default 12 hours. */
  lifetime?: string;
}

export interface IssueTokenParams extends CallOptions {
  tenant?: string;
  user: string;
  role: string;
  lifetime?: string;
}

export interface ListRevocationsParams extends CallOptions {
}

export interface ListTenantsParams extends CallOptions {
  pageSize?: number;
  pageToken?: string;
}

export interface ListTokensParams extends CallOptions {
  /** For administrators: of this tenant alone; empty means all, theirs too. */
  tenant?: string;
}

export interface RevokeParams extends CallOptions {
  /** "node/NAME", "tenant/TENANT/user/USER", "admin/USER", or one certificate: "serial/HEX". */
  subject: string;
  /** Why; shown to administrators. */
  reason?: string;
}

export interface WhoAmIParams extends CallOptions {
}

/** `Client.tenants`. */
export class TenantsService extends Resource {
  /** Creates the tenant or replaces its spec. */
  async apply(tenant: Tenant, params: ApplyTenantParams = {}): Promise<Tenant> {
    return this.call(operations.applyTenant, {}, params, tenant);
  }

  /**
   * Refused while the tenant has jobs that have not ended. Whatever was issued for it is refused from then on, and its streams end within
   * two seconds. Its name rests for a while (30 days, unless the controller was told otherwise): see ApplyTenantRequest.reuse_name.
   */
  async delete(name: string, params: DeleteTenantParams = {}): Promise<DeleteTenantResponse> {
    return this.call(operations.deleteTenant, { name }, params, undefined);
  }

  /** The call getTenant of the API. */
  async get(name: string, params: GetTenantParams = {}): Promise<Tenant> {
    return this.call(operations.getTenant, { name }, params, undefined);
  }

  /** Signs a certificate for a user of a tenant, or for an administrator. */
  async issueCertificate(params: IssueCertificateParams): Promise<IssueCertificateResponse> {
    return this.call(operations.issueCertificate, {}, params, undefined);
  }

  /** A bearer token for programs that cannot hold a certificate. */
  async issueToken(params: IssueTokenParams): Promise<IssueTokenResponse> {
    return this.call(operations.issueToken, {}, params, undefined);
  }

  /** What is revoked, as long as it could still be valid. */
  async listRevocations(params: ListRevocationsParams = {}): Promise<ListRevocationsResponse> {
    return this.call(operations.listRevocations, {}, params, undefined);
  }

  /** The call listTenants of the API. */
  async list(params: ListTenantsParams = {}): Promise<ListTenantsResponse> {
    return this.call(operations.listTenants, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListTenantsParams, "pageToken"> = {}): Pages<Tenant> {
    return this.pages(operations.listTenants, {}, params, "tenants");
  }

  /** Tokens that were issued and have not expired, by their ids; what they are is told once, when they are issued. */
  async listTokens(params: ListTokensParams = {}): Promise<ListTokensResponse> {
    return this.call(operations.listTokens, {}, params, undefined);
  }

  /**
   * Takes back the certificates and tokens (a node's tokens to join too) that a user, an administrator or a node was given until now, or
   * one
   * certificate. Live connections and streams end within two seconds; what is issued afterwards is good.
   */
  async revoke(params: RevokeParams): Promise<Revocation> {
    return this.call(operations.revoke, {}, params, undefined);
  }

  /** Who the caller is to the controller. */
  async whoAmI(params: WhoAmIParams = {}): Promise<WhoAmIResponse> {
    return this.call(operations.whoAmI, {}, params, undefined);
  }
}
