//! Which links are wanted, when to dial next, and how far the wire-up is. No IO.
//!
//! Once a link has been up it is dialed for ever. The pause before an attempt depends on what became of the one before:
//!
//! - no answer at all (a black hole): none, because the attempt itself took [`PATIENCE`]. Each attempt is a connection of its
//!   own, so its first packet is sent again, while the kernel would wait 1, 2, 4, ... seconds before it repeats one;
//! - no way there: doubling up to [`NO_WAY`], because a way may come back without any notice;
//! - refused, or a handshake that failed: doubling up to [`PAUSE`].1, because somebody is there and says no;
//! - the link was up and died: the shortest pause, doubled for each time in a row that it died young ([`YOUNG`]), up to
//!   [`DAMPED`]. It is forgotten once the link has lived for [`SOUND`]. So a rail that went down once is back within a
//!   fraction of a second, and one that comes and goes does not disturb the work on the others more than every ten
//!   seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use node_agent_collective::units::{Node, Rail};

use super::{Missing, Wiring};

/// First and greatest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// Greatest pause while there is no way to the peer.
const NO_WAY: Duration = Duration::from_millis(250);
/// How long an attempt may take to connect; and to authenticate, doubled for each time in a row that this was too short.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// A link that dies before this age flaps.
const YOUNG: Duration = Duration::from_secs(1);
/// A link of this age has not flapped.
const SOUND: Duration = Duration::from_secs(5);
/// Greatest pause of a link that flaps.
const DAMPED: Duration = Duration::from_secs(10);
/// This long after its own port is back a rail is left alone. The other end of the cable may not forward yet, and a question
/// for a hardware address that is lost there is not repeated for a second (`retrans_time_ms` of the kernel's neighbours).
/// A port that was asked how it is can even be up before the bridge at its other end knows of it.
pub const SETTLE: Duration = Duration::from_millis(20);
/// Flaps after which even the return of the own port does not shorten the pause.
const FLAPS: u32 = 2;

/// What is to be dialed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub rail: Rail,
    pub peer: Node,
    pub endpoint: SocketAddr,
    /// Of the link that this attempt becomes.
    pub generation: u32,
    /// How long the attempt may take to authenticate, once connected.
    pub patience: Duration,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// Somebody answered, but it did not become a link.
    Refused,
    /// There is no way to the peer.
    NoWay,
    /// Nobody answered the connection.
    Unanswered,
    /// Connected, but not authenticated in time.
    Slow,
}

#[derive(Debug)]
struct Wanted {
    endpoint: SocketAddr,
    dials: bool,
    /// When to dial; `None` while an attempt runs, while the link is up, or if the peer is the one who dials.
    next: Option<Instant>,
    /// The generation of the latest attempt.
    generation: u32,
    pause: Duration,
    patience: Duration,
    /// Since when the link is up.
    up: Option<Instant>,
    ever_up: bool,
    /// Times in a row that the link died young.
    flaps: u32,
    error: Option<String>,
}

impl Wanted {
    fn damped(&self) -> Duration {
        (PAUSE.0 * (1 << self.flaps.min(16))).min(DAMPED)
    }
}

/// The links that this node is to make by dialing, each with the outcome of its attempts so far.
#[derive(Debug, Default)]
pub struct Dial {
    wanted: BTreeMap<(Rail, Node), Wanted>,
    deadline: Option<Instant>,
    /// Rails whose own port is down: nothing is dialed there.
    dark: BTreeSet<Rail>,
    /// When peers who dial this node are to be shown the way, on rails whose own port came back.
    knocks: BTreeMap<Rail, Instant>,
    /// Links that were up before they were wanted. Their peers may have done their part, and left, by then.
    early: BTreeSet<(Rail, Node)>,
}

impl Dial {
    /// Wants these links; dials those to lower nodes.
    pub fn start(
        &mut self,
        targets: impl Iterator<Item = ((Rail, Node), SocketAddr)>,
        own: Node,
        now: Instant,
        deadline: Instant,
    ) {
        self.deadline = Some(deadline);
        for ((rail, peer), endpoint) in targets {
            let dials = peer < own;
            let fresh = Wanted {
                endpoint,
                dials,
                next: dials.then_some(now),
                generation: 0,
                pause: PAUSE.0,
                patience: PATIENCE,
                up: None,
                ever_up: self.early.contains(&(rail, peer)),
                flaps: 0,
                error: None,
            };
            self.wanted.insert((rail, peer), fresh);
        }
    }

