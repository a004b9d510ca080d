"""Calls of `Client.service_classes`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.service_classes import (
    DeleteServiceClassResponse,
    ListServiceClassesResponse,
    ServiceClass,
)

APPLY_SERVICE_CLASS = Operation("applyServiceClass", "POST", "/v1/service-classes", True)
DELETE_SERVICE_CLASS = Operation("deleteServiceClass", "DELETE", "/v1/service-classes/{name}", False)
GET_SERVICE_CLASS = Operation("getServiceClass", "GET", "/v1/service-classes/{name}", True)
LIST_SERVICE_CLASSES = Operation("listServiceClasses", "GET", "/v1/service-classes", True)


class ServiceClassesService(Resource):
    """`Client.service_classes`."""

    def apply(self, service_class: ServiceClass, *, dry_run: bool | None = None, timeout: float | None = None) -> ServiceClass:
        """Creates the class or replaces its spec. Limits of one job hold for what is submitted or changed from then on."""
        answer: ServiceClass = self._call(APPLY_SERVICE_CLASS, {}, {"dryRun": dry_run}, service_class, timeout)
        return answer

    def delete(self, name: str, *, timeout: float | None = None) -> DeleteServiceClassResponse:
        """Refused while it has jobs that have not ended."""
        answer: DeleteServiceClassResponse = self._call(DELETE_SERVICE_CLASS, {"name": name}, {}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> ServiceClass:
        """The call getServiceClass of the API."""
        answer: ServiceClass = self._call(GET_SERVICE_CLASS, {"name": name}, {}, None, timeout)
        return answer

    def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListServiceClassesResponse:
        """The call listServiceClasses of the API."""
        answer: ListServiceClassesResponse = self._call(
            LIST_SERVICE_CLASSES,
            {},
            {"pageSize": page_size, "pageToken": page_token},
            None,
            timeout,
        )
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[ServiceClass]:
        """All rows of `list`, page by page."""
        rows: Sequence[ServiceClass] = self._pages(LIST_SERVICE_CLASSES, {}, {}, "serviceClasses", timeout)
        return rows
