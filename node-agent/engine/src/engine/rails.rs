//! Rails as the supervisor sees and drains them.

use node_agent_collective as collective;
use node_agent_collective::link::Link;
use node_agent_collective::plan::Choice;
use node_agent_collective::units::{Node, Rail, Time};
use node_agent_engine_transport::Transport;
use tracing::info;

use crate::control::{ChoiceView, RailState, RailView, Rails, Reply};
use crate::engine::Engine;
use crate::index::peers;

/// Most kinds and sizes of operations that are reported.
const CHOICES: usize = 64;
/// Most considerations of one choice that are reported.
const REASONS: usize = 8;

fn state(state: collective::RailState) -> RailState {
    match state {
        collective::RailState::Up => RailState::Up,
        collective::RailState::Draining => RailState::Draining,
        collective::RailState::Drained => RailState::Drained,
        collective::RailState::Proving => RailState::Proving,
        collective::RailState::Down => RailState::Down,
    }
}

impl Engine {
    /// Moves work off these rails, or back on them.
    pub(crate) fn drain_rails(&mut self, numbers: &[u16], on: bool) -> Reply {
        let ordered = self.config.ordered_rails();
        let index = |number: &u16| ordered.iter().position(|rail| rail.rail == *number);
        if let Some(unknown) = numbers.iter().find(|number| index(number).is_none()) {
            let known: Vec<String> = ordered.iter().map(|rail| rail.rail.to_string()).collect();
            let error = format!("drain: this engine has no rail {unknown}; it has {}", known.join(", "));
            return Reply::Error { error };
        }
        for at in numbers.iter().filter_map(index) {
            if std::mem::replace(&mut self.watches[at].drained, on) == on {
                continue;
            }
            self.machine.drain(at as Rail, on);
            info!(job = self.config.job, rail = ordered[at].rail, on, "a rail is drained, or used again");
        }
        Reply::OK
    }

    /// How all rails are.
    pub(crate) fn see_rails(&mut self) -> Rails {
        let now = self.clock.now();
        let ordered = self.config.ordered_rails();
        // Without a rail of its own, a job on one server may still count one.
        let views = self.machine.rails(now).into_iter().zip(ordered);
        let rails = views.map(|(view, rail)| self.see_rail(rail.rail, &view, now)).collect();
        let choices = self.machine.choices().take(CHOICES);
        let choices = choices.map(|(kind, class, choice)| choice_view(kind.name(), class, choice)).collect();
        Rails { rails, choices }
    }

    fn see_rail(&mut self, number: u16, view: &collective::RailView, now: Time) -> RailView {
        let (tx_bytes, rx_bytes) = self.moved(view.rail);
        let lost = view.links.iter().filter(|link| link.cause.is_some()).max_by_key(|link| link.since);
        let changed = view.links.iter().map(|link| link.since).max().unwrap_or_default();
        let up = view.links.iter().filter(|link| {
            !matches!(link.state, collective::RailState::Down | collective::RailState::Proving)
        });
        let (state, watch) = (state(view.state), &mut self.watches[usize::from(view.rail)]);
        let since = watch.since(state, changed, now);
        if let Some(cause) = lost.and_then(|link| link.cause.as_ref()) {
            watch.cause = Some(cause.to_string());
        }
        let number_of = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        RailView {
            rail: number,
            state,
            for_ms: u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX),
            tx_bytes,
            rx_bytes,
            flaps: view.flaps,
            cause: watch.cause.clone(),
            peers: number_of(view.links.len()),
            peers_up: number_of(up.count()),
        }
    }

    fn moved(&self, rail: Rail) -> (u64, u64) {
        let each =
            peers(self.config.node, self.config.nodes.len()).map(|peer| self.rails.counters(rail, peer));
        each.fold((0, 0), |(tx, rx), link| (tx + link.tx_bytes, rx + link.rx_bytes))
    }

    /// Whether some rail that is not drained reaches the peer.
    fn is_kept(&self, peer: Node) -> bool {
        let kept = |link: &Link| link.is_up() && !link.is_drained();
        (0..self.watches.len()).any(|rail| self.machine.link(rail as Rail, peer).is_some_and(kept))
    }

    /// Whether the peer can be worked with although these links of all are missing: each is drained at one end, and others
    /// are up.
    pub(crate) fn can_do_without(&self, missing: &[(Rail, Node, Option<String>)]) -> bool {
        let drained = |(rail, peer, _): &(Rail, Node, Option<String>)| {
            self.machine.link(*rail, *peer).is_some_and(Link::is_drained) && self.is_kept(*peer)
        };
        !missing.is_empty() && missing.iter().all(drained)
    }
}

fn choice_view(operation: &str, class: u32, choice: &Choice) -> ChoiceView {
    let how = if choice.forced { "forced by the configuration" } else { "predicted to be the fastest" };
    let plan = format!("{how}, by plan {}", choice.plan);
    let candidates = choice.candidates.iter().map(ToString::to_string);
    ChoiceView {
        operation: operation.to_owned(),
        bytes: 1_u64.checked_shl(class).unwrap_or(u64::MAX),
        algorithm: choice.algorithm.to_string(),
        reasons: std::iter::once(plan).chain(candidates).take(REASONS).collect(),
    }
}
