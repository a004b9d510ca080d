//! What those attempt whose tenant, node or credentials are gone.

use crate::{
    caller::From,
    exec::lives::Life,
    model::{Attempt, Expect, Finding, Step, Trace},
};

fn life(id: &str, title: &str, finding: Finding, from: From, life: Life, expect: Expect) -> Attempt {
    Attempt {
        id: format!("lives/{id}"),
        title: title.to_owned(),
        finding,
        from,
        step: Step::Life(life),
        expect,
        trace: Trace::None,
    }
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let (three, four, six, low, held) =
        (Finding::Number(3), Finding::Number(4), Finding::Number(6), Finding::Low, Finding::Held);
    let (refused, hidden) = (Expect::Refused, Expect::Hidden);
    let (old, nobody, node, user, viewer, manager) =
        (From::Deleted, From::Anonymous, From::Node, From::User, From::Viewer, From::TenantAdmin);
    vec![
        life(
            "old-certificate-reads",
            "read a job of the tenant's second owner with a certificate of the first",
            three,
            old,
            Life::OldCertificateReads,
            refused,
        ),
        life(
            "old-certificate-issues",
            "issue a token of the second owner's tenant with it",
            three,
            old,
            Life::OldCertificateIssues,
            refused,
        ),
        life(
            "old-certificate-during",
            "use it while there is no such tenant",
            three,
            old,
            Life::OldCertificateDuring,
            refused,
        ),
        life(
            "old-token-reads",
            "read with a token of the first owner",
            held,
            old,
            Life::OldTokenReads,
            refused,
        ),
        life(
            "old-watch",
            "keep a watch open over the tenant's end",
            three,
            old,
            Life::OldWatchGoesOn,
            hidden,
        ),
        life(
            "old-audit",
            "find the first owner's job in the second one's audit records",
            Finding::New,
            manager,
            Life::OldAudit,
            hidden,
        ),
        life(
            "history-watch",
            "watch from a revision of the first owner",
            four,
            viewer,
            Life::HistoryByWatch,
            hidden,
        ),
        life(
            "history-page",
            "list by a page token of a revision of the first owner",
            four,
            viewer,
            Life::HistoryByPage,
            hidden,
        ),
        life(
            "history-request",
            "submit with a request id of the first owner",
            four,
            user,
            Life::HistoryByRequestId,
            hidden,
        ),
        life("old-queues", "find the first owner's queues", four, viewer, Life::OldQueues, hidden),
        life(
            "name-again",
            "take the name of a tenant that was just deleted",
            three,
            From::Deleted,
            Life::NameAgainAtOnce,
            refused,
        ),
        life("join-spent", "join with a token that was used", held, nobody, Life::JoinTokenSpent, refused),
        life("join-other", "join with another node's token", held, nobody, Life::JoinTokenOfOther, refused),
        life(
            "join-after-delete",
            "come back after the node was deleted with its spent token and the same request",
            low,
            node,
            Life::JoinTokenAfterDelete,
            refused,
        ),
        life(
            "join-expired",
            "join with a token that has ended",
            held,
            nobody,
            Life::JoinTokenExpired,
            refused,
        ),
        life("join-made-up", "join with a made-up token", held, nobody, Life::JoinTokenMadeUp, refused),
        life("join-user-token", "join with a user's token", held, user, Life::JoinByUserToken, refused),
        life(
            "revoked-certificate",
            "go on with a revoked certificate",
            held,
            user,
            Life::RevokedCertificate,
            refused,
        ),
        life(
            "revoked-unseen",
            "be refused at the handshake without a record",
            low,
            user,
            Life::RevokedCertificateAudited,
            refused,
        ),
        life("revoked-token", "go on with a revoked token", held, user, Life::RevokedToken, refused),
        life(
            "revoked-watch",
            "go on with a watch that was open at the revocation",
            held,
            user,
            Life::RevokedWatch,
            hidden,
        ),
        life("revoked-node", "renew a revoked node's certificate", held, node, Life::RevokedNode, refused),
        life(
            "bearer-wrong",
            "show a wrong token beside a good certificate",
            low,
            user,
            Life::WrongBearerBesideCertificate,
            refused,
        ),
        life(
            "bearer-node",
            "show a user's token beside a node's certificate",
            held,
            node,
            Life::BearerBesideNode,
            refused,
        ),
        life(
            "audit-erased",
            "erase the record of a change by a flood of calls",
            six,
            nobody,
            Life::AuditErased,
            Expect::Bounded,
        ),
        life(
            "audit-erased-tenant",
            "erase it by a flood of a tenant's calls",
            six,
            viewer,
            Life::AuditErasedByTenant,
            Expect::Bounded,
        ),
        life("audit-bounded", "make records without bound", six, nobody, Life::AuditBounded, Expect::Bounded),
    ]
}
