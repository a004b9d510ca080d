"""Calls of `Client.licenses`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.licenses import (
    DeleteLicenseResponse,
    License,
    ListLicensesResponse,
)

APPLY_LICENSE = Operation("applyLicense", "POST", "/v1/licenses", True)
DELETE_LICENSE = Operation("deleteLicense", "DELETE", "/v1/licenses/{name}", False)
GET_LICENSE = Operation("getLicense", "GET", "/v1/licenses/{name}", True)
LIST_LICENSES = Operation("listLicenses", "GET", "/v1/licenses", True)


class LicensesService(Resource):
    """`Client.licenses`."""

    def apply(self, license: License, *, dry_run: bool | None = None, timeout: float | None = None) -> License:
        """Creates the license or replaces its spec."""
        answer: License = self._call(APPLY_LICENSE, {}, {"dryRun": dry_run}, license, timeout)
        return answer

    def delete(self, name: str, *, timeout: float | None = None) -> DeleteLicenseResponse:
        """Refused while jobs that have not ended ask for it."""
        answer: DeleteLicenseResponse = self._call(DELETE_LICENSE, {"name": name}, {}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> License:
        """The call getLicense of the API."""
        answer: License = self._call(GET_LICENSE, {"name": name}, {}, None, timeout)
        return answer

    def list(self, *, page_size: int | None = None, page_token: str | None = None, timeout: float | None = None) -> ListLicensesResponse:
        """The call listLicenses of the API."""
        answer: ListLicensesResponse = self._call(LIST_LICENSES, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[License]:
        """All rows of `list`, page by page."""
        rows: Sequence[License] = self._pages(LIST_LICENSES, {}, {}, "licenses", timeout)
        return rows
