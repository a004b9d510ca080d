//! The server: time goes on, counters move, an agent looks.

use std::sync::Arc;

use proto_model::Timestamp;
use proto_random::Random;

use super::{
    faults::{Fault, Kind},
    nic::{Nic, Places, full_layout},
    noise::Weather,
    traffic::{Job, Jobs, LINE, LOSSLESS, RAILS},
};
use crate::{
    board::ActiveCondition,
    condition::Condition,
    config::Config,
    layout::Layout,
    sample::{PortKey, ReadFailure, Sample},
    state::State,
    step::{Event, Verdict, step},
    vendor::Vendor,
};

/// When virtual time begins.
const BEGIN: u64 = 1_767_225_600_000;
/// Speed of each rail, in Mbit/s.
const SPEED: u64 = 400_000;

/// A server and its agent.
#[derive(Debug)]
pub struct Server {
    pub now: u64,
    pub nics: Vec<Nic>,
    pub jobs: Jobs,
    pub fault: Option<Active>,
    /// Number of samples of ports so far.
    pub samples: u64,
    places: Places,
    layout: Arc<Layout>,
    weather: Weather,
    random: Random,
    state: State,
    config: Config,
    /// No gap, no reload and no restart while this holds: a fault is to be found.
    pub calm: bool,
}

impl Server {
    pub fn new(seed: u64, vendor: Vendor) -> Self {
        let mut random = Random::new(seed);
        let layout = Arc::new(full_layout(vendor));
        let places = Places::new(&layout);
        let nics = (0..RAILS).map(|rail| Nic::new(rail, &layout, &mut random)).collect();
        let config = Config::default();
        Self {
            now: BEGIN,
            nics,
            jobs: Jobs::default(),
            fault: None,
            samples: 0,
            weather: Weather::new(&places, RAILS as usize),
            places,
            layout,
            random,
            state: State::new(config.clone()),
            config,
            calm: false,
        }
    }

    /// Only this job, from now on.
    pub fn run(&mut self, job: Job) {
        self.jobs.running = vec![job];
        let uses = self.jobs.uses();
        step(&mut self.state, &Event::Jobs(uses), Timestamp(self.now));
    }

    /// Puts a fault in, now.
    pub fn put(&mut self, fault: Fault) {
        self.fault = Some(Active { fault, began: self.now, downs: 0, ups: 0 });
    }

    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    pub fn is_unfit(&self, rail: u32) -> bool {
        self.nics.iter().any(|nic| nic.rail == rail && self.state.is_unfit(&nic.key))
    }

    /// One second, more or less; what the agent says at its end.
    pub fn second(&mut self) -> Vec<Verdict> {
        let from = self.now;
        self.now += self.random.within(980, 1020);
        let now = self.now;
        self.weather.turn(now, &mut self.random);
        let (ended, changed) = self.jobs.turn(now, &mut self.random);
        for job in ended {
            if self.random.once_in(5.0) {
                self.weather.kill(job.of.rails.iter().copied().collect(), now, &mut self.random);
            }
        }
        for at in 0..self.nics.len() {
            self.carry(at, from);
        }
        let mut verdicts = Vec::new();
        if changed {
            let jobs = Event::Jobs(self.jobs.uses());
            verdicts = step(&mut self.state, &jobs, Timestamp(now));
        }
        if !self.calm {
            self.trouble(now);
        }
        if now >= self.weather.gap_until {
            verdicts.extend(self.check());
        }
        verdicts
    }

    fn trouble(&mut self, now: u64) {
        const HOUR: f64 = 3600.0;
        for nic in &mut self.nics {
            Weather::handle(nic, now, &mut self.random);
        }
        if now >= self.weather.gap_until && self.random.once_in(2.0 * HOUR) {
            self.weather.gap_until = now + self.random.within(2_000, 60_000);
        }
        if self.random.once_in(24.0 * HOUR) {
            let kept: Vec<(PortKey, Condition, ActiveCondition)> = self.state.kept();
            self.state = State::new(self.config.clone());
            self.state.restore(kept, Timestamp(now));
            step(&mut self.state, &Event::Jobs(self.jobs.uses()), Timestamp(now));
        }
    }

