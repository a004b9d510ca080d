//! The state machine of one node in one job: posts and frames in, frames and completions out.

mod agree;
mod agreement;
mod burden;
#[cfg(test)]
mod digest;
mod fail;
mod fence;
mod flight;
mod flights;
mod incoming;
mod keep;
mod notification;
mod notify;
mod op;
mod pace;
mod post;
mod posted;
mod receive;
mod report;
mod rest;
mod scratch;
mod ticket;
mod transmit;
mod view;
mod work;

use std::collections::{BTreeMap, VecDeque};

use crate::call::{Call, OpKind};
use crate::error::{ConfigError, Failure, RailCause};
use crate::header::{Header, Key, Kind};
use crate::link::Link;
use crate::memory::Region;
use crate::plan::{Choice, Plan};
use crate::shape::{Config, Layout};
use crate::stripe::Links;
use crate::units::{Node, Rail, Rank, Time};
use agreement::Agreement;
use flights::Flights;
use incoming::{Early, Incoming};
use keep::Keep;
pub use notification::Notification;
use notification::Notifications;
use op::{Member, Op};
use pace::Pace;
use posted::{Gathering, Half, RankState};
use scratch::{Slot, Slots};
pub use ticket::{Landing, Ticket};
pub use view::{LinkView, RailState, RailView};

/// The end of one rank's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The ticket of the call that ended.
    pub ticket: Ticket,
    /// The rank that made it.
    pub rank: Rank,
    /// Success, or why not. After a completion the machine touches the call's buffers no more.
    pub result: Result<(), Failure>,
}

/// A frame to be sent: give it to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The rail to use.
    pub rail: Rail,
    /// The node that gets it.
    pub peer: Node,
    /// The frame's header, with all fields set.
    pub header: Header,
    /// Where its payload lies, if it has any: read it when it goes out, and ask [`Machine::withdrawn`] before.
    pub payload: Option<Region>,
    /// To be handed back by [`Machine::sent`].
    pub token: u64,
}

/// What the transport is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Close this life of a link at once, with all that is queued for it. No answer is needed.
    Close {
        /// Number of the rail that the link is on.
        rail: Rail,
        /// The node at the other end of the link.
        peer: Node,
        /// Which life; if another one is open by now, nothing is to be done.
        generation: u32,
        /// Why the link is given up.
        cause: RailCause,
    },
    /// Try to connect at once, if it is this node that dials.
    Redial {
        /// Number of the rail.
        rail: Rail,
        /// The node to connect to.
        peer: Node,
    },
}

/// What a machine has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations completed (collectives, and messages on either side).
    pub operations: u64,
    /// Data frames handed to rails.
    pub chunks: u64,
    /// Control frames handed to rails.
    pub control: u64,
    /// Data frames that came before their operation was started here.
    pub early: u64,
    /// Frames thrown away because their operation, or their link's life, is over, or because they came twice.
    pub late: u64,
    /// Number of links that were lost.
    pub losses: u64,
    /// Frames that were lost with their link and sent again.
    pub resent: u64,
}

/// What a machine knows of another node.
#[derive(Debug, Clone, Default)]
struct Peer {
    /// Control frames to be sent.
    control: VecDeque<Header>,
    /// Chunks sent ahead, by operation, that the peer has not said to have started.
    ahead: BTreeMap<Key, usize>,
    /// Number of chunks in `ahead`, all operations together.
    ahead_total: usize,
    /// It said that it goes.
    left: bool,
    /// Since when no rail to it is connected, which one went last, and why.
    lost: Option<(Time, Rail, RailCause)>,
    /// The last probe that it answered, and when.
    echoed: (u64, Time),
    /// The newest word on each of its rails that it drains.
    drains: BTreeMap<Rail, u64>,
    notifications: Notifications,
}

/// What a machine is made for: it never changes.
#[derive(Debug, Clone)]
struct Job {
    config: Config,
    layout: Layout,
    /// Digest of what all nodes must share.
    shape: u32,
    /// Chunks that each peer may have staged in one reduction.
    window: usize,
}

/// Which algorithm operations take.
#[derive(Debug, Clone)]
struct Planning {
    agreement: Agreement,
    /// Links came, went, or were drained since the last report.
    rails_changed: bool,
    choices: BTreeMap<(OpKind, u32), Choice>,
}

/// Calls of the local ranks, before their operations begin and after they end.
#[derive(Debug, Clone)]
struct Calls {
    ranks: Vec<RankState>,
    gathering: BTreeMap<u64, Gathering>,
    halves: BTreeMap<Key, Half>,
    pairs: BTreeMap<(Rank, Rank, u32, bool), u64>,
    next_ticket: u64,
    completions: VecDeque<Completion>,
}

/// Operations under way, and what has come for those that are to begin.
#[derive(Debug, Clone, Default)]
struct Work {
    next_start: u64,
    ops: BTreeMap<Key, Op>,
    ages: Vec<Key>,
    early: BTreeMap<Key, Early>,
    /// Chunks that came early for operations that have started since.
    replays: Vec<(Node, Header, Slot)>,
    /// Operations that may be done.
    woken: Vec<Key>,
    last_end: Time,
}

