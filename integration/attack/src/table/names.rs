//! What a user of tenant beta is shown when a job of tenant alpha takes the place of theirs, or is in its way.

use crate::{
    caller::From,
    exec::names::Name,
    model::{Attempt, Expect, Finding, Step, Trace},
};

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let name = |id: &str, title: &str, name| Attempt {
        id: format!("names/{id}"),
        title: format!("find the other tenant's job in {title}"),
        finding: Finding::Number(9),
        from: From::User,
        step: Step::Name(name),
        expect: Expect::Hidden,
        trace: Trace::None,
    };
    vec![
        name("status", "the status of one's own that had to yield", Name::Status),
        name("explained", "why one's own had to yield", Name::Explained),
        name("history", "the decisions on one's own", Name::History),
        name("watched", "a watch of one's own", Name::Watched),
        name("stop-reason", "what is written into the log of one's own", Name::StopReason),
        name("waiting", "why one's own waits", Name::Waiting),
        name("waiting-plan", "a plan that would wait for it", Name::WaitingPlan),
        name("audit", "one's own audit records", Name::Audit),
    ]
}
