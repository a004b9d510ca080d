//! Every RPC by every caller who may not call it. The table is written by hand, from what each role is for, and not taken from
//! the code under test; a test compares its rows with the descriptors.

use serde_json::json;

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
    roles::{CALLERS, PREFIX, TABLE},
};

/// RPCs that the table does not hold yet: what a later version adds is refused to all but administrators until it is listed.
pub fn all() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (rpc, cells) in TABLE {
        for (from, cell) in CALLERS.into_iter().zip(cells.chars()) {
            if cell == 'x' {
                continue;
            }
            let follows = *rpc == "rail.v1.ControllerService/Follow";
            let short = rpc.rsplit('/').next().unwrap_or_default();
            let kind = if rpc.contains("v1alpha") { "Alpha" } else { "" };
            attempts.push(Attempt {
                id: format!("{PREFIX}{short}{kind}/{}", from.name()),
                title: format!("call {short} as {}", from.name()),
                finding: Finding::Held,
                from,
                step: Step::Call { rpc, body: json!({}) },
                expect: Expect::Reason(match from {
                    // Where there is one controller there is nobody to follow, and no such method.
                    _ if follows => &["UNKNOWN_METHOD", "ROLE_NOT_ALLOWED", "NO_CREDENTIALS"],
                    From::Anonymous => &["NO_CREDENTIALS"],
                    _ => &["ROLE_NOT_ALLOWED"],
                }),
                trace: if follows { Trace::None } else { Trace::Audited },
            });
        }
    }
    attempts
}
