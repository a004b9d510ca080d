"""Calls of `Client.documents`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.documents import (
    Document,
    PlanDocumentsResponse,
)

PLAN_DOCUMENTS = Operation("planDocuments", "POST", "/v1/documents:plan", True, tenant="onBehalfOf", whole=True)


class DocumentsService(Resource):
    """`Client.documents`."""

    def plan(
        self,
        *,
        documents: Sequence[Document],
        allow_shrink: bool | None = None,
        reuse_names: bool | None = None,
        on_behalf_of: str | None = None,
        timeout: float | None = None,
    ) -> PlanDocumentsResponse:
        """Judges documents in their order, each as if those before it had been applied, by the same rules as the calls that apply them.
        Nothing is stored and nothing starts. A document that the caller may not apply refuses the whole call.

        `documents`: At least 1, at most 256, and 16 MiB together; at most one of them is a fabric, and arrays have at most 10000 elements
        in all.
        `allow_shrink`: Much fewer servers than the present fabric cables are meant.
        `reuse_names`: Names of tenants that were deleted not long ago may be given away again.
        `on_behalf_of`: The tenant of the jobs (administrators only).
        """
        answer: PlanDocumentsResponse = self._call(
            PLAN_DOCUMENTS,
            {},
            {"documents": documents, "allowShrink": allow_shrink, "reuseNames": reuse_names, "onBehalfOf": on_behalf_of},
            None,
            timeout,
        )
        return answer