    /// Whether a peer has this address on a rail.
    pub fn knows(&self, rail: Rail, address: IpAddr) -> bool {
        self.wanted.iter().any(|((r, _), w)| *r == rail && w.endpoint.ip() == address)
    }

    /// Takes what is due.
    pub fn due(&mut self, now: Instant) -> Vec<Target> {
        let over = self.deadline.is_some_and(|d| d <= now);
        let mut due = Vec::new();
        for (&(rail, peer), wanted) in &mut self.wanted {
            if !self.dark.contains(&rail) && wanted.next.is_some_and(|next| next <= now) {
                wanted.next = None;
                if !over || wanted.ever_up {
                    wanted.generation = wanted.generation.saturating_add(1);
                    let (endpoint, generation, patience) =
                        (wanted.endpoint, wanted.generation, wanted.patience);
                    due.push(Target { rail, peer, endpoint, generation, patience });
                }
            }
        }
        due
    }

    /// When something is due, or the deadline passes.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let deadline = self.deadline.filter(|&d| d > now && self.wanted.values().any(|w| !w.ever_up));
        let lit = self.wanted.iter().filter(|((rail, _), _)| !self.dark.contains(rail));
        lit.filter_map(|(_, w)| w.next).chain(self.knocks.values().copied()).chain(deadline).min()
    }

    /// Records that an attempt to connect failed, and when the next one is due.
    pub fn failed(&mut self, rail: Rail, peer: Node, miss: Miss, why: &str, now: Instant) {
        let Some(wanted) = self.wanted.get_mut(&(rail, peer)) else { return };
        wanted.error = Some(why.to_owned());
        let most = match miss {
            Miss::Refused => PAUSE.1,
            Miss::NoWay => NO_WAY,
            Miss::Unanswered | Miss::Slow => Duration::ZERO,
        };
        if miss == Miss::Slow {
            wanted.patience = wanted.patience.saturating_mul(2);
        }
        wanted.next = Some(now + wanted.pause.min(most));
        if most > Duration::ZERO {
            wanted.pause = (wanted.pause * 2).min(most);
        }
    }

    /// A link is up.
    pub fn up(&mut self, rail: Rail, peer: Node, now: Instant) {
        if let Some(wanted) = self.wanted.get_mut(&(rail, peer)) {
            (wanted.ever_up, wanted.up, wanted.next, wanted.error) = (true, Some(now), None, None);
            (wanted.pause, wanted.patience) = (PAUSE.0, PATIENCE);
        } else {
            self.early.insert((rail, peer));
        }
    }

    /// A link went down.
    pub fn down(&mut self, rail: Rail, peer: Node, now: Instant) {
        if let Some(wanted) = self.wanted.get_mut(&(rail, peer)) {
            let age = wanted.up.take().map_or(Duration::ZERO, |up| now.saturating_duration_since(up));
            if age < YOUNG {
                wanted.flaps = wanted.flaps.saturating_add(1);
            } else if age >= SOUND {
                wanted.flaps = 0;
            }
            wanted.next = wanted.dials.then_some(now + wanted.damped());
        }
    }

    /// Wants a link that is down now, or once its own port has settled. Says whether an attempt may run that is to be given up
    /// for a new one.
    pub fn hurry(&mut self, rail: Rail, peer: Node, now: Instant) -> bool {
        let Some(wanted) = self.wanted.get_mut(&(rail, peer)).filter(|w| w.dials && w.up.is_none()) else {
            return false;
        };
        let runs = wanted.next.is_none();
        let settled = self.knocks.get(&rail).copied().unwrap_or(now);
        (wanted.next, wanted.pause, wanted.flaps) = (Some(settled), PAUSE.0, 0);
        runs
    }

    /// The own port on a rail is gone: nothing is dialed there until it is back.
    pub fn port_down(&mut self, rail: Rail) {
        self.dark.insert(rail);
        self.knocks.remove(&rail);
    }

    /// The own port on a rail is back: its links are dialed once it has settled, but for those that flap. Gives those whose attempt, if one
    /// runs, is to be given up for a new one.
    pub fn port_up(&mut self, rail: Rail, now: Instant) -> Vec<Node> {
        self.dark.remove(&rail);
        self.knocks.insert(rail, now + SETTLE);
        let mut runs = Vec::new();
        for (&(_, peer), wanted) in self.wanted.range_mut((rail, Node::MIN)..=(rail, Node::MAX)) {
            if !wanted.dials || wanted.up.is_some() || wanted.flaps >= FLAPS {
                continue;
            }
            if wanted.next.is_none() {
                runs.push(peer);
            }
            (wanted.next, wanted.pause) = (Some(now + SETTLE), PAUSE.0);
        }
        runs
    }

    /// Takes who is to be shown the way now: peers who dial this node and are not linked, with their rail.
    pub fn knocks(&mut self, now: Instant) -> Vec<(Rail, IpAddr)> {
        let due: Vec<Rail> =
            self.knocks.iter().filter(|(_, time)| **time <= now).map(|(rail, _)| *rail).collect();
        let mut awaited = Vec::new();
        for rail in due {
            self.knocks.remove(&rail);
            let wanted = self.wanted.range((rail, Node::MIN)..=(rail, Node::MAX));
            let waiting = wanted.filter(|(_, w)| !w.dials && w.up.is_none());
            awaited.extend(waiting.map(|(_, w)| (rail, w.endpoint.ip())));
        }
        awaited
    }

    /// How far the wire-up is.
    pub fn wiring(&self, now: Instant) -> Wiring {
        let Some(deadline) = self.deadline else { return Wiring::NotStarted };
        let missing: Vec<Missing> = self
            .wanted
            .iter()
            .filter(|(_, w)| !w.ever_up)
            .map(|(&(rail, node), w)| (rail, node, w.error.clone()))
            .collect();
        match (missing.is_empty(), now >= deadline) {
            (true, _) => Wiring::Done,
            (false, false) => Wiring::Waiting(missing),
            (false, true) => Wiring::Failed(missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn dial(now: Instant) -> Dial {
        let mut dial = Dial::default();
        let endpoint = SocketAddr::from(([127, 0, 0, 1], 1));
        let targets = [((0, 0), endpoint), ((1, 0), endpoint), ((0, 2), endpoint)];
        dial.start(targets.into_iter(), 1, now, now + MS(60_000));
        dial
    }

    /// Takes the one attempt that is due next on rail 0, at the time when it is.
    fn next(dial: &mut Dial, now: &mut Instant) -> (Duration, u32) {
        let wanted = dial.wanted[&(0, 0)].next.unwrap();
        let pause = wanted - *now;
        *now = wanted;
        let due = dial.due(*now);
        (pause, due.iter().find(|t| t.rail == 0).unwrap().generation)
    }

    #[test]
    fn pauses_double_by_what_failed_and_generations_rise() {
        let start = Instant::now();
        for (miss, pauses) in [
            (Miss::Refused, [25, 50, 100, 200, 400, 800, 1000, 1000]),
            (Miss::NoWay, [25, 50, 100, 200, 250, 250, 250, 250]),
            (Miss::Unanswered, [0; 8]),
            (Miss::Slow, [0; 8]),
        ] {
            let (mut dial, mut now) = (dial(start), start);
            assert_eq!(next(&mut dial, &mut now), (MS(0), 1));
            for (attempts, pause) in (2..).zip(pauses) {
                dial.failed(0, 0, miss, "why", now);
                assert_eq!(next(&mut dial, &mut now), (MS(pause), attempts), "{miss:?}");
            }
            dial.up(0, 0, now);
            let Wiring::Waiting(missing) = dial.wiring(now) else { unreachable!() };
            assert_eq!(missing.iter().map(|m| (m.0, m.1)).collect::<Vec<_>>(), [(0, 2), (1, 0)]);
        }
    }

    #[test]
    fn a_link_that_flaps_is_damped_until_it_has_lived() {
        let start = Instant::now();
        let (mut dial, mut now) = (dial(start), start);
        next(&mut dial, &mut now);
        let mut live = |dial: &mut Dial, ms: u64| {
            dial.up(0, 0, now);
            now += MS(ms);
            dial.down(0, 0, now);
            next(dial, &mut now).0
        };
        assert_eq!(live(&mut dial, 60_000), MS(25), "the first fault of a sound link");
        let pauses: Vec<_> = (0..11).map(|_| live(&mut dial, 900)).collect();
        assert_eq!(pauses[..3], [MS(50), MS(100), MS(200)]);
        assert_eq!(pauses[8..], [DAMPED; 3]);
        assert_eq!(live(&mut dial, 3000), DAMPED, "neither young nor sound");
        assert_eq!(live(&mut dial, 5000), MS(25), "forgotten");
    }

    #[test]
    fn a_deadline_stops_only_what_never_was_up() {
        let start = Instant::now();
        let mut dial = dial(start);
        assert_eq!(dial.due(start).len(), 2);
        dial.up(0, 0, start);
        dial.failed(1, 0, Miss::Refused, "refused", start);
        let late = start + MS(120_000);
        dial.down(0, 0, late);
        assert!(matches!(dial.wiring(late), Wiring::Failed(missing) if missing.len() == 2));
        let due = dial.due(late + MS(25));
        assert_eq!(due.iter().map(|t| (t.rail, t.generation)).collect::<Vec<_>>(), [(0, 2)]);
    }

    #[test]
    fn a_link_that_came_and_went_before_it_was_wanted_is_not_waited_for() {
        let now = Instant::now();
        let mut dial = Dial::default();
        assert!(matches!(dial.wiring(now), Wiring::NotStarted));
        dial.up(0, 2, now);
        dial.down(0, 2, now);
        let endpoint = SocketAddr::from(([127, 0, 0, 1], 1));
        dial.start([((0, 2), endpoint)].into_iter(), 1, now, now + MS(60_000));
        assert!(matches!(dial.wiring(now), Wiring::Done));
        dial.start([((0, 2), endpoint), ((1, 2), endpoint)].into_iter(), 1, now, now + MS(60_000));
        assert!(
            matches!(dial.wiring(now), Wiring::Waiting(missing) if missing.len() == 1 && missing[0].0 == 1)
        );
    }

    #[test]
    fn a_port_that_is_back_is_dialed_once_it_has_settled_unless_it_flaps() {
        let now = Instant::now();
        let mut dial = dial(now);
        assert_eq!(dial.due(now).len(), 2);
        dial.up(0, 0, now);
        dial.up(1, 0, now);
        let down = now + MS(6000);
        dial.port_down(0);
        dial.down(0, 0, down);
        assert!(dial.due(down + MS(60_000)).is_empty() && dial.next(down + MS(60_000)).is_none());
        let back = down + MS(100);
        assert_eq!(dial.port_up(0, back), Vec::<Node>::new());
        assert!(dial.due(back).is_empty() && dial.knocks(back).is_empty());
        assert!(!dial.hurry(0, 0, back), "nor if somebody asks for it");
        assert!(dial.due(back).is_empty());
        assert_eq!(dial.next(back), Some(back + SETTLE));
        assert_eq!(dial.due(back + SETTLE).len(), 1);
        let shown = dial.knocks(back + SETTLE);
        assert_eq!(
            shown,
            [(0, IpAddr::from([127, 0, 0, 1]))],
            "the peer that this node dials waits for no knock"
        );
        assert!(dial.knocks(back + SETTLE).is_empty(), "once");
        // An attempt runs: the next return gives it up for a new one. A port that goes again shows nobody the way.
        assert_eq!(dial.port_up(0, down + MS(200)), [0]);
        dial.port_down(0);
        assert!(dial.knocks(down + MS(300)).is_empty());
        for _ in 0..FLAPS {
            dial.up(0, 0, down);
            dial.down(0, 0, down);
        }
        dial.port_up(0, down);
        assert!(dial.due(down + SETTLE).is_empty(), "damped");
        assert_eq!(dial.knocks(down + SETTLE).len(), 1);
        assert!(!dial.hurry(0, 0, down), "no attempt runs");
        assert_eq!(dial.due(down).len(), 1, "asked for");
        assert!(dial.hurry(0, 0, down), "an attempt runs");
        assert!(!dial.hurry(0, 2, down), "the peer dials");
    }
}
