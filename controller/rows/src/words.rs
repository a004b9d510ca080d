//! What both directions share: enumerations of the domain beside their numbers in rows.

use proto_model::{IsolationFeature, ProbeOutcome, QosState, RailProtection, Timestamp};

use crate::v1::{engine_options::Protection, isolation_feature::Kind, nic_probe::Outcome, qos_port::State};

/// Seconds of the longest `google.protobuf.Duration`, about 10,000 years.
pub(crate) const MAX_SECONDS: i64 = 315_576_000_000;

/// Seconds of the last `google.protobuf.Timestamp`, 9999-12-31T23:59:59Z: a later one has no text.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// The last time that a row can carry.
pub(crate) const LAST_TIME: Timestamp = Timestamp(LAST_SECOND * 1000 + 999);

/// Every feature with its number.
pub(crate) const KINDS: [(IsolationFeature, Kind); 15] = [
    (IsolationFeature::UidPerAttempt, Kind::UidPerAttempt),
    (IsolationFeature::UserNamespace, Kind::UserNamespace),
    (IsolationFeature::PidNamespace, Kind::PidNamespace),
    (IsolationFeature::MountNamespace, Kind::MountNamespace),
    (IsolationFeature::IpcNamespace, Kind::IpcNamespace),
    (IsolationFeature::NetworkNamespace, Kind::NetworkNamespace),
    (IsolationFeature::PrivateTmp, Kind::PrivateTmp),
    (IsolationFeature::HiddenProc, Kind::HiddenProc),
    (IsolationFeature::PrivateDev, Kind::PrivateDev),
    (IsolationFeature::NoNewPrivileges, Kind::NoNewPrivileges),
    (IsolationFeature::Seccomp, Kind::Seccomp),
    (IsolationFeature::CgroupMemory, Kind::CgroupMemory),
    (IsolationFeature::CgroupPids, Kind::CgroupPids),
    (IsolationFeature::CgroupCpuset, Kind::CgroupCpuset),
    (IsolationFeature::CgroupDevices, Kind::CgroupDevices),
];

/// What is done to what goes over rails, with its number.
pub(crate) const PROTECTIONS: [(RailProtection, Protection); 3] = [
    (RailProtection::None, Protection::None),
    (RailProtection::Integrity, Protection::Integrity),
    (RailProtection::Encrypted, Protection::Encrypted),
];

/// How a probe ends, with its number.
pub(crate) const OUTCOMES: [(ProbeOutcome, Outcome); 3] = [
    (ProbeOutcome::Passed, Outcome::Passed),
    (ProbeOutcome::Failed, Outcome::Failed),
    (ProbeOutcome::Unable, Outcome::Unable),
];

/// How a NIC stands to its profile, with its number.
pub(crate) const QOS_STATES: [(QosState, State); 5] = [
    (QosState::Held, State::Held),
    (QosState::Trial, State::Trial),
    (QosState::Kept, State::Kept),
    (QosState::Differs, State::Differs),
    (QosState::Failed, State::Failed),
];

/// What a webhook's secret begins with, as the Standard Webhooks specification has it.
pub(crate) const SECRET: &str = "whsec_";