    /// Moves the counters of one NIC.
    fn carry(&mut self, at: usize, from: u64) {
        let (now, random, places) = (self.now, &mut self.random, &self.places);
        let nic = &mut self.nics[at];
        let fault = self.fault.as_ref().map(|active| &active.fault);
        let fault = fault.filter(|fault| fault.rails.contains(&nic.rail)).cloned();
        let kind = fault.as_ref().map(|fault| fault.kind);
        let of = |wanted| fault.as_ref().filter(|_| kind == Some(wanted));
        let mut link = now >= nic.down_until && now >= nic.absent_until;
        if let Some(active) = self.fault.as_mut().filter(|_| kind == Some(Kind::Flap)) {
            link &= active.bounce(nic, now, places);
        }
        if !link {
            nic.away_at = now;
        }
        nic.link = link;
        let ms = now - from;
        let job = self.jobs.running.iter().find(|job| job.of.rails.contains(&nic.rail));
        let mut rate = job.filter(|_| link).map_or(0.0, |job| job.rate(from, now));
        rate *= random.about_one(0.02) * self.weather.left(nic.rail);
        if let Some(fault) = of(Kind::Slow) {
            rate *= fault.share;
        }
        if let Some(fault) = of(Kind::Storm) {
            rate *= 1.0 - fault.share;
            let us = (fault.share * ms as f64 * 1000.0) as u64;
            let pauses = if fault.outward { &places.pause_tx } else { &places.pause_rx };
            nic.add(pauses.get(3).copied(), us);
        }
        let bytes = (rate * ms as f64 / 1000.0).min(LINE * ms as f64 / 1000.0);
        for (priorities, outward) in [(&places.tx, true), (&places.rx, false)] {
            let out = of(Kind::WrongPriority).filter(|fault| fault.outward == outward);
            let moved = out.map_or(0.0, |fault| bytes * fault.share);
            if let Some(fault) = out {
                nic.add(priorities[fault.priority], moved as u64);
            }
            nic.add(priorities[usize::from(LOSSLESS)], (bytes - moved) as u64);
        }
        // In a storm nothing else is paused, marked or lost.
        let seen = if of(Kind::Storm).is_some() { 0.0 } else { bytes };
        self.weather.touch(nic, places, now, (seen, ms), random);
    }

    /// The agent looks at every port, then judges.
    fn check(&mut self) -> Vec<Verdict> {
        let now = Timestamp(self.now);
        for nic in &mut self.nics {
            let planned = nic.rail;
            let event = if now.0 < nic.absent_until {
                Event::Failed { port: &nic.key, why: ReadFailure::Absent }
            } else if !self.calm && self.random.once_in(86_400.0) {
                Event::Failed { port: &nic.key, why: ReadFailure::Firmware }
            } else {
                nic.read(&self.layout);
                if self.random.once_in(600.0) {
                    let missing = self.random.within(0, nic.values.len() as u64 - 1) as usize;
                    nic.values[missing..].iter_mut().take(16).for_each(|value| *value = None);
                }
                self.samples += 1;
                Event::Sample(Sample {
                    port: &nic.key,
                    at: now,
                    device: &nic.device,
                    rail: nic.rail,
                    life: nic.life,
                    link: Some(nic.link),
                    speed_mbps: SPEED,
                    layout: &self.layout,
                    values: &nic.values,
                })
            };
            step(&mut self.state, &event, now);
            let swap = self.fault.as_ref().filter(|active| active.fault.kind == Kind::Swapped);
            let other = |Active { fault, .. }: &Active| {
                let at = fault.rails.iter().position(|rail| *rail == planned)?;
                fault.rails.get(1 - at.min(1)).copied()
            };
            let heard = Some(swap.and_then(other).unwrap_or(planned));
            step(&mut self.state, &Event::Cabling { port: &nic.key, planned, heard }, now);
        }
        step(&mut self.state, &Event::Round, now)
    }
}

/// A fault that was put in.
#[derive(Debug, Clone)]
pub struct Active {
    pub fault: Fault,
    began: u64,
    downs: u64,
    ups: u64,
}

impl Active {
    /// A link that goes down and up: moves its counters; whether it is up now.
    fn bounce(&mut self, nic: &mut Nic, now: u64, places: &Places) -> bool {
        let period = self.fault.down_ms * 2;
        let age = now - self.began;
        let downs = (age / period + 1).min(self.fault.bounces);
        let is_down = age / period < self.fault.bounces && age % period < self.fault.down_ms;
        let ups = downs - u64::from(is_down);
        let (more_downs, more_ups) = (downs - self.downs, ups - self.ups);
        (self.downs, self.ups) = (downs, ups);
        for name in ["link_downed", "link_down_events_phy"] {
            nic.add(places.named(&[name]), more_downs);
        }
        nic.add(places.named(&["carrier_changes"]), more_downs + more_ups);
        !is_down
    }
}
