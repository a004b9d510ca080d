//! What whoever holds one node's certificate tries on the others.

use crate::{
    caller::From,
    exec::nodes::Lie,
    model::{Attempt, Expect, Finding, Step, Trace},
};

fn lie(id: &str, title: &str, finding: Finding, lie: Lie, expect: Expect) -> Attempt {
    Attempt {
        id: format!("nodes/{id}"),
        title: title.to_owned(),
        finding,
        from: From::Node,
        step: Step::Lie(lie),
        expect,
        trace: Trace::None,
    }
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let (five, held, low, new) = (Finding::Number(5), Finding::Held, Finding::Low, Finding::New);
    let (none, bound, refused) = (Expect::NoEffect, Expect::Bounded, Expect::Refused);
    vec![
        lie(
            "lost-elsewhere",
            "fail three jobs of its own with NodeLost of another node",
            five,
            Lie::NodeLostElsewhere,
            none,
        ),
        lie(
            "attempt-lost",
            "fail three jobs of its own with AttemptLost of another node",
            five,
            Lie::AttemptLostElsewhere,
            none,
        ),
        lie(
            "lost-here",
            "say NodeLost of itself, which only the controller may say",
            five,
            Lie::NodeLostHere,
            none,
        ),
        lie("scope-rail", "blame a whole rail", five, Lie::ScopeRail, none),
        lie("scope-leaf", "blame a leaf", five, Lie::ScopeLeaf, none),
        lie("scope-path", "blame a node by a scope with a path in it", five, Lie::ScopeOfNobody, none),
        lie("code-strange", "blame another by a code with control characters", five, Lie::StrangeCode, none),
        lie("foreign-ends", "say that another node's job has ended", held, Lie::ForeignJobEnds, none),
        lie("foreign-runs", "say that another node's job runs", held, Lie::ForeignJobRuns, none),
        lie("foreign-result", "tell the result of another node's job", held, Lie::ForeignResult, none),
        lie("later-attempt", "end an attempt that there is not yet", held, Lie::LaterAttempt, none),
        lie(
            "foreign-ranks",
            "tell how ranks of the other node of a gang have ended",
            five,
            Lie::ForeignRanksExit,
            none,
        ),
        lie("register-other", "register as another node", held, Lie::RegisterAsOther, refused),
        lie("register-twice", "register twice on one stream", held, Lie::RegisterTwice, refused),
        lie("first-heartbeat", "begin a stream without registering", held, Lie::FirstIsHeartbeat, refused),
        lie("silent", "open a stream and never register", held, Lie::SilentStream, bound),
        lie("stale-flood", "refuse the controller's epoch 3,000 times", held, Lie::StaleFlood, bound),
        lie(
            "stale-highest",
            "say that it obeys the highest epoch there can be",
            five,
            Lie::StaleHighest,
            none,
        ),
        lie("epoch-highest", "register with the highest epoch there can be", five, Lie::EpochHighest, none),
        lie("inventory-big", "tell an inventory of 2 MB", held, Lie::BigInventory, bound),
        lie("inventory-storm", "tell 1,000 inventories at once", held, Lie::InventoryStorm, bound),
        lie("heartbeats", "beat 10,000 times at once", held, Lie::HeartbeatFlood, bound),
        lie("unknown-jobs", "tell 2,000 ends of jobs that there are not", held, Lie::UnknownJobs, bound),
        lie("rail-address", "claim another node's rail address", low, Lie::RailAddressOfOther, none),
        lie("rail-address-odd", "claim a multicast address", low, Lie::RailAddressOdd, none),
        lie(
            "rail-address-mapped",
            "claim another node's rail address in another form",
            low,
            Lie::GidOfOther,
            none,
        ),
        lie(
            "endpoint-other",
            "say that its engine listens at another node's address",
            five,
            Lie::EndpointOfOther,
            none,
        ),
        lie(
            "endpoint-elsewhere",
            "say that its engine listens outside of the cluster",
            five,
            Lie::EndpointElsewhere,
            none,
        ),
        lie(
            "endpoint-rail",
            "say that its engine listens on a rail that it has not",
            five,
            Lie::EndpointOtherRail,
            none,
        ),
        lie("logs-unknown", "upload logs that nobody asked for", held, Lie::LogsUnknown, refused),
        lie("logs-other", "upload lines into another node's logs", held, Lie::LogsOfOther, refused),
        lie("renew-other", "renew its certificate and register as another", held, Lie::RenewAsOther, refused),
        lie("reason-escapes", "tell a reason with escapes for terminals", new, Lie::EscapesInReason, none),
        lie("reason-long", "tell a reason of 500 kB", new, Lie::LongReason, bound),
    ]
}
