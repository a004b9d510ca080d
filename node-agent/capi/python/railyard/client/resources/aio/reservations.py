"""Calls of `AsyncClient.reservations`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.reservations import (
    DeleteReservationResponse,
    ListReservationsResponse,
    Reservation,
)
from ..reservations import (
    APPLY_RESERVATION,
    DELETE_RESERVATION,
    GET_RESERVATION,
    LIST_RESERVATIONS,
)


class AsyncReservationsService(AsyncResource):
    """`AsyncClient.reservations`."""

    async def apply(self, reservation: Reservation, *, dry_run: bool | None = None, timeout: float | None = None) -> Reservation:
        """Creates the reservation or replaces its spec."""
        answer: Reservation = await self._call(APPLY_RESERVATION, {}, {"dryRun": dry_run}, reservation, timeout)
        return answer

    async def delete(self, name: str, *, timeout: float | None = None) -> DeleteReservationResponse:
        """The call deleteReservation of the API."""
        answer: DeleteReservationResponse = await self._call(DELETE_RESERVATION, {"name": name}, {}, None, timeout)
        return answer

    async def get(self, name: str, *, timeout: float | None = None) -> Reservation:
        """The call getReservation of the API."""
        answer: Reservation = await self._call(GET_RESERVATION, {"name": name}, {}, None, timeout)
        return answer

    async def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListReservationsResponse:
        """The call listReservations of the API."""
        answer: ListReservationsResponse = await self._call(
            LIST_RESERVATIONS,
            {},
            {"pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, timeout: float | None = None) -> Sequence[Reservation]:
        """All rows of `list`, page by page."""
        rows: Sequence[Reservation] = await self._pages(LIST_RESERVATIONS, {}, {}, "reservations", timeout)
        return rows
