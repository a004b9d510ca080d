//! One port: its last sample, what it said, and what that shows.

use proto_model::Timestamp;

use crate::{
    backoff::Backoff,
    board::Board,
    condition::{Condition, DetectorResult, Evidence, Fact, Finding, Severity},
    config::Config,
    counter_kind::{CounterKind, PerWord},
    counters::Counters,
    judge::{
        Step,
        flap::{self, Flap},
        priority::{PriorityWindow, Wanted},
        rates::Gauge,
        slow::{Load, Slow},
        storm::Storm,
        swap::Swap,
    },
    sample::Sample,
    trial::Trial,
};

static MARKED: Fact = Fact {
    id: "MarkedAlone",
    what: "packets marked without one notification sent",
    unit: "",
    source: "mlx5: CE above 0 with CNP 0",
    hint: "this end does not notify: turn the notification point on for the lossless priority",
};
/// All that it says itself.
pub(crate) const MARKED_FACT: &Fact = &MARKED;

/// What the samples of one round say, by condition.
pub type Looks = [DetectorResult; Condition::COUNT];

/// Everything that is known of one port.
#[derive(Debug, Clone)]
pub struct Port {
    /// Name of the RDMA device, as it is now.
    pub device: String,
    /// The rail that it serves.
    pub rail: u32,
    /// In Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// Whether its link is up, where that is known.
    pub link: Option<bool>,
    /// Sums since the first sample, by word: they never go back.
    pub totals: PerWord<u64>,
    /// The conditions of the port, and those that hold.
    pub board: Board,
    /// Failures to read it.
    pub backoff: Backoff,
    /// Its rules and detectors, each with its state.
    pub detectors: Detectors,
    /// What the samples since the last round say.
    pub checks: Looks,
    /// Milliseconds and bytes that they cover; 0 if there was none.
    pub covered: (u64, u64),
    counters: Counters,
    has_job: bool,
    trial: Option<Trial>,
}

/// What looks at a port's samples, one by one and over time.
#[derive(Debug, Clone)]
pub struct Detectors {
    /// Detector of cables that lead to another rail.
    pub swap: Swap,
    /// What the port carried in the last samples.
    pub load: Load,
    /// Whether it carries less than its peers.
    pub slow: Slow,
    /// Rules with their state.
    pub gauges: Vec<Gauge>,
    /// Detector of pause storms.
    pub storm: Storm,
    flap: Flap,
    priority: PriorityWindow,
    /// Packets that came marked since a notification was sent.
    marked: u64,
}

impl Detectors {
    fn new(config: &Config) -> Self {
        Self {
            swap: Swap::default(),
            load: Load::default(),
            slow: Slow::default(),
            gauges: Vec::new(),
            storm: Storm::default(),
            flap: Flap::new(&config.limits),
            priority: PriorityWindow::default(),
            marked: 0,
        }
    }

    /// What went before is of another life.
    fn begin(&mut self) {
        self.load.forget();
        self.priority.rest();
        self.flap.forget_state();
        self.marked = 0;
    }
}

