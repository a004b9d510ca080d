//! Keeps NICs as a profile says: checks them when something happened and now and then, and fixes what differs. A NIC is not in service
//! from the first edit of an apply to the last, whatever happens to this process meanwhile.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use node_agent_netlink::{Kernel, NetlinkError, events::Events};
use node_agent_qos::{
    DcbAgent, Device, Observed, Options, Plan, PlanRefusal, QosProfile, Reading, Stage, data_class,
    journal::Asker, plan, vendor,
};
use proto_model::Timestamp;

use super::{
    agents,
    checks::{CheckTrigger, Looks, NicCheck, Timing},
    devices,
    journal::{Journal, Record, key},
    observe,
    run::{Asked, Outlook, RunError, confirm, end_trial, go_on, now, run},
};

/// The outcome of a check.
#[derive(Debug)]
pub enum Verdict {
    /// Everything is as it should be.
    Clean,
    /// It differed, and was fixed; the plan says what was done.
    Mended(Box<Plan>),
    /// It differs, and what is to be done about it is withheld; the plan says why.
    Withheld(Box<Plan>),
    /// What of the data class the driver can set was not to be read, so nothing is known to be right and nothing is changed; each line says
    /// what and why.
    Unverified(Vec<String>),
    /// Another agent would overwrite it.
    Refused(PlanRefusal),
    /// It was changed for a trial, and is left alone until that is confirmed or its time is over.
    Trial(Timestamp),
    /// It could not be fixed.
    Failed(RunError),
    /// The NIC is not there, or not all of it yet.
    Gone,
}

/// A check and its outcome.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the NIC's network device.
    pub netdev: String,
    /// What made the check due.
    pub cause: CheckTrigger,
    /// The outcome of the check.
    pub verdict: Verdict,
    /// From the first event that it is about to its beginning.
    pub waited: Duration,
    /// From its beginning to its end, with what was done and read back.
    pub took: Duration,
}

/// Why a keeper cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The kernel reports no events.
    #[error(transparent)]
    Kernel(#[from] NetlinkError),
    /// Whether an apply was under way is not known.
    #[error("cannot read the journal of class of service: {0}")]
    Journal(#[from] io::Error),
}

/// What one NIC is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aim {
    /// The profile; none to leave it as it is.
    pub profile: Option<Arc<QosProfile>>,
    /// It is out of use and has the profile for a trial, which is taken back unless it is confirmed within this time. None: it keeps
    /// the profile, a trial of the same asker is confirmed, and edits that harm traffic are withheld.
    pub trial: Option<Duration>,
    /// Who asks: a trial that another rollout began is taken back. None: nobody, where it is left as it is.
    pub who: Option<Asker>,
}

impl Aim {
    fn leave() -> Self {
        Self { profile: None, trial: None, who: None }
    }
}

