// Calls of `Client.documents`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import { operations } from "../operations.js";
import type { Document, PlanDocumentsResponse } from "../types/documents.js";

export interface PlanDocumentsParams extends CallOptions {
  /** At least 1, at most 256, and 16 MiB together; at most one of them is a fabric, and arrays have at most 10000 elements in all. */
  documents: Document[];
  /** Much fewer servers than the present fabric cables are meant. */
  allowShrink?: boolean;
  /** Names of tenants that were deleted not long ago may be given away again. */
  reuseNames?: boolean;
  /** The tenant of the jobs (administrators only). */
  onBehalfOf?: string;
}

/** `Client.documents`. */
export class DocumentsService extends Resource {
  /**
   * Judges documents in their order, each as if those before it had been applied, by the same rules as the calls that apply them.
   * Nothing is stored and nothing starts. A document that the caller may not apply refuses the whole call.
   */
  async plan(params: PlanDocumentsParams): Promise<PlanDocumentsResponse> {
    return this.call(operations.planDocuments, {}, params, undefined);
  }
}
