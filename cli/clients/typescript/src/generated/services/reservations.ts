// Calls of `Client.reservations`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand.

import type { CallOptions } from "../../core.js";
import { Resource } from "../../resource.js";
import type { Pages } from "../../resource.js";
import { operations } from "../operations.js";
import type { DeleteReservationResponse, ListReservationsResponse, Reservation } from "../types/reservations.js";

export interface ApplyReservationParams extends CallOptions {
  dryRun?: boolean;
}

export interface DeleteReservationParams extends CallOptions {
}

export interface GetReservationParams extends CallOptions {
}

export interface ListReservationsParams extends CallOptions {
  pageSize?: number;
  pageToken?: string;
}

/** `Client.reservations`. */
export class ReservationsService extends Resource {
  /** Creates the reservation or replaces its spec. */
  async apply(reservation: Reservation, params: ApplyReservationParams = {}): Promise<Reservation> {
    return this.call(operations.applyReservation, {}, params, reservation);
  }

  /** The call deleteReservation of the API. */
  async delete(name: string, params: DeleteReservationParams = {}): Promise<DeleteReservationResponse> {
    return this.call(operations.deleteReservation, { name }, params, undefined);
  }

  /** The call getReservation of the API. */
  async get(name: string, params: GetReservationParams = {}): Promise<Reservation> {
    return this.call(operations.getReservation, { name }, params, undefined);
  }

  /** The call listReservations of the API. */
  async list(params: ListReservationsParams = {}): Promise<ListReservationsResponse> {
    return this.call(operations.listReservations, {}, params, undefined);
  }

  /** All rows of `list`, page by page. */
  listAll(params: Omit<ListReservationsParams, "pageToken"> = {}): Pages<Reservation> {
    return this.pages(operations.listReservations, {}, params, "reservations");
  }
}