/// Keeps the class of service of all NICs as the profile wants it: checks them, and corrects drift where it may.
pub struct Keeper {
    kernel: Arc<dyn Kernel>,
    journal: Box<dyn Journal>,
    profile: QosProfile,
    options: Options,
    who: Asker,
    /// What each NIC is to be, by its name, in place of the one profile for all; one that is not named is left alone.
    aims: Option<BTreeMap<String, Aim>>,
    events: Events,
    checks: Looks,
    /// Programs that set class of service by themselves, where this turn has looked for them.
    agents: Option<Reading<Vec<DcbAgent>>>,
    /// The last record of each NIC, by its key.
    records: BTreeMap<String, Record>,
    /// Records that cannot be read, by their keys, with the reason.
    unreadable: BTreeMap<String, String>,
    /// The last name of each NIC that was seen, by its key.
    names: BTreeMap<String, String>,
    start: Instant,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("looks", &self.checks)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Keeper {
    /// Begins: everything is looked at in the first turn.
    ///
    /// # Errors
    /// [`KeeperError`].
    pub fn new(
        kernel: Arc<dyn Kernel>,
        mut journal: Box<dyn Journal>,
        profile: QosProfile,
        options: Options,
        who: &str,
        timing: Timing,
    ) -> Result<Self, KeeperError> {
        // Events first: what is read afterwards is not older than what they report.
        let events = Events::open(&*kernel)?;
        let records = journal.load()?.into_iter().map(|record| (record.key.clone(), record)).collect();
        let unreadable = journal.unreadable();
        Ok(Self {
            kernel,
            journal,
            profile,
            options,
            who: Asker::Local(who.to_owned()),
            aims: None,
            events,
            checks: Looks::new(timing, Duration::ZERO),
            agents: None,
            records,
            unreadable,
            names: BTreeMap::new(),
            start: Instant::now(),
        })
    }

    /// Another profile: everything is looked at again.
    pub fn want(&mut self, profile: QosProfile, options: Options, who: &str) {
        (self.profile, self.options, self.who) = (profile, options, Asker::Local(who.to_owned()));
        self.checks.on_report(&node_agent_netlink::events::Event::Lost, self.start.elapsed());
    }

    /// From now on each NIC has a profile of its own, by its name; one that is not named is left alone. Everything is looked at again.
    pub fn aim(&mut self, aims: BTreeMap<String, Aim>) {
        if self.aims.as_ref() != Some(&aims) {
            self.aims = Some(aims);
            self.checks.on_report(&node_agent_netlink::events::Event::Lost, self.start.elapsed());
        }
    }

    fn aim_of(&self, netdev: &str) -> Aim {
        let all = || Aim {
            profile: Some(Arc::new(self.profile.clone())),
            trial: None,
            who: Some(self.who.clone()),
        };
        self.aims.as_ref().map_or_else(all, |aims| aims.get(netdev).cloned().unwrap_or_else(Aim::leave))
    }

    /// Waits until something is to be done, at most `limit`, and does it.
    ///
    /// # Errors
    /// The sockets failed; a new keeper may do better.
    pub fn turn(&mut self, limit: Duration, drained: bool) -> Result<Vec<Outcome>, NetlinkError> {
        self.turn_where(limit, &|_| drained)
    }

    /// The same; `drained` says of a NIC, by its name, whether nothing uses it, so that edits that harm traffic may be made there.
    ///
    /// # Errors
    /// As [`Keeper::turn`].
    pub fn turn_where(
        &mut self,
        limit: Duration,
        drained: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Outcome>, NetlinkError> {
        let mut wait = limit.min(self.checks.wait(self.start.elapsed()));
        while let Some(event) = self.events.next(wait)? {
            self.checks.on_report(&event, self.start.elapsed());
            wait = Duration::ZERO;
        }
        let now = self.start.elapsed();
        if !self.checks.wait(now).is_zero() {
            return Ok(Vec::new());
        }
        self.agents = None;
        if !self.unreadable.is_empty() {
            // Somebody may have seen to them.
            self.unreadable = self.journal.unreadable();
        }
        let nics = devices(&*self.kernel);
        let names: Vec<String> = nics.iter().map(|nic| nic.netdev.clone()).collect();
        let due = self.checks.due(&names, now);
        let checked = due.into_iter().filter_map(|check| {
            let drained = drained(&check.netdev);
            self.check(check, &nics, drained)
        });
        Ok(checked.collect())
    }

    fn check(&mut self, check: NicCheck, nics: &[Device], drained: bool) -> Option<Outcome> {
        let NicCheck { netdev, cause, since } = check;
        let begun = self.start.elapsed();
        let waited = begun.saturating_sub(since);
        let Some(device) = nics.iter().find(|nic| nic.netdev == netdev) else {
            // An interface that never was one of ours; or one whose RDMA device is still being made.
            let ours = self.names.values().any(|name| *name == netdev);
            if ours {
                self.checks.again(&netdev, self.start.elapsed());
            }
            let gone = Outcome { netdev, cause, verdict: Verdict::Gone, waited, took: Duration::ZERO };
            return ours.then_some(gone);
        };
        self.names.insert(key(device), netdev.clone());
        let verdict = self.remediate(device, drained);
        match &verdict {
            Verdict::Failed(_) | Verdict::Unverified(_) | Verdict::Gone => {
                self.checks.again(&netdev, self.start.elapsed())
            }
            Verdict::Trial(until) => {
                self.checks.done(&netdev);
                self.checks.at(&netdev, self.start.elapsed() + until.since(now()));
            }
            _ => self.checks.done(&netdev),
        }
        let took = self.start.elapsed().saturating_sub(begun);
        Some(Outcome { netdev, cause, verdict, waited, took })
    }

    fn remediate(&mut self, device: &Device, drained: bool) -> Verdict {
        let aim = self.aim_of(&device.netdev);
        match self.finish(device, &aim) {
            Ok(None) => {}
            Ok(Some(until)) => return Verdict::Trial(until),
            Err(error) => return Verdict::Failed(error),
        }
        let Some(profile) = &aim.profile else { return Verdict::Clean };
        let drained = drained || aim.trial.is_some();
        let (seen, plan) = match self.compare(profile, device, drained) {
            Ok(found) => found,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        // A data class is changed as a whole; of one that is known in part nobody can say that it is whole.
        let unknown =
            data_class::unverified(&plan.findings, vendor::of(&seen)).map(|finding| finding.text.clone());
        let unknown: Vec<String> = unknown.collect();
        if !unknown.is_empty() {
            return Verdict::Unverified(unknown);
        }
        if plan.edits.is_empty() {
            if !plan.withheld.is_empty() {
                return Verdict::Withheld(Box::new(plan));
            }
            return match self.settle(&seen) {
                None => Verdict::Clean,
                Some(why) => Verdict::Unverified(vec![why]),
            };
        }
        if aim.trial.is_some() && !plan.withheld.is_empty() {
            // Half of it is no trial of it.
            return Verdict::Withheld(Box::new(plan));
        }
        let asked =
            Asked { who: aim.who.clone().unwrap_or_else(|| self.who.clone()), confirm_within: aim.trial };
        let result = run(&*self.kernel, &mut *self.journal, &seen, &plan, &asked);
        self.remember();
        match result {
            Ok(Outlook::Waits(until)) => Verdict::Trial(until),
            Ok(_) if plan.withheld.is_empty() => Verdict::Mended(Box::new(plan)),
            Ok(_) => Verdict::Withheld(Box::new(plan)),
            Err(error) => Verdict::Failed(error),
        }
    }

    /// What a NIC is, and what is to be done. Programs that would fight for it are looked for only where there is something to be done, and
    /// once for all NICs: a large server has thousands of processes, and this is done at every poll.
    fn compare(
        &mut self,
        profile: &QosProfile,
        device: &Device,
        drained: bool,
    ) -> Result<(Observed, Plan), PlanRefusal> {
        let mut seen = observe(&*self.kernel, device, drained, Reading::Known(Vec::new()));
        let found = plan(profile, &seen, vendor::of(&seen), self.options)?;
        if found.edits.is_empty() && found.withheld.is_empty() {
            return Ok((seen, found));
        }
        let kernel = &self.kernel;
        seen.agents = self.agents.get_or_insert_with(|| agents::find(kernel.files())).clone();
        let found = plan(profile, &seen, vendor::of(&seen), self.options)?;
        Ok((seen, found))
    }

    /// What is under way on a NIC, brought to where it is desired: until when it waits, if it does.
    fn finish(&mut self, device: &Device, aim: &Aim) -> Result<Option<Timestamp>, RunError> {
        let Some(record) = self.records.get(&key(device)).cloned() else { return Ok(None) };
        let ours = aim.who.as_ref() == Some(&record.apply.asked_by);
        let by_rollout = matches!(record.apply.asked_by, Asker::Rollout { .. }) && self.aims.is_some();
        let (kernel, journal) = (&*self.kernel, &mut *self.journal);
        if record.waits_until().is_some() && by_rollout && !(ours && aim.trial.is_some()) {
            let kept = ours && aim.profile.is_some();
            let who = aim.who.as_ref().map_or_else(|| "the controller".to_owned(), ToString::to_string);
            let result = if kept {
                confirm(kernel, journal, record, &who).map(|_| None)
            } else {
                end_trial(kernel, journal, record, &who, Some("the controller did not keep it")).map(|_| None)
            };
            self.remember();
            return match result {
                Err(RunError::TakenBack { .. }) if !kept => Ok(None),
                result => result,
            };
        }
        let mut last = record;
        if !last.apply.is_over() {
            let went = go_on(kernel, journal, &last, device);
            self.remember();
            if let Some(until) = went? {
                return Ok(Some(until));
            }
            last = self.records.get(&key(device)).cloned().unwrap_or(last);
        }
        // A trial that has failed is not tried again, until somebody asks again.
        match last.apply.stage {
            Stage::RolledBack { why } if aim.trial.is_some() && ours => {
                Err(RunError::TakenBack { netdev: device.netdev.clone(), why })
            }
            // Nor is one whose way back has failed: a new one would take what is left there for what was before.
            Stage::Stuck { reason } if aim.trial.is_some() && ours => {
                Err(RunError::Stuck { netdev: device.netdev.clone(), why: reason })
            }
            _ => Ok(None),
        }
    }

    /// A NIC that is as it should be is in service again, whatever was under way. What was cannot be taken back by those edits. One of
    /// which something that was under way cannot be read stays out of service: what that is.
    fn settle(&mut self, seen: &Observed) -> Option<String> {
        let record = self.records.get_mut(&key(&seen.device))?;
        if !record.in_service() {
            if let Some(why) = record.apply.unread(seen) {
                return Some(why);
            }
            record.apply.edits.clear();
            record.apply.before = seen.clone();
            record.apply.stage = Stage::Confirmed;
            // If it cannot be kept, the next check does it.
            let _ = self.journal.save(record);
            self.remember();
        }
        None
    }

    fn remember(&mut self) {
        if let Ok(records) = self.journal.load() {
            self.records = records.into_iter().map(|record| (record.key.clone(), record)).collect();
        }
    }

    /// The NICs that must not serve jobs, with the reason.
    #[must_use]
    pub fn out_of_service(&self) -> BTreeMap<String, String> {
        // By the name that the NIC has now.
        let name = |record: &Record| {
            self.names.get(&record.key).map_or_else(|| record.netdev(), String::as_str).to_owned()
        };
        let out = self.records.values().filter(|record| !record.in_service());
        let unreadable = self
            .unreadable
            .iter()
            .map(|(key, why)| (self.names.get(key).unwrap_or(key).clone(), why.clone()));
        out.map(|record| (name(record), record.state())).chain(unreadable).collect()
    }
}
