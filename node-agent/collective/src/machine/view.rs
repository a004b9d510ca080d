//! How the rails stand, for those who watch.

use crate::error::RailCause;
use crate::header::Kind;
use crate::link::State;
use crate::machine::Machine;
use crate::units::{Node, Rail, Time};

/// A drained rail is left by its peers when nothing has come over it for this long.
const LEFT_AFTER: Time = Time::from_millis(20);

/// How a rail, or a link of it, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RailState {
    /// Connected and proved: it carries data.
    Up,
    /// Connected again, and being proved.
    Proving,
    /// To be left, and still carries something; or it must go on because no other rail is up.
    Draining,
    /// Left: nothing is on its way in either direction, and the peers know.
    Drained,
    /// Not connected, on this link or on all links of the rail.
    Down,
}

impl RailState {
    /// The name as commands and files write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RailState::Up => "up",
            RailState::Proving => "proving",
            RailState::Draining => "draining",
            RailState::Drained => "drained",
            RailState::Down => "down",
        }
    }
}

/// One link as seen from here.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkView {
    /// The node at the other end of the link.
    pub peer: Node,
    /// How the link stands.
    pub state: RailState,
    /// Since when: the machine's time.
    pub since: Time,
    /// How often it was lost.
    pub flaps: u32,
    /// Why it was lost, while it is.
    pub cause: Option<RailCause>,
    /// Measured rate in bytes per second, if it was measured lately.
    pub rate: Option<f64>,
    /// Bytes that were sent and are not acknowledged.
    pub outstanding: u64,
}

/// One rail of this node.
#[derive(Debug, Clone, PartialEq)]
pub struct RailView {
    /// Number of the rail.
    pub rail: Rail,
    /// The best that any link of it is; drained only when all are left or down.
    pub state: RailState,
    /// Number of times that a link of the rail was lost.
    pub flaps: u32,
    /// Sum of the measured rates of its links, in bytes per second.
    pub rate: f64,
    /// The rail's links, by node.
    pub links: Vec<LinkView>,
}

impl Machine {
    /// How all rails of this node stand.
    #[must_use]
    pub fn rails(&self, now: Time) -> Vec<RailView> {
        (0..self.job.config.rails as Rail).map(|rail| self.rail_view(rail, now)).collect()
    }

    fn rail_view(&self, rail: Rail, now: Time) -> RailView {
        let mut peers: Vec<Node> = self.job.layout.peers().collect();
        peers.sort_unstable();
        let links: Vec<LinkView> = peers.into_iter().map(|peer| self.link_view(rail, peer, now)).collect();
        let least = links.iter().map(|l| l.state).min().unwrap_or(RailState::Up);
        let drained = self.rails.drains[usize::from(rail)].0;
        let state = match least {
            // Links that are left because of their peers leave the rail itself in use.
            RailState::Drained | RailState::Draining if !drained => RailState::Up,
            RailState::Down if drained => RailState::Drained,
            other => other,
        };
        let flaps = links.iter().map(|l| l.flaps).sum();
        let rate = links.iter().filter_map(|l| l.rate).sum();
        RailView { rail, state, flaps, rate, links }
    }

    fn link_view(&self, rail: Rail, peer: Node, now: Time) -> LinkView {
        let link = self.rails.links.get(rail, peer);
        let state = match link.state() {
            State::Down => RailState::Down,
            State::Proving => RailState::Proving,
            State::Up if !link.is_drained() => RailState::Up,
            State::Up => {
                let about = |kind: Kind| matches!(kind, Kind::Drain { rail: about, .. } if about == rail);
                let notified = !self.peers[usize::from(peer)].control.iter().any(|h| about(h.kind))
                    && !self.flights.all.values().any(|f| f.peer == peer && about(f.header.kind));
                let needed = self.rails.links.up(peer).any(|r| r == rail);
                let quiet = now.saturating_sub(link.last_data) > LEFT_AFTER && link.outstanding() == 0;
                if notified && quiet && !needed { RailState::Drained } else { RailState::Draining }
            }
        };
        LinkView {
            peer,
            state,
            since: link.since,
            flaps: link.flaps,
            cause: link.cause.clone(),
            rate: link.known_rate(now),
            outstanding: link.outstanding(),
        }
    }
}
