//! Controllers as processes: their start, who leads, what standbys keep warm, and their calls to etcd.
//!
//! Who leads is decided by `controller_election::lead`, what a standby knows by `controller_election::mirror`; here is what
//! carries their questions to the model of etcd, loses them, delays them and answers them.

use controller_core::{Key, State};
use controller_election::{
    lead::{Action, Candidate, LeaderReport},
    mirror::{Mirror, Need},
};

use crate::{
    calls::{Call, Outcome},
    controller::{Controller, core_config},
    etcd::{self, LEASE_MS, Rows},
    plant::Bug,
    world::{Event, START_MS, World},
};

/// How often a leader renews its lease, and a standby looks around.
const CHECK_MS: u64 = 4000;

impl World {
    /// The controller that holds the leader key, if it has read what is stored and lives.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let key = self.etcd.leader?;
        let this = &self.controllers[key.holder];
        (this.state.is_some() && this.epoch == key.created).then_some(key.holder)
    }

    /// The living controller of a slot.
    #[must_use]
    pub fn living(&self, slot: usize) -> Option<usize> {
        self.controllers.iter().rposition(|this| this.slot == slot && this.alive)
    }

    /// A controller's process starts.
    pub fn controller_start(&mut self, slot: usize) {
        if self.living(slot).is_some() {
            return;
        }
        let (candidate, ask) = Candidate::begin();
        let controller = self.controllers.len();
        let skewed = self.skewed && !self.calm && self.rng.chance(500);
        let offset = if skewed { self.rng.range(0..7_200_000) } else { 3_600_000 };
        let rate = if skewed { self.rng.range(900..1101) } else { 1000 };
        self.controllers.push(Controller::new(slot, candidate, (offset, rate, self.now)));
        self.notify(|| format!("controller {controller} starts in place {slot}"));
        self.follow_up(controller, Need::List);
        self.ask(controller, ask);
        self.after(CHECK_MS, Event::LeaderCheck(controller));
    }

    /// Does what the candidate wants.
    fn ask(&mut self, controller: usize, action: Action) {
        let call = match action {
            Action::Read => Call::Read,
            Action::Remove(epoch) => Call::Remove(epoch),
            Action::Claim => Call::Claim,
            Action::Follow(epoch) => {
                self.controllers[controller].asked = None;
                self.controllers[controller].follows = epoch;
                return;
            }
            Action::Lead(epoch) => {
                self.controllers[controller].asked = None;
                return self.won(controller, epoch);
            }
        };
        let number = self.call(controller, call);
        self.controllers[controller].asked = Some(number);
    }

    /// A candidate gets an answer or a message.
    pub fn candidate(&mut self, controller: usize, report: LeaderReport) {
        if self.controllers[controller].alive {
            let ask = self.controllers[controller].candidate.step(report);
            self.ask(controller, ask);
        }
    }

    /// Evidence that a leader is gone reaches a standby; it may be wrong.
    pub fn evidence(&mut self, controller: usize, epoch: u64) {
        let this = &self.controllers[controller];
        if this.alive && this.state.is_none() && this.follows == epoch && this.asked.is_none() {
            self.candidate(controller, LeaderReport::Gone(epoch));
        }
    }

    /// All standbys get evidence against a leader, each in its time.
    pub fn raise_evidence(&mut self, epoch: u64, within: u64) {
        if self.bug(Bug::NoEvidence) {
            return;
        }
        for controller in 0..self.controllers.len() {
            if self.controllers[controller].alive && self.controllers[controller].state.is_none() {
                let wait = self.rng.range(1..within);
                self.after(wait, Event::Evidence(controller, epoch));
            }
        }
    }

    /// The leader key is this controller's; it leads once it knows all that was stored by then.
    fn won(&mut self, controller: usize, epoch: u64) {
        let this = &mut self.controllers[controller];
        if this.state.is_some() && this.epoch == epoch {
            return;
        }
        this.won = Some(epoch);
        let (watches, lists) = (this.watch.is_some(), this.listing.is_some());
        if !self.takes_over(controller) && !watches && !lists {
            let need = self.controllers[controller].mirror.broken();
            self.follow_up(controller, need);
        }
    }

    /// Begins to lead if all is known.
    fn takes_over(&mut self, controller: usize) -> bool {
        let this = &self.controllers[controller];
        let Some(epoch) = this.won.filter(|_| this.alive) else { return false };
        let behind = this.mirror.at().is_none_or(|at| at < epoch);
        if behind && !(self.bug(Bug::LeadBehind) && this.mirror.at().is_some()) {
            return false;
        }
        let this = &mut self.controllers[controller];
        let mirror = std::mem::take(&mut this.mirror);
        (this.won, this.watch, this.epoch) = (None, None, epoch);
        if self.etcd.leads(epoch) {
            self.check_copy(controller, mirror.rows());
        }
        let mut stored = etcd::stored(mirror.rows());
        self.spoil_loaded(&mut stored);
        self.notify(|| {
            format!("controller {controller} leads with epoch {epoch}, {} jobs", stored.jobs.len())
        });
        match State::load(core_config(&self.config), epoch, self.time_of(controller), stored) {
            Ok(state) => {
                self.check_loaded(controller, &state);
                self.controllers[controller].state = Some(Box::new(state));
                self.report.take_overs += 1;
                self.arm(controller);
            }
            Err(error) => self.violated(format!("a new leader cannot read the store: {error}")),
        }
        true
    }

    /// A controller cannot know what became of its last write: it ends its epoch, and reads everything anew.
    pub fn doubt(&mut self, controller: usize) {
        self.stop_serving(controller);
        let keeps = self.bug(Bug::KeepEpochInDoubt);
        let this = &mut self.controllers[controller];
        this.mirror = Mirror::default();
        if keeps {
            this.won = Some(this.epoch);
            return self.follow_up(controller, Need::List);
        }
        self.candidate(controller, LeaderReport::Doubt);
    }

    /// Keeps a standby's copy fresh.
    fn follow_up(&mut self, controller: usize, need: Need) {
        match need {
            Need::Nothing => {}
            Need::List => {
                self.controllers[controller].watch = None;
                let number = self.call(controller, Call::List);
                self.controllers[controller].listing = Some(number);
            }
            Need::Watch(from) => {
                self.controllers[controller].watch = Some(from - 1);
                self.schedule_watch(controller);
            }
        }
    }

    fn schedule_watch(&mut self, controller: usize) {
        let this = &mut self.controllers[controller];
        if !std::mem::replace(&mut this.watch_due, true) {
            let wait =
                if self.now < this.lag_until { this.lag_until - self.now } else { self.rng.range(1..4) };
            self.after(wait, Event::Watch(controller));
        }
    }

    /// Something was written: whoever watches gets the event.
    pub(crate) fn wake_watchers(&mut self) {
        for controller in self.controllers.len().saturating_sub(8)..self.controllers.len() {
            if self.controllers[controller].watch.is_some() {
                self.schedule_watch(controller);
            }
        }
    }

    /// A standby's watch breaks: it gets no events for a while, then looks for what it missed.
    pub fn break_watch(&mut self, controller: usize, lag: u64) {
        if self.controllers[controller].watch.is_some() {
            self.controllers[controller].lag_until = self.now + lag;
        }
    }

    /// A standby's watch delivers what is new.
    pub fn watch_delivers(&mut self, controller: usize) {
        let skips = self.bug(Bug::ResumeTooFar);
        let this = &mut self.controllers[controller];
        this.watch_due = false;
        let Some(after) = this.watch.filter(|_| this.alive) else { return };
        if self.now < this.lag_until.max(this.cut_until) {
            this.watch_due = true;
            if skips {
                this.watch = Some(after + 1);
            }
            let at = this.lag_until.max(this.cut_until) + 1;
            return self.at(at, Event::Watch(controller));
        }
        let newest = self.etcd.revision;
        let no_deletes = self.bug(Bug::DropDeletes);
        let ignores = self.bug(Bug::IgnoreCompaction);
        let this = &mut self.controllers[controller];
        let Some(changes) = self.etcd.since(after) else {
            self.notify(|| format!("the watch of controller {controller} is compacted"));
            if ignores {
                let this = &mut self.controllers[controller];
                this.mirror.progressed(newest);
                this.watch = Some(newest);
                self.takes_over(controller);
                return;
            }
            let need = self.controllers[controller].mirror.compacted();
            return self.follow_up(controller, need);
        };
        for (revision, writes) in changes {
            let rows = writes
                .iter()
                .filter(|(_, write)| !(no_deletes && write.is_delete()))
                .map(|(key, write)| (key.clone(), (!write.is_delete()).then(|| write.clone())));
            this.mirror.changed(revision, rows);
        }
        this.watch = Some(newest);
        self.takes_over(controller);
    }

    /// A leader renews its lease and asks whether it still leads; a standby looks whether the leader key is still the same.
    pub fn check(&mut self, controller: usize) {
        let this = &self.controllers[controller];
        if !this.alive {
            return;
        }
        let reachable = self.now >= this.cut_until && self.now >= self.etcd.down_until;
        let (leads, asks, won) = (this.state.is_some(), this.asked.is_some(), this.won.is_some());
        self.after(CHECK_MS, Event::LeaderCheck(controller));
        let turn = self.rng.chance(200);
        if leads && reachable {
            if !self.etcd.leads(self.controllers[controller].epoch) && !self.bug(Bug::NeverAsk) {
                self.notify(|| format!("controller {controller} finds that it leads no more"));
                return self.controller_ends(controller);
            }
            if let Some(until) = self.etcd.leases.get_mut(&controller) {
                *until = self.now + LEASE_MS;
            }
            if self.etcd.kept() > 24 && !self.bug(Bug::NeverCompact) {
                let keep = self.etcd.revision - 8;
                self.call(controller, Call::Compact(keep));
            }
        } else if !leads && !asks && !won && turn {
            self.ask(controller, Action::Read);
        }
    }

    /// A lease may have ended.
    pub fn lease_ends(&mut self, controller: usize) {
        let Some(until) = self.etcd.leases.get(&controller).copied() else { return };
        if until > self.now {
            return self.at(until, Event::LeaseEnds(controller));
        }
        self.etcd.leases.remove(&controller);
        if let Some(key) = self.etcd.leader.filter(|key| key.holder == controller) {
            self.notify(|| format!("the lease of controller {controller} has ended"));
            self.raise_evidence(key.created, 50);
        }
    }

    /// An answer of etcd reaches a controller.
    pub fn reported(&mut self, controller: usize, number: u64, outcome: Outcome) {
        let this = &mut self.controllers[controller];
        if !this.alive {
            return;
        }
        if this.commits() == Some(number) {
            return self.committed(controller, &outcome);
        }
        if this.listing == Some(number) {
            this.listing = None;
            return self.listed(controller, outcome);
        }
        if this.asked != Some(number) {
            return;
        }
        this.asked = None;
        let report = match outcome {
            Outcome::Key(key) => {
                LeaderReport::Key(key.map(|(created, holder, _)| (created, self.is_own(controller, holder))))
            }
            Outcome::Removed(done) => LeaderReport::Removed(done),
            Outcome::Claimed(claimed) => LeaderReport::Claimed(claimed),
            Outcome::Unknown if self.bug(Bug::GuessEpoch) => {
                LeaderReport::Claimed(Some(self.etcd.revision + 5))
            }
            _ => LeaderReport::Failed,
        };
        if report == LeaderReport::Failed {
            let wait = self.rng.range(50..400);
            self.controllers[controller].asked = Some(0);
            return self.after(wait, Event::AskAgain(controller));
        }
        self.candidate(controller, report);
        if let Outcome::Key(Some((created, holder, lives))) = outcome {
            // The lease has ended, or the holder was a former life in the same place.
            let dead = !lives
                || (holder != controller
                    && self.controllers[holder].slot == self.controllers[controller].slot);
            if dead && !self.bug(Bug::NoEvidence) {
                self.evidence(controller, created);
            }
        }
    }

    /// What could not be asked is asked again.
    pub fn ask_again(&mut self, controller: usize) {
        self.controllers[controller].asked = None;
        self.candidate(controller, LeaderReport::Failed);
    }

    /// Whether the leader key is this life's own.
    fn is_own(&self, controller: usize, holder: usize) -> bool {
        let same_place = self.controllers[holder].slot == self.controllers[controller].slot;
        holder == controller || (self.bug(Bug::HolderByPlace) && same_place)
    }

    fn listed(&mut self, controller: usize, outcome: Outcome) {
        match outcome {
            Outcome::Rows(revision, rows) => {
                if self.controllers[controller].state.is_some() {
                    return;
                }
                let need = self.controllers[controller].mirror.listed(revision, rows);
                self.follow_up(controller, need);
                if self.controllers[controller].won.is_some() {
                    self.takes_over(controller);
                }
            }
            _ => self.follow_up(controller, Need::List),
        }
    }

    /// A living controller's clock: its own start and pace.
    #[must_use]
    pub fn time_of(&self, controller: usize) -> proto_model::Timestamp {
        let (offset, rate, since) = self.controllers[controller].clock;
        let ran = (self.now - since) * rate / 1000;
        proto_model::Timestamp(since + offset - 3_600_000 + ran)
    }

    /// When a controller's clock shows a time.
    #[must_use]
    pub fn when(&self, controller: usize, time: proto_model::Timestamp) -> u64 {
        let (offset, rate, since) = self.controllers[controller].clock;
        let ahead = time.0.saturating_sub(since + offset - 3_600_000);
        since.max(START_MS) + (ahead * 1000).div_ceil(rate)
    }

    /// A copy that a standby takes over is what is stored.
    fn check_copy(&mut self, controller: usize, copy: &Rows) {
        let wrong: Option<Key> = {
            let mut mine = copy.iter();
            let mut all = self.etcd.rows.iter();
            loop {
                match (mine.next(), all.next()) {
                    (None, None) => break None,
                    (Some((a, (_, at))), Some((b, (_, stored)))) if a == b && at == stored => {}
                    (a, b) => break b.or(a).map(|(key, _)| key.clone()),
                }
            }
        };
        if let Some(key) = wrong {
            self.violated(format!(
                "controller {controller} takes over a copy that differs from the store: {key:?}"
            ));
        }
    }
}
