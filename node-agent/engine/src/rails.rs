//! Rails as they are reported to the supervisor: drained or used, and how operations are carried out on them.

use node_agent_collective::units::Time;

use crate::control::RailState;

/// What was seen of one rail when it was last looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    pub(crate) drained: bool,
    pub(crate) seen: Option<(RailState, Time)>,
    /// Why a link was lost the last time.
    pub(crate) cause: Option<String>,
}

impl Watch {
    /// Since when the rail is as it is: a link says when it came or went; what a drain is like is known by looking only.
    pub(crate) fn since(&mut self, state: RailState, changed: Time, now: Time) -> Time {
        let since = match self.seen {
            Some((before, since)) if before == state => since,
            _ if matches!(state, RailState::Draining | RailState::Drained) => now,
            _ => changed,
        };
        self.seen = Some((state, since));
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_dated_by_looking_and_everything_else_by_its_links() {
        use RailState::{Down, Drained, Up};
        let at = Time::from_secs;
        let mut watch = Watch::default();
        assert_eq!(watch.since(Up, at(1), at(9)), at(1));
        assert_eq!(watch.since(Up, at(5), at(9)), at(1), "one link of several says nothing of the rail");
        assert_eq!(watch.since(Drained, at(5), at(10)), at(10));
        assert_eq!(watch.since(Drained, at(5), at(11)), at(10));
        assert_eq!(watch.since(Down, at(12), at(13)), at(12));
    }
}
