"""Calls of `Client.reservations`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.reservations import (
    DeleteReservationResponse,
    ListReservationsResponse,
    Reservation,
)

APPLY_RESERVATION = Operation("applyReservation", "POST", "/v1/reservations", True)
DELETE_RESERVATION = Operation("deleteReservation", "DELETE", "/v1/reservations/{name}", False)
GET_RESERVATION = Operation("getReservation", "GET", "/v1/reservations/{name}", True)
LIST_RESERVATIONS = Operation("listReservations", "GET", "/v1/reservations", True)


class ReservationsService(Resource):
    """`Client.reservations`."""

    def apply(self, reservation: Reservation, *, dry_run: bool | None = None, timeout: float | None = None) -> Reservation:
        """Creates the reservation or replaces its spec."""
        answer: Reservation = self._call(APPLY_RESERVATION, {}, {"dryRun": dry_run}, reservation, timeout)
        return answer

    def delete(self, name: str, *, timeout: float | None = None) -> DeleteReservationResponse:
        """The call deleteReservation of the API."""
        answer: DeleteReservationResponse = self._call(DELETE_RESERVATION, {"name": name}, {}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> Reservation:
        """The call getReservation of the API."""
        answer: Reservation = self._call(GET_RESERVATION, {"name": name}, {}, None, timeout)
        return answer

    def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListReservationsResponse:
        """The call listReservations of the API."""
        answer: ListReservationsResponse = self._call(
            LIST_RESERVATIONS,
            {},
            {"pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[Reservation]:
        """All rows of `list`, page by page."""
        rows: Sequence[Reservation] = self._pages(LIST_RESERVATIONS, {}, {}, "reservations", timeout)
        return rows
