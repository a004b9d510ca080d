//! Who holds a job, in words.

use proto_model::{Job, JobHold, Reason, ReasonCode, Role};

/// The code of a cause: who holds the job, or that it is suspended.
fn code(hold: &JobHold) -> ReasonCode {
    match hold.role {
        _ if hold.suspended => ReasonCode::Suspended,
        _ if hold.is_our_own() => ReasonCode::HeldForEnvironment,
        Role::Admin => ReasonCode::HeldByAdministrator,
        Role::TenantAdmin => ReasonCode::HeldByTenantAdministrator,
        Role::User | Role::Viewer | Role::Node | Role::Switch => ReasonCode::HeldByUser,
    }
}

/// Who asks, in words.
pub fn named(role: Role, user: &str) -> String {
    match role {
        Role::Admin => format!("administrator '{user}'"),
        Role::TenantAdmin => format!("'{user}', an administrator of its tenant"),
        Role::User | Role::Viewer | Role::Node | Role::Switch => format!("user '{user}'"),
    }
}

/// Who it is that holds it, in words.
pub fn holder(hold: &JobHold) -> String {
    if hold.is_our_own() {
        return "the controller".to_owned();
    }
    named(hold.role, &hold.by)
}

/// What they say of it, behind their name.
pub fn said(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// Why a job that somebody holds does not start.
pub fn causes(job: &Job) -> impl Iterator<Item = Reason> + '_ {
    job.status.holds.iter().map(|hold| {
        let (who, name, reason) = (holder(hold), &job.id.name, said(&hold.reason));
        let message = match hold.suspended {
            true => format!("suspended by {who}{reason}; `railctl resume job {name}` lets it go on"),
            false if hold.is_our_own() => {
                format!("{}; it goes on when that is mended", hold.reason)
            }
            false => format!("held by {who}{reason}; `railctl release job {name}` lets it go on"),
        };
        Reason::new(code(hold), message).since(hold.since)
    })
}
