//! Switches at a glance: those that are least well first.

use controller_core::SwitchObserved;
use proto_model::{Reason, ReasonCode};
use proto_wire::v1::{self, switch_status::Configuration};

use super::{board::Inputs, ports::PortFindings, rollout, status};

/// Rows of one answer.
const ROWS: usize = 256;
/// Causes of one row.
const REASONS: usize = 32;

/// How bad a cause is; the worst is the least.
fn rank(code: &ReasonCode) -> u8 {
    match code {
        ReasonCode::SwitchPauseStorm => 0,
        ReasonCode::SwitchNotReady => 1,
        ReasonCode::SwitchWatchdog => 2,
        ReasonCode::SwitchLosslessDrops => 3,
        ReasonCode::SwitchPortFlapping => 4,
        ReasonCode::SwitchPortDamage => 5,
        ReasonCode::SwitchMarksUnanswered | ReasonCode::SwitchNotificationsLost => 6,
        ReasonCode::SwitchDrifted => 7,
        _ => 8,
    }
}

/// A row for each switch, as many as an answer has room for, and how many are left out. `observed` are in the order of the switches.
pub(crate) fn rows(
    inputs: &Inputs,
    observed: &[SwitchObserved],
    shown: &PortFindings,
) -> (Vec<v1::SwitchHealth>, u32) {
    let row = |(switch, observed): (&std::sync::Arc<proto_model::SwitchConfig>, &SwitchObserved)| {
        let name = switch.name.to_string();
        let at = || format!("switch/{name}");
        let mut found: Vec<(u8, v1::Reason)> = Vec::new();
        let mut own = |code: ReasonCode, message: &str| {
            let reason = Reason::new(code.clone(), message.to_owned());
            found.push((rank(&code), v1::Reason { scope: at(), ..(&reason).into() }));
        };
        if observed.last_seen.is_some() && !observed.connected {
            own(ReasonCode::SwitchNotReady, "it is not heard from");
        }
        if rollout::configuration(observed.state, observed.standing) == Configuration::Drifted {
            own(
                ReasonCode::SwitchDrifted,
                "its configuration is not as desired, and no rollout is the cause",
            );
        }
        for finding in shown.findings.get(&name).into_iter().flatten() {
            found.push((rank(&finding.problem.code()), status::reason(finding)));
        }
        found.sort_by_key(|(rank, _)| *rank);
        let worst = found.first().map_or(u8::MAX, |(rank, _)| *rank);
        let (up, all) = shown.up.get(&name).copied().unwrap_or_default();
        let row = v1::SwitchHealth {
            switch: name,
            connected: observed.connected,
            ports_up: number(up),
            ports_total: number(all),
            reasons: found.into_iter().map(|(_, reason)| reason).take(REASONS).collect(),
        };
        (worst, row)
    };
    let mut all: Vec<_> = inputs.switches.iter().zip(observed).map(row).collect();
    all.sort_by(|a, b| (a.0, &a.1.switch).cmp(&(b.0, &b.1.switch)));
    let left_out = number(all.len().saturating_sub(ROWS));
    (all.into_iter().map(|(_, row)| row).take(ROWS).collect(), left_out)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
