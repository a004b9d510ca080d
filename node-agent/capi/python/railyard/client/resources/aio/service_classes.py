"""Calls of `AsyncClient.service_classes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.service_classes import (
    DeleteServiceClassResponse,
    ListServiceClassesResponse,
    ServiceClass,
)
from ..service_classes import (
    APPLY_SERVICE_CLASS,
    DELETE_SERVICE_CLASS,
    GET_SERVICE_CLASS,
    LIST_SERVICE_CLASSES,
)


class AsyncServiceClassesService(AsyncResource):
    """`AsyncClient.service_classes`."""

    async def apply(self, service_class: ServiceClass, *, dry_run: bool | None = None, timeout: float | None = None) -> ServiceClass:
        """Creates the class or replaces its spec. Limits of one job hold for what is submitted or changed from then on."""
        answer: ServiceClass = await self._call(APPLY_SERVICE_CLASS, {}, {"dryRun": dry_run}, service_class, timeout)
        return answer

    async def delete(self, name: str, *, timeout: float | None = None) -> DeleteServiceClassResponse:
        """Refused while it has jobs that have not ended."""
        answer: DeleteServiceClassResponse = await self._call(DELETE_SERVICE_CLASS, {"name": name}, {}, None, timeout)
        return answer

    async def get(self, name: str, *, timeout: float | None = None) -> ServiceClass:
        """The call getServiceClass of the API."""
        answer: ServiceClass = await self._call(GET_SERVICE_CLASS, {"name": name}, {}, None, timeout)
        return answer

    async def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListServiceClassesResponse:
        """The call listServiceClasses of the API."""
        answer: ListServiceClassesResponse = await self._call(
            LIST_SERVICE_CLASSES,
            {},
            {"pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    async def list_all(self, *, timeout: float | None = None) -> Sequence[ServiceClass]:
        """All rows of `list`, page by page."""
        rows: Sequence[ServiceClass] = await self._pages(LIST_SERVICE_CLASSES, {}, {}, "serviceClasses", timeout)
        return rows
