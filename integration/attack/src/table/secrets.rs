//! What people of tenant betan attempt on secrets and configs of tenant alpha.

use serde_json::{Value, json};

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
};

const PEOPLE: [From; 3] = [From::Viewer, From::User, From::TenantAdmin];
const MANAGER: [From; 1] = [From::TenantAdmin];
const SUBMITTERS: [From; 2] = [From::User, From::TenantAdmin];

fn attempts(
    (id, title): (&str, &str),
    by: &[From],
    (rpc, body): (&'static str, Value),
    (expect, trace): (Expect, Trace),
) -> Vec<Attempt> {
    let attempt = |from: &From| Attempt {
        id: format!("secrets/{id}/{}", from.name()),
        title: title.to_owned(),
        finding: Finding::Held,
        from: *from,
        step: Step::Call { rpc, body: body.clone() },
        expect,
        trace,
    };
    by.iter().map(attempt).collect()
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let foreign = (Expect::Reason(&["FOREIGN_TENANT"]), Trace::Audited);
    let theirs = || json!({"name": "alpha-keep-77", "tenant": "alpha"});
    let made = json!({"metadata": {"name": "alpha-keep-77", "tenant": "alpha"}, "data": {"A": "b"}});
    let job = json!({"job": {"metadata": {"name": "borrows"}, "spec": {
        "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1},
        "command": {"argv": ["/bin/true"], "envFrom": [{"secretRef": {"name": "alpha-keep-77"}}]},
    }}});
    [
        attempts(
            ("get", "read a secret of the other tenant"),
            &PEOPLE,
            ("rail.v1.SecretService/GetSecret", theirs()),
            foreign,
        ),
        attempts(
            ("list", "list the other tenant's secrets"),
            &PEOPLE,
            ("rail.v1.SecretService/ListSecrets", json!({"tenant": "alpha"})),
            foreign,
        ),
        attempts(
            ("all", "list secrets without naming a tenant"),
            &PEOPLE,
            ("rail.v1.SecretService/ListSecrets", json!({})),
            (Expect::Hidden, Trace::None),
        ),
        attempts(
            ("apply", "change a secret of the other tenant"),
            &MANAGER,
            ("rail.v1.SecretService/ApplySecret", json!({"secret": made})),
            foreign,
        ),
        attempts(
            ("delete", "delete a secret of the other tenant"),
            &MANAGER,
            ("rail.v1.SecretService/DeleteSecret", theirs()),
            foreign,
        ),
        attempts(
            ("config", "read a config of the other tenant"),
            &PEOPLE,
            ("rail.v1.ConfigService/GetConfig", theirs()),
            foreign,
        ),
        attempts(
            ("borrow", "have a rank see a secret of the other tenant"),
            &SUBMITTERS,
            ("rail.v1.JobService/CreateJob", job),
            (Expect::Refused, Trace::None),
        ),
    ]
    .concat()
}
