//! Rules on rates and counts: a table, each row with who published it.

use std::time::Duration;

use crate::{
    condition::{Condition, Fact, Severity},
    counter_kind::CounterKind,
};

/// What a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// All that a device says under a word.
    Counter(CounterKind),
    /// The one counter of this name.
    Name(&'static str),
}

/// When a rule is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Test {
    /// It is broken by any increase.
    Any,
    /// By more than this many within the time.
    Within(u64, Duration),
    /// By more than this many a second over the first time, at each sample for the second time.
    Rate(f64, Duration, Duration),
    /// By a mean of more than this many a second that forgets with this time.
    Mean(f64, Duration),
}

impl Test {
    /// The number that must not be passed.
    #[must_use]
    pub fn limit(self) -> f64 {
        match self {
            Self::Any => 0.0,
            Self::Within(count, _) => count as f64,
            Self::Rate(rate, ..) | Self::Mean(rate, _) => rate,
        }
    }
}

/// One rule of health on a counter.
#[derive(Debug, PartialEq)]
pub struct Rule {
    /// The counters that the rule looks at.
    pub of: Of,
    /// When it is broken.
    pub test: Test,
    /// The condition that a broken rule shows.
    pub condition: Condition,
    /// How severe the condition is.
    pub severity: Severity,
    /// Not the rail's doing where most rails of the same load show it at the same time: a peer or a job died.
    pub shared: bool,
    /// Does not hold where routes are adaptive.
    pub ordered_only: bool,
    /// The rule in words, with its unit.
    pub fact: Fact,
}

const S12: Duration = Duration::from_secs(12);
const S30: Duration = Duration::from_secs(30);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const PEER: &str =
    "packets are lost on this rail; look at the cable, the optics and the drops of the leaf's port";
const PHYSICAL: &str = "bits are damaged on the way; clean or replace the cable or the optics";

const fn fact(id: &'static str, what: &'static str, unit: &'static str, source: &'static str) -> Fact {
    Fact { id, what, unit, source, hint: "" }
}

const fn rule(of: Of, test: Test, condition: Condition, severity: Severity, fact: Fact) -> Rule {
    Rule { of, test, condition, severity, shared: false, ordered_only: false, fact }
}

const fn hint(rule: Rule, hint: &'static str) -> Rule {
    Rule { fact: Fact { hint, ..rule.fact }, ..rule }
}

const fn shared(rule: Rule) -> Rule {
    Rule { shared: true, ..rule }
}

