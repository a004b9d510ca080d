//! Strangers at the ports of a job's rails.

use crate::{
    caller::From,
    exec::{rails::RailTrick, recorded::Recorded},
    model::{Attempt, Expect, Finding, Step, Trace},
};

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let rail = |id: &str, title: &str, trick| Attempt {
        id: format!("rails/{id}"),
        title: title.to_owned(),
        finding: Finding::Held,
        from: From::OnPath,
        step: Step::Rails(trick),
        expect: Expect::NoEffect,
        trace: Trace::None,
    };
    let tap = Attempt {
        id: "rails/read-along".to_owned(),
        title: "read what goes over the rails of a job that asks for encryption".to_owned(),
        finding: Finding::Number(11),
        from: From::OnPath,
        step: Step::Tap,
        expect: Expect::Absent,
        trace: Trace::None,
    };
    let probe = |id: &str, title: &str, finding, what| Attempt {
        id: format!("rails/probe-{id}"),
        title: title.to_owned(),
        finding,
        from: From::OnPath,
        step: Step::Recorded(what),
        expect: Expect::Bounded,
        trace: Trace::None,
    };
    let (low, held) = (Finding::Low, Finding::Held);
    vec![
        probe("elsewhere", "send a recorded question from another address", low, Recorded::Elsewhere),
        probe("amplified", "have 9 kB sent to it for each of these", low, Recorded::Amplified),
        probe(
            "repeated",
            "have a peer flooded with answers to one recorded question",
            low,
            Recorded::Repeated,
        ),
        probe("other-job", "ask with a packet of another job", held, Recorded::OtherJob),
        probe("garbage", "ask with a packet that nobody has sealed", held, Recorded::Garbage),
        tap,
        rail("garbage", "send 20 kB of garbage 300 times", RailTrick::Garbage),
        rail("silent", "connect 300 times and say nothing", RailTrick::Silent),
        rail("junk", "send 40 bytes of junk 300 times", RailTrick::Junk),
        rail("reflect", "send an engine's own words back", RailTrick::Reflect),
        rail("relay", "carry the words of one engine to the other", RailTrick::Relay),
        rail("http", "ask in HTTP", RailTrick::Http),
        rail("huge-length", "announce a message of 2^64 bytes", RailTrick::HugeLength),
        rail("reset", "connect and reset 300 times", RailTrick::Reset),
    ]
}
