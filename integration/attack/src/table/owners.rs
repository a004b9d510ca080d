//! What people of tenant betan attempt on a job of another user of their own tenant.

use serde_json::{Value, json};

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
    world::NEIGHBOR,
};

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let job = || json!({"name": NEIGHBOR});
    let with = |field: &str, value: Value| {
        let mut body = job();
        body[field] = value;
        body
    };
    let step = json!({"start": {"job": NEIGHBOR, "argv": ["env"]}});
    let signal = json!({"start": {"job": NEIGHBOR, "signal": 9}});
    let changes: [(&str, &str, &'static str, Value); 10] = [
        ("cancel", "cancel another user's job", "rail.v1.JobService/CancelJob", job()),
        ("delete", "delete another user's job", "rail.v1.JobService/DeleteJob", job()),
        ("hold", "hold another user's job", "rail.v1.JobService/HoldJob", job()),
        ("release", "release another user's job", "rail.v1.JobService/ReleaseJob", job()),
        ("suspend", "suspend another user's job", "rail.v1.JobService/SuspendJob", job()),
        ("requeue", "queue another user's job again", "rail.v1.JobService/RequeueJob", job()),
        ("update", "change another user's job", "rail.v1.JobService/UpdateJob", with("priority", json!(-9))),
        (
            "label",
            "label another user's job",
            "rail.v1.JobService/UpdateJob",
            with("setLabels", json!({"a": "b"})),
        ),
        ("step", "run a command in another user's job", "rail.v1.StepService/RunStep", step),
        ("signal", "kill another user's ranks", "rail.v1.StepService/RunStep", signal),
    ];
    let attempt = |(id, title, rpc, body): (&str, &str, &'static str, Value)| Attempt {
        id: format!("owners/{id}/{}", From::User.name()),
        title: title.to_owned(),
        finding: Finding::New,
        from: From::User,
        step: Step::Call { rpc, body },
        expect: Expect::Reason(&["NOT_OWNER"]),
        trace: Trace::Audited,
    };
    changes.into_iter().map(attempt).collect()
}
