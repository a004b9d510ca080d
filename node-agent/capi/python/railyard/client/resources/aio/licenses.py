"""Calls of `AsyncClient.licenses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.licenses import (
    DeleteLicenseResponse,
    License,
    ListLicensesResponse,
)
from ..licenses import (
    APPLY_LICENSE,
    DELETE_LICENSE,
    GET_LICENSE,
    LIST_LICENSES,
)


class AsyncLicensesService(AsyncResource):
    """`AsyncClient.licenses`."""

    async def apply(self, license: License, *, dry_run: bool | None = None, timeout: float | None = None) -> License:
        """Creates the license or replaces its spec."""
        answer: License = await self._call(APPLY_LICENSE, {}, {"dryRun": dry_run}, license, timeout)
        return answer

    async def delete(self, name: str, *, timeout: float | None = None) -> DeleteLicenseResponse:
        """Refused while jobs that have not ended ask for it."""
        answer: DeleteLicenseResponse = await self._call(DELETE_LICENSE, {"name": name}, {}, None, timeout)
        return answer

    async def get(self, name: str, *, timeout: float | None = None) -> License:
        """The call getLicense of the API."""
        answer: License = await self._call(GET_LICENSE, {"name": name}, {}, None, timeout)
        return answer

    async def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListLicensesResponse:
        """The call listLicenses of the API."""
        answer: ListLicensesResponse = await self._call(LIST_LICENSES, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    async def list_all(self, *, timeout: float | None = None) -> Sequence[License]:
        """All rows of `list`, page by page."""
        rows: Sequence[License] = await self._pages(LIST_LICENSES, {}, {}, "licenses", timeout)
        return rows
