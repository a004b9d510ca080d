//! The status of a switch: what the fabric document says of it, what is wrong with what is said, and what is heard of it.

use controller_core::SwitchObserved;
use controller_switch::cluster::{Cluster, Finding, Seat, Seen};
use proto_model::SwitchName;
use proto_wire::{convert::time_to_wire, v1};

use super::{board::Board, ports::PortFindings, rollout};

/// Causes that one answer tells of a switch at most.
const REASONS: usize = 32;

/// Everything that answers say of one switch beside its spec.
pub(crate) fn status_of(
    seat: Option<&Seat>,
    findings: &[Finding],
    observed: &SwitchObserved,
) -> v1::SwitchStatus {
    v1::SwitchStatus {
        role: seat.map(|seat| seat.role.to_string()).unwrap_or_default(),
        rails: seat.map(|seat| seat.rails.clone()).unwrap_or_default(),
        pod: seat.map(|seat| seat.pod.clone()).unwrap_or_default(),
        plane: seat.map(|seat| seat.plane).unwrap_or_default(),
        connected: observed.connected,
        last_seen: observed.last_seen.map(time_to_wire),
        nos_version: observed.nos_version.clone(),
        agent_version: observed.agent_version.clone(),
        configuration: rollout::configuration(observed.state, observed.standing).into(),
        generation: observed.generation,
        observed_number: observed.number,
        reasons: findings.iter().take(REASONS).map(reason).collect(),
        ..v1::SwitchStatus::default()
    }
}

/// Who a port says is at its other end.
fn seen(port: &v1::SwitchPortStatus) -> Seen<'_> {
    Seen { port: &port.name, device: &port.neighbor, device_port: &port.neighbor_port }
}

pub(crate) fn reason(finding: &Finding) -> v1::Reason {
    v1::Reason {
        code: finding.problem.code().to_string(),
        message: finding.problem.to_string(),
        scope: finding.at.clone(),
        ..v1::Reason::default()
    }
}

/// Adds the status to each switch; `observed` are of the same order.
pub(crate) fn fill(
    cluster: &Cluster<'_>,
    switches: &mut [v1::Switch],
    observed: &[SwitchObserved],
    board: &Board,
    counted: &PortFindings,
) {
    for (switch, observed) in switches.iter_mut().zip(observed) {
        let name = switch.metadata.as_ref().map(|metadata| metadata.name.as_str()).unwrap_or_default();
        let (seat, mut findings) = (cluster.seat(name), cluster.findings(name));
        // What happens now comes before what is wrong with a document.
        findings.splice(0..0, counted.findings.get(name).into_iter().flatten().cloned());
        let shown = SwitchName::new(name).ok().and_then(|name| board.shown(&name));
        if let Some(shown) = &shown {
            findings.extend(cluster.miscabled(name, &shown.ports.iter().map(seen).collect::<Vec<_>>()));
        }
        let mut status = status_of(seat.as_ref(), &findings, observed);
        if let Some(shown) = shown {
            let differences = shown.verdict.map(|verdict| rollout::differences(&verdict));
            (status.differences, status.differences_total) = differences.unwrap_or_default();
            status.ports = shown.ports.to_vec();
        }
        switch.status = Some(status);
    }
}

#[cfg(test)]
mod tests {
    use controller_switch::{cluster::Problem, model::Role};
    use proto_model::Timestamp;

    use super::*;

    #[test]
    fn a_status_joins_the_fabric_what_is_wrong_and_what_is_heard() {
        let seat = Seat { role: Role::Spine(2), rails: vec![0, 1], pod: String::new(), plane: 1 };
        let observed = SwitchObserved {
            connected: true,
            last_seen: Some(Timestamp(7000)),
            nos_version: "202505".into(),
            agent_version: "0.3.0".into(),
            ..SwitchObserved::default()
        };
        let status = status_of(Some(&seat), &[], &observed);
        assert_eq!(
            (status.role.as_str(), &status.rails[..], status.plane),
            ("spine of tier 2", &[0, 1][..], 1)
        );
        assert_eq!((status.connected, status.last_seen.unwrap().seconds), (true, 7));
        assert_eq!((status.nos_version.as_str(), status.agent_version.as_str()), ("202505", "0.3.0"));
        let finding = Finding { at: "switch/leaf0".into(), problem: Problem::NotInFabric };
        let many = vec![finding; REASONS + 1];
        let status = status_of(None, &many, &SwitchObserved::default());
        assert_eq!((status.role.as_str(), status.reasons.len()), ("", REASONS));
        assert_eq!(status.reasons[0].code, "SwitchNotInFabric");
        assert_eq!(status.reasons[0].scope, "switch/leaf0");
    }
}
