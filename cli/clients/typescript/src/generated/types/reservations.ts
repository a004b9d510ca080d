// Messages of `Client.reservations`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { Int64, Metadata } from "./common.js";

export type DeleteReservationResponse = Record<string, never>;

export interface ListReservationsResponse {
  reservations?: Reservation[];
  nextPageToken?: string;
  revision?: Int64;
}

export interface Reservation {
  /** "rail/v1". */
  apiVersion?: string;
  /** "Reservation". */
  kind?: string;
  metadata?: Metadata;
  spec?: ReservationSpec;
  status?: ReservationStatus;
}

export interface ReservationSpec {
  /** Either names or lists such as gpu[001-064] ... */
  nodes?: string[];
  /** ... or so many, chosen when it begins. */
  count?: number;
  /** Of `count`: from so many pods at most; 0 means no limit. */
  podsAtMost?: number;
  start?: string;
  duration?: string;
  /** Whose jobs may run in it; empty for maintenance. */
  tenants?: string[];
  /** No job at all runs in it. */
  maintenance?: boolean;
  /** For people. */
  reason?: string;
}

export interface ReservationStatus {
  phase?: ReservationStatusPhase;
}

export type ReservationStatusPhase = "WAITING" | "ACTIVE" | "OVER";