/// Links of all rails to all peers.
#[derive(Debug, Clone)]
struct Rails {
    links: Links,
    pace: Pace,
    incoming: BTreeMap<(Rail, Node), Incoming>,
    /// Frames that go out before all others, each on its link: by (rail, peer, what they are about).
    urgent: BTreeMap<(Rail, Node, (u8, Rail)), Header>,
    commands: VecDeque<Command>,
    /// Number of the last probe.
    probes: u64,
    /// Own rails that are drained, and how often that was changed.
    drains: Vec<(bool, u64)>,
}

/// One node's part in the collectives of a job.
#[derive(Debug, Clone)]
pub struct Machine {
    job: Job,
    planning: Planning,
    calls: Calls,
    work: Work,
    rails: Rails,
    peers: Vec<Peer>,
    slots: Slots,
    flights: Flights,
    keep: Keep,
    /// For local ranks, to be handed out.
    notifications: VecDeque<Notification>,
    failure: Option<Failure>,
    stats: Stats,
    /// A bug that the model is to find.
    #[cfg(test)]
    pub(crate) sabotage: Option<crate::model::Sabotage>,
    /// Plans stay as they are: the model is of what carries frames, not of what they say.
    #[cfg(test)]
    pub(crate) planless: bool,
}

impl Machine {
    /// A machine with all rails down.
    ///
    /// # Errors
    /// A [`ConfigError`] names what cannot work.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let layout = Layout::new(config.node, config.nodes, &config.ranks);
        Ok(Machine {
            planning: Planning {
                agreement: Agreement::new(config.nodes),
                rails_changed: false,
                choices: BTreeMap::new(),
            },
            calls: Calls {
                ranks: layout.local().iter().map(|_| RankState::default()).collect(),
                gathering: BTreeMap::new(),
                halves: BTreeMap::new(),
                pairs: BTreeMap::new(),
                next_ticket: 0,
                completions: VecDeque::new(),
            },
            work: Work::default(),
            rails: Rails {
                links: Links::new(config.nodes, config.rails, config.windows(), config.tuning.rate_noise),
                pace: Pace::default(),
                incoming: BTreeMap::new(),
                urgent: BTreeMap::new(),
                commands: VecDeque::new(),
                probes: 0,
                drains: vec![(false, 0); config.rails],
            },
            peers: (0..config.nodes).map(|_| Peer::default()).collect(),
            slots: Slots::new(&config),
            flights: Flights::default(),
            keep: Keep::new(Slots::keep_region(&config)),
            notifications: VecDeque::new(),
            failure: None,
            stats: Stats::default(),
            #[cfg(test)]
            sabotage: None,
            #[cfg(test)]
            planless: false,
            job: Job { shape: config.shape(), window: config.scratch_layout().window, layout, config },
        })
    }

    /// The configuration that the machine was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.job.config
    }

    /// The rank map, from this node's point of view.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.job.layout
    }

    /// What was done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The newest plan that this node knows; short operations follow it about four later.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.planning.agreement.newest()
    }

    /// The plan to begin with, before the first operation; equal on all nodes. Later ones the nodes agree on themselves.
    pub fn set_plan(&mut self, plan: Plan) {
        self.planning.agreement.begin_with(plan);
    }

    /// The latest choice of an algorithm for each kind of operation and size class: sizes below 2^class bytes, and not below half
    /// of that.
    pub fn choices(&self) -> impl Iterator<Item = (OpKind, u32, &Choice)> {
        self.planning.choices.iter().map(|(&(kind, class), choice)| (kind, class, choice))
    }

    /// The link to `peer` on `rail`; `None` where there is no such link.
    #[must_use]
    pub fn link(&self, rail: Rail, peer: Node) -> Option<&Link> {
        self.rails.links.has(rail, peer).then(|| self.rails.links.get(rail, peer))
    }

    /// Why the communicator failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether nothing is outstanding: no operation, no frame to send, nothing that a peer that can be reached has not
    /// acknowledged. After [`Machine::leave`] or [`Machine::stop`] this says when the rails may be closed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let reachable = |peer: Node| self.rails.links.open(peer).next().is_some();
        let mut peers = (0..).zip(&self.peers);
        let reported = peers.all(|(node, peer)| peer.control.is_empty() || !reachable(node));
        let idle =
            self.work.ops.is_empty() && self.calls.gathering.is_empty() && self.calls.halves.is_empty();
        idle && reported && self.flights.all.values().all(|flight| !reachable(flight.peer))
    }

    /// Says goodbye to all peers: this node makes no further call, and the end of its rails is no failure. Calls that are
    /// outstanding go on.
    pub fn leave(&mut self) {
        if self.failure.is_none() {
            self.report_all(Kind::Bye);
        }
    }

    /// The next completed call.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.calls.completions.pop_front()
    }

    fn control(&self, kind: Kind, key: Key, call: Option<Call>) -> Header {
        Header { call, ..Header::control(kind, key, self.job.config.epoch, self.job.shape) }
    }

    fn report_all(&mut self, kind: Kind) {
        let header = self.control(kind, Key::Link, None);
        for peer in self.job.layout.peers() {
            self.peers[usize::from(peer)].control.push_back(header);
        }
    }

    fn complete(&mut self, member: Member, result: Result<(), Failure>) {
        if let Some(local) = self.job.layout.local_index(member.rank) {
            self.calls.ranks[local].outstanding = self.calls.ranks[local].outstanding.saturating_sub(1);
        }
        self.calls.completions.push_back(Completion { ticket: member.ticket, rank: member.rank, result });
    }
}