/// The rules that hold where nothing else is asked for.
pub const RULES: &[Rule] = &[
    hint(
        rule(
            Of::Name("symbol_error"),
            Test::Within(120, HOUR),
            Condition::Corrupt,
            Severity::Drain,
            fact("SymbolErrorsHour", "symbol_error", "", "NVSentinel: more than 120 an hour is fatal"),
        ),
        PHYSICAL,
    ),
    hint(
        rule(
            Of::Name("symbol_error"),
            Test::Rate(10.0, S12, Duration::ZERO),
            Condition::Corrupt,
            Severity::Degraded,
            fact("SymbolErrors", "symbol_error", "/s", "NVSentinel: more than 10/s"),
        ),
        PHYSICAL,
    ),
    hint(
        rule(
            Of::Name("port_rcv_errors"),
            Test::Rate(10.0, S12, Duration::ZERO),
            Condition::Corrupt,
            Severity::Degraded,
            fact("ReceiveErrors", "port_rcv_errors", "/s", "NVSentinel: more than 10/s"),
        ),
        PHYSICAL,
    ),
    hint(
        rule(
            Of::Name("rx_icrc_encapsulated"),
            Test::Rate(10.0, S12, Duration::ZERO),
            Condition::Corrupt,
            Severity::Degraded,
            fact("BadIcrc", "rx_icrc_encapsulated", "/s", "as port_rcv_errors"),
        ),
        "packets are damaged between the ends; look for a switch that changes them",
    ),
    hint(
        rule(
            Of::Name("local_link_integrity_errors"),
            Test::Any,
            Condition::Corrupt,
            Severity::Drain,
            fact("LinkIntegrity", "local_link_integrity_errors", "", "NVSentinel: any increase is fatal"),
        ),
        PHYSICAL,
    ),
    hint(
        rule(
            Of::Name("excessive_buffer_overrun_errors"),
            Test::Any,
            Condition::Dropping,
            Severity::Drain,
            fact("BufferOverrun", "excessive_buffer_overrun_errors", "", "NVSentinel: any increase is fatal"),
        ),
        "the port's buffer ran over although its priority is lossless; compare PFC and headroom of both ends",
    ),
    hint(
        rule(
            Of::Name("link_error_recovery"),
            Test::Within(5, MINUTE),
            Condition::Flapping,
            Severity::Degraded,
            fact("LinkRecovery", "link_error_recovery", "", "NVSentinel: more than 5 a minute"),
        ),
        PHYSICAL,
    ),
    hint(
        rule(
            Of::Name("port_xmit_discards"),
            Test::Rate(100.0, S12, Duration::ZERO),
            Condition::Dropping,
            Severity::Degraded,
            fact("SendDiscards", "port_xmit_discards", "/s", "NVSentinel: more than 100/s"),
        ),
        "the port drops what it should send; look at the link and at PFC",
    ),
    hint(
        rule(
            Of::Counter(CounterKind::RxDrop),
            Test::Rate(100.0, S12, Duration::ZERO),
            Condition::Dropping,
            Severity::Degraded,
            fact("ReceiveDrops", "rx_drop", "/s", "as port_xmit_discards"),
        ),
        "packets are dropped on their way in; compare PFC, priorities and buffers with the plan",
    ),
    shared(hint(
        rule(
            Of::Counter(CounterKind::Timeout),
            Test::Rate(1.0, S12, S30),
            Condition::Lossy,
            Severity::Degraded,
            fact("Timeouts", "timeout", "/s", "NVSentinel: local_ack_timeout_err more than 1/s"),
        ),
        PEER,
    )),
    shared(hint(
        rule(
            Of::Counter(CounterKind::Timeout),
            Test::Rate(100.0, S12, S30),
            Condition::Lossy,
            Severity::Drain,
            fact("ManyTimeouts", "timeout", "/s", "a hundred times what NVSentinel calls degraded"),
        ),
        PEER,
    )),
    shared(hint(
        rule(
            Of::Name("roce_slow_restart"),
            Test::Rate(10.0, S12, S30),
            Condition::Lossy,
            Severity::Degraded,
            fact("SlowRestarts", "roce_slow_restart", "/s", "NVSentinel: more than 10/s"),
        ),
        PEER,
    )),
    shared(hint(
        rule(
            Of::Counter(CounterKind::LossOut),
            Test::Mean(10.0, MINUTE),
            Condition::Lossy,
            Severity::Degraded,
            fact("LossOut", "loss_out", "/s", "as slow restarts, over a minute"),
        ),
        PEER,
    )),
    shared(hint(
        rule(
            Of::Counter(CounterKind::LossBack),
            Test::Mean(10.0, MINUTE),
            Condition::Lossy,
            Severity::Degraded,
            fact("LossBack", "loss_back", "/s", "as slow restarts, over a minute"),
        ),
        PEER,
    )),
    Rule {
        ordered_only: true,
        ..shared(hint(
            rule(
                Of::Counter(CounterKind::Reorder),
                Test::Mean(10.0, MINUTE),
                Condition::Lossy,
                Severity::Degraded,
                fact(
                    "Reorder",
                    "reorder",
                    "/s",
                    "as slow restarts, over a minute; not where routes are adaptive",
                ),
            ),
            PEER,
        ))
    },
    hint(
        rule(
            Of::Counter(CounterKind::HostStall),
            Test::Rate(0.5, S12, Duration::ZERO),
            Condition::HostStalled,
            Severity::Degraded,
            fact(
                "HostStall",
                "host_stall",
                "/s",
                "mlx5: each event is a second with PCIe stalled for more than 30 %",
            ),
        ),
        "the host takes too long; look at the PCIe link's width and speed, at ACS and at the IOMMU",
    ),
    hint(
        rule(
            Of::Counter(CounterKind::CnpIgnored),
            Test::Rate(10.0, S12, Duration::ZERO),
            Condition::RateControlOff,
            Severity::Degraded,
            fact(
                "CnpIgnored",
                "cnp_ignored",
                "/s",
                "mlx5: notifications are ignored where rate control is off",
            ),
        ),
        "notifications of congestion come on a priority whose rate control is off; compare DCQCN with the plan",
    ),
    shared(hint(
        rule(
            Of::Counter(CounterKind::DeadQp),
            Test::Any,
            Condition::QpDied,
            Severity::Note,
            fact("DeadQp", "dead_qp", "", "mlx5: retries exceeded, the job has failed"),
        ),
        "a queue pair gave up: its peer or its path is gone; the job's own end tells which",
    )),
    hint(
        rule(
            Of::Counter(CounterKind::Rnr),
            Test::Rate(1.0, S12, S30),
            Condition::NotReady,
            Severity::Note,
            fact(
                "NotReady",
                "rnr",
                "/s",
                "NVSentinel calls any increase fatal; it is software that posts too slowly",
            ),
        ),
        "a receiver posts too slowly; this is the application's doing",
    ),
];
