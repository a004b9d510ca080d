"""Calls of `Client.tenants`. Written by cli/clients/generate from the OpenAPI document: do not change it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Operation
from .._resource import Resource
from ..types.tenants import (
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

APPLY_TENANT = Operation("applyTenant", "POST", "/v1/tenants", True)
DELETE_TENANT = Operation("deleteTenant", "DELETE", "/v1/tenants/{name}", False)
GET_TENANT = Operation("getTenant", "GET", "/v1/tenants/{name}", True)
ISSUE_CERTIFICATE = Operation("issueCertificate", "POST", "/v1/certificates", False, whole=True)
ISSUE_TOKEN = Operation("issueToken", "POST", "/v1/tokens", False, whole=True)
LIST_REVOCATIONS = Operation("listRevocations", "GET", "/v1/revocations", True)
LIST_TENANTS = Operation("listTenants", "GET", "/v1/tenants", True)
LIST_TOKENS = Operation("listTokens", "GET", "/v1/tokens", True)
REVOKE = Operation("revoke", "POST", "/v1/revocations", False, whole=True)
WHO_AM_I = Operation("whoAmI", "GET", "/v1/whoami", True)


class TenantsService(Resource):
    """`Client.tenants`."""

    def apply(
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
        answer: Tenant = self._call(APPLY_TENANT, {}, {"dryRun": dry_run, "reuseName": reuse_name}, tenant, timeout)
        return answer

    def delete(
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
        answer: DeleteTenantResponse = self._call(DELETE_TENANT, {"name": name}, {"uid": uid, "dryRun": dry_run}, None, timeout)
        return answer

    def get(self, name: str, *, timeout: float | None = None) -> Tenant:
        """The call getTenant of the API."""
        answer: Tenant = self._call(GET_TENANT, {"name": name}, {}, None, timeout)
        return answer

    def issue_certificate(
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
        answer: IssueCertificateResponse = self._call(
            ISSUE_CERTIFICATE,
            {},
            {"csrPem": csr_pem, "tenant": tenant, "user": user, "role": role, "lifetime": lifetime},
            None,
            timeout,
        )
        return answer

    def issue_token(
        self,
        *,
        user: str,
        role: str,
        tenant: str | None = None,
        lifetime: str | None = None,
        timeout: float | None = None,
    ) -> IssueTokenResponse:
        """A bearer token for programs that cannot hold a certificate."""
        answer: IssueTokenResponse = self._call(
            ISSUE_TOKEN,
            {},
            {"tenant": tenant, "user": user, "role": role, "lifetime": lifetime},
            None,
            timeout,
        )
        return answer

    def list_revocations(self, *, timeout: float | None = None) -> ListRevocationsResponse:
        """What is revoked, as long as it could still be valid."""
        answer: ListRevocationsResponse = self._call(LIST_REVOCATIONS, {}, {}, None, timeout)
        return answer

    def list(self, *, page_size: int | None = None, page_token: str | None = None, timeout: float | None = None) -> ListTenantsResponse:
        """The call listTenants of the API."""
        answer: ListTenantsResponse = self._call(LIST_TENANTS, {}, {"pageSize": page_size, "pageToken": page_token}, None, timeout)
        return answer

    def list_all(self, *, timeout: float | None = None) -> Sequence[Tenant]:
        """All rows of `list`, page by page."""
        rows: Sequence[Tenant] = self._pages(LIST_TENANTS, {}, {}, "tenants", timeout)
        return rows

    def list_tokens(self, *, tenant: str | None = None, timeout: float | None = None) -> ListTokensResponse:
        """Tokens that were issued and have not expired, by their ids; what they are is told once, when they are issued.

        `tenant`: For administrators: of this tenant alone; empty means all, theirs too.
        """
        answer: ListTokensResponse = self._call(LIST_TOKENS, {}, {"tenant": tenant}, None, timeout)
        return answer

    def revoke(self, *, subject: str, reason: str | None = None, timeout: float | None = None) -> Revocation:
        """Takes back the certificates and tokens (a node's tokens to join too) that a user, an administrator or a node was given until now, or
        one
        certificate. Live connections and streams end within two seconds; what is issued afterwards is good.

        `subject`: "node/NAME", "tenant/TENANT/user/USER", "admin/USER", or one certificate: "serial/HEX".
        `reason`: Why; shown to administrators.
        """
        answer: Revocation = self._call(REVOKE, {}, {"subject": subject, "reason": reason}, None, timeout)
        return answer

    def who_am_i(self, *, timeout: float | None = None) -> WhoAmIResponse:
        """Who the caller is to the controller."""
        answer: WhoAmIResponse = self._call(WHO_AM_I, {}, {}, None, timeout)
        return answer