impl Port {
    /// One that was never seen.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            device: String::new(),
            rail: 0,
            speed_mbps: 0,
            link: None,
            totals: PerWord::default(),
            board: Board::default(),
            backoff: Backoff::default(),
            detectors: Detectors::new(config),
            checks: [DetectorResult::Unknown; Condition::COUNT],
            covered: (0, 0),
            counters: Counters::default(),
            has_job: false,
            trial: None,
        }
    }

    /// A probe of its path begins: what its counters say from now on belongs to it.
    pub fn probing(&mut self) {
        self.trial = Some(Trial::new(self.totals));
    }

    /// A probe of its path passed; with [`Port::probing`] before it, counters have the last word.
    pub fn probed(&mut self, now: Timestamp) {
        match &mut self.trial {
            Some(trial) => trial.end(),
            None => self.board.probed(now),
        }
    }

    /// What counters say of a probe that passed, when they have said it; it counts where they say nothing against it.
    pub(crate) fn judge_probe(&mut self, now: Timestamp) -> Option<Result<(), CounterKind>> {
        let outcome = self.trial.as_ref()?.outcome(&self.totals)?;
        self.trial = None;
        if outcome.is_ok() {
            self.board.probed(now);
        }
        Some(outcome)
    }

    /// The probe is over without a result.
    pub fn probe_failed(&mut self) {
        self.trial = None;
    }

    /// When it was read last.
    #[must_use]
    pub fn seen_at(&self) -> Timestamp {
        self.counters.seen_at
    }

    /// The link is expected to go down and up until then.
    pub fn excuse(&mut self, until: Timestamp) {
        self.detectors.flap.excuse(until);
    }

    /// Says one more thing of a condition.
    pub fn say(&mut self, condition: Condition, check: DetectorResult) {
        let said = &mut self.checks[condition.index()];
        *said = said.and(check);
    }

    /// Says what a rule or a detector with these words saw. That a condition is over can be said only by the one whose words showed it:
    /// what another counter says is no proof for one that is missing. Where nobody here has these words, each may.
    fn say_as(&mut self, condition: Condition, words: &[&Fact], check: DetectorResult) {
        let held = self.board.get(condition).map(|held| held.evidence.fact.id);
        let is_mine = |id: &str| words.iter().any(|fact| fact.id == id);
        if check != DetectorResult::Good
            || held.is_none_or(|id| is_mine(id) || !self.has_words(condition, id))
        {
            self.say(condition, check);
        }
    }

    /// Whether a rule or a detector of this port can show the condition in these words.
    fn has_words(&self, condition: Condition, id: &str) -> bool {
        let mut rules =
            self.detectors.gauges.iter().map(|gauge| gauge.rule).filter(|rule| rule.condition == condition);
        let mut detectors = flap::FACTS.into_iter().chain([&MARKED]);
        rules.any(|rule| rule.fact.id == id) || detectors.any(|fact| fact.id == id)
    }

    /// Takes one sample. Values beyond the layout, and samples that are not later than the last, are left alone.
    pub fn take(&mut self, sample: &Sample<'_>, wanted: Option<Wanted>, config: &Config) {
        let now = sample.at;
        let elapsed_ms = now.0.saturating_sub(self.counters.seen_at.0);
        let known = self.counters.is_known();
        if known && elapsed_ms == 0 {
            return;
        }
        if self.device != sample.device {
            sample.device.clone_into(&mut self.device);
        }
        (self.rail, self.speed_mbps, self.link) = (sample.rail, sample.speed_mbps, sample.link);
        self.backoff.answered();
        self.say(Condition::Gone, DetectorResult::Good);
        self.say(Condition::Unreadable, DetectorResult::Good);
        self.say(Condition::LinkDown, Flap::state(sample.link));
        let begins = self.counters.begins(sample);
        if begins {
            self.detectors.begin();
        }
        if self.counters.adopt(sample, begins) {
            self.adopt(sample, config);
        }
        self.counters.seen_at = now;
        if begins {
            // Nothing is known of the time between two lives.
            self.detectors.flap.excuse(now.plus(config.limits.life_grace));
            self.counters.remember(sample);
            return;
        }
        self.counters.advance(sample, elapsed_ms, &mut self.totals);
        if let Some(trial) = &mut self.trial {
            trial.check();
        }
        let (deltas, longer) = self.counters.take_deltas();
        let step = Step { layout: sample.layout, deltas: &deltas, longer: &longer, elapsed_ms, now };
        self.judge(&step, wanted, config);
        self.counters.give_deltas(deltas, longer);
    }

    /// Brings the rules into the form of the sample's layout.
    fn adopt(&mut self, sample: &Sample<'_>, config: &Config) {
        let old = std::mem::take(&mut self.detectors.gauges);
        for (rule, test) in &config.rules {
            let Some(mut gauge) = Gauge::new(rule, *test, sample.layout) else { continue };
            if let Some(other) = old.iter().find(|other| std::ptr::eq(other.rule, gauge.rule)) {
                gauge.inherit(other);
            }
            self.detectors.gauges.push(gauge);
        }
    }

    fn judge(&mut self, step: &Step<'_>, wanted: Option<Wanted>, config: &Config) {
        let limits = &config.limits;
        let bytes = self.detectors.load.take(step).unwrap_or(0);
        self.covered = (self.covered.0 + step.elapsed_ms, self.covered.1.saturating_add(bytes));
        let check = self.detectors.flap.check(step, &self.counters.places, self.link, limits);
        self.say_as(Condition::Flapping, &flap::FACTS, check);
        let check = self.detectors.storm.check(step, limits);
        self.say(Condition::Storm, check);
        self.has_job = wanted.is_some();
        match wanted {
            Some(wanted) => {
                let check = self.detectors.priority.check(step, wanted, limits);
                self.say(Condition::WrongPriority, check);
            }
            None => self.detectors.priority.rest(),
        }
        let check = self.marked(step, limits.marked_alone);
        self.say_as(Condition::RateControlOff, &[&MARKED], check);
        for at in 0..self.detectors.gauges.len() {
            let check = self.detectors.gauges[at].check(step);
            let rule = self.detectors.gauges[at].rule;
            // What most rails may share is said when all have been looked at.
            if !rule.shared || !matches!(check, DetectorResult::Bad(_)) {
                self.say_as(rule.condition, &[&rule.fact], check);
            }
        }
    }

    /// Whether its NIC counts that.
    #[must_use]
    pub fn counts(&self, kind: CounterKind) -> bool {
        self.counters.counts(kind)
    }

    /// Whether any job uses it.
    #[must_use]
    pub fn has_job(&self) -> bool {
        self.has_job
    }

    /// Packets that came marked while no notification was sent.
    fn marked(&mut self, step: &Step<'_>, limit: u64) -> DetectorResult {
        // All of them or none: that one is missing does not say that nothing was sent.
        let sum = |word| {
            let mut places = step.layout.places(word).peekable();
            places.peek()?;
            places.try_fold(0_u64, |all, place| Some(all.saturating_add(step.rate_at(place)?)))
        };
        let (Some(marked), Some(sent)) = (sum(CounterKind::EcnSeen), sum(CounterKind::CnpSent)) else {
            return DetectorResult::Unknown;
        };
        if sent > 0 {
            self.detectors.marked = 0;
            return DetectorResult::Good;
        }
        self.detectors.marked = self.detectors.marked.saturating_add(marked);
        if marked > 0 && self.detectors.marked >= limit {
            let (value, limit) = (self.detectors.marked as f64, limit as f64);
            let evidence = Evidence { fact: &MARKED, value, limit, over: std::time::Duration::ZERO };
            return DetectorResult::Bad(Finding { severity: Severity::Degraded, evidence });
        }
        DetectorResult::Unknown
    }
}
