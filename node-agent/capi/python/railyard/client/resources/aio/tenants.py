"""Calls of `AsyncClient.tenants`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..._resource import AsyncResource
from ...types.tenants import (
    DeleteTenantResponse,
    IssueCertificateResponse,
    IssueTokenResponse,
    ListRevocationsResponse,
    ListTenantsResponse,
    ListTokensResponse,
    Revocation,
    Tenant,
    WhoAmIResponse,
)
from ..tenants import (
    APPLY_TENANT,
    DELETE_TENANT,
    GET_TENANT,
    ISSUE_CERTIFICATE,
    ISSUE_TOKEN,
    LIST_REVOCATIONS,
    LIST_TENANTS,
    LIST_TOKENS,
    REVOKE,
    WHO_AM_I,
)


class AsyncTenantsService(AsyncResource):
    """`AsyncClient.tenants`."""

    async def apply(
        self,
        tenant: Tenant,
        *,
        dry_run: bool | None = None,
        reuse_name: bool | None = None,
        timeout: float | None = None,
    ) -> Tenant:
        """Creates the tenant or replaces its spec.

        `reuse_name`: Takes the name of a tenant that was deleted not long ago, which rests otherwise. Not for a dry run.
        """
        answer: Tenant = await self._call(APPLY_TENANT, {}, {"dryRun": dry_run, "reuseName": reuse_name}, tenant, timeout)
        return answer

    async def delete(
        self,
        name: str,
        *,
        uid: str | None = None,
        dry_run: bool | None = None,
        timeout: float | None = None,
    ) -> DeleteTenantResponse:
        """Refused while the tenant has jobs that have not ended. Whatever was issued for it is refused from then on, and its streams end
        within
        two seconds. Its name rests for a while (30 days, unless the controller was told otherwise): see ApplyTenantRequest.reuse_name.

        `uid`: If given, refused unless it is the tenant's: a late copy must not hit a tenant that was made since.
        `dry_run`: Tells what would go with it, and deletes nothing.
        """
        answer: DeleteTenantResponse = await self._call(DELETE_TENANT, {"name": name}, {"uid": uid, "dryRun": dry_run}, None, timeout)
        return answer

    async def get(self, name: str, *, timeout: float | None = None) -> Tenant:
        """The call getTenant of the API."""
        answer: Tenant = await self._call(GET_TENANT, {"name": name}, {}, None, timeout)
        return answer

    async def issue_certificate(
        self,
        *,
        csr_pem: str,
        user: str,
        role: str,
        tenant: str | None = None,
        lifetime: str | None = None,
        timeout: float | None = None,
    ) -> IssueCertificateResponse:
        """Signs a certificate for a user of a tenant, or for an administrator.

        `csr_pem`: PEM certificate signing request; only its key is used.
        `tenant`: Empty for an administrator.
        `lifetime`: At most 30 days; default 12 hours.
        """
        answer: IssueCertificateResponse = await self._call(
            ISSUE_CERTIFICATE,
            {},
            {"csrPem": csr_pem, "tenant": tenant, "user": user, "role": role, "lifetime": lifetime},
            None,
            timeout,
        )
        return answer

    async def issue_token(
        self,
        *,
        user: str,
        role: str,
        tenant: str | None = None,
        lifetime: str | None = None,
        timeout: float | None = None,
    ) -> IssueTokenResponse:
        """A bearer token for programs that cannot hold a certificate."""
        answer: IssueTokenResponse = await self._call(
            ISSUE_TOKEN,
            {},
            {"tenant": tenant, "user": user, "role": role, "lifetime": lifetime},
            None,
            timeout,
        )
        return answer

    async def list_revocations(self, *, timeout: float | None = None) -> ListRevocationsResponse:
        """What is revoked, as long as it could still be valid."""
        answer: ListRevocationsResponse = await self._call(LIST_REVOCATIONS, {}, {}, None, timeout)
        return answer

    async def list(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        timeout: float | None = None,
    ) -> ListTenantsResponse:
        """The call listTenants of the API."""
        answer: ListTenantsResponse = await self._call(LIST_TENANTS, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    async def list_all(self, *, timeout: float | None = None) -> Sequence[Tenant]:
        """All rows of `list`, page by page."""
        rows: Sequence[Tenant] = await self._pages(LIST_TENANTS, {}, {}, "tenants", timeout)
        return rows

    async def list_tokens(self, *, tenant: str | None = None, timeout: float | None = None) -> ListTokensResponse:
        """Tokens that were issued and have not expired, by their ids; what they are is told once, when they are issued.

        `tenant`: For administrators: of this tenant alone; empty means all, theirs too.
        """
        answer: ListTokensResponse = await self._call(LIST_TOKENS, {}, {"tenant": tenant}, None, timeout)
        return answer

    async def revoke(self, *, subject: str, reason: str | None = None, timeout: float | None = None) -> Revocation:
        """Takes back the certificates and tokens (a node's tokens to join too) that a user, an administrator or a node was given until now, or
        one
        certificate. Live connections and streams end within two seconds; what is issued afterwards is good.

        `subject`: "node/NAME", "tenant/TENANT/user/USER", "admin/USER", or one certificate: "serial/HEX".
        `reason`: Why; shown to administrators.
        """
        answer: Revocation = await self._call(REVOKE, {}, {"subject": subject, "reason": reason}, None, timeout)
        return answer

    async def who_am_i(self, *, timeout: float | None = None) -> WhoAmIResponse:
        """Who the caller is to the controller."""
        answer: WhoAmIResponse = await self._call(WHO_AM_I, {}, {}, None, timeout)
        return answer
