//! Which BGP sessions a switch on trial has to have.

use proto_model::{BgpState, SwitchName, SwitchSession};

/// Why a session has to be established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was before the trial.
    Before,
    /// The switch at its other end has what it is to have.
    PeerReady,
}

/// The first session that a switch on trial has to have and has not. One that was established before the trial has to be so again, whatever its
/// other end is like. Another one is asked for only where its other end is ready, so that switches which nobody has configured yet, which are out of
/// use or not heard do not hold up the first one: their own trial asks for it later, from the other end.
pub(super) fn missing(
    planned: &[SwitchSession],
    is_ready: impl Fn(&SwitchName) -> bool,
) -> Option<(&SwitchSession, Cause)> {
    let cause = |session: &SwitchSession| {
        if session.before_trial {
            return Some(Cause::Before);
        }
        session.peer.as_ref().is_some_and(&is_ready).then_some(Cause::PeerReady)
    };
    let down = planned.iter().filter(|session| session.state != BgpState::Established);
    down.filter_map(|session| Some((session, cause(session)?))).next()
}

/// The same in words.
pub(super) fn said((session, cause): (&SwitchSession, Cause)) -> String {
    let SwitchSession { port, peer, state, .. } = session;
    let with = peer.as_ref().map(|peer| format!(" with '{peer}'")).unwrap_or_default();
    let why = match cause {
        Cause::Before => "it was established before the trial",
        Cause::PeerReady => "that switch has what it is to have",
    };
    format!("its BGP session{with} on {port} is {state}, and {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> SwitchName {
        SwitchName::new(format!("spine{number}")).unwrap()
    }

    fn session(number: u8, state: BgpState) -> SwitchSession {
        SwitchSession {
            port: format!("Ethernet{number}"),
            peer: Some(peer(number)),
            state,
            before_trial: false,
        }
    }

    #[test]
    fn what_was_established_and_what_has_a_ready_peer_is_asked_for() {
        let states = [BgpState::Established, BgpState::Idle, BgpState::Active];
        let planned: Vec<SwitchSession> = (0..).zip(states).map(|(at, state)| session(at, state)).collect();
        assert_eq!(missing(&planned, |_| false), None);
        let (one, cause) = missing(&planned, |name| *name == peer(2)).unwrap();
        assert_eq!((one.port.as_str(), cause), ("Ethernet2", Cause::PeerReady));
        assert_eq!(
            said((one, cause)),
            "its BGP session with 'spine2' on Ethernet2 is active, and that switch has what it is to have"
        );
        let down = [SwitchSession { before_trial: true, ..session(0, BgpState::Connect) }];
        assert_eq!(missing(&down, |_| false), Some((&down[0], Cause::Before)));
        // One whose other end is no switch of the fabric.
        let border = [SwitchSession { peer: None, ..session(1, BgpState::Idle) }];
        assert_eq!(missing(&border, |_| true), None);
        assert_eq!(missing(&[], |_| true), None);
    }

    /// A trial that is well has every session that it had, and every one to a peer that is ready; and only such a session is ever asked for.
    /// Three sessions, each of which may have been there, may have a ready peer and may be up.
    #[test]
    fn well_is_all_that_was_and_all_that_can_be() {
        let state = |up| if up { BgpState::Established } else { BgpState::Idle };
        for facts in 0_u32..512 {
            let fact = |at: u8, bit: u8| facts >> (3 * at + bit) & 1 == 1;
            let (had, ready, up) = (|at| fact(at, 0), |at| fact(at, 1), |at| fact(at, 2));
            let one = |at| SwitchSession { before_trial: had(at), ..session(at, state(up(at))) };
            let planned: Vec<SwitchSession> = (0..3).map(one).collect();
            let peers: Vec<SwitchName> = (0..3).filter(|at| ready(*at)).map(peer).collect();
            let found = missing(&planned, |name| peers.contains(name));
            let expected = (0..3).find(|at| (had(*at) || ready(*at)) && !up(*at));
            assert_eq!(found.map(|(one, _)| one), expected.map(|at| &planned[usize::from(at)]), "{facts:o}");
        }
    }
}
