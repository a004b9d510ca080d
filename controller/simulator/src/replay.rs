//! A log decided again: what the scheduler was given is given to the production code once more, and what it decides now is
//! compared with what it decided then, and proved.

use std::{collections::BTreeMap, sync::Arc};

use controller_queue::{Act, Budget, Entry, Past, Policy, QueueState, State, check};
use controller_scheduler::{Gate, Placer, Snapshot};
use proto_model::{Fabric, JobUid, Placement, TenantName, Timestamp};
use thiserror::Error;

use crate::{
    log::{self, ActLine, EndLine, Header, JobLine, Line, LineError, NodeLine, PassLine, ServersLine, Sum},
    proof::{Claim, flaws},
    servers::{Kind, Listed, MAX_SERVERS},
    site::{Site, SiteError},
};

/// Why a log does not prove what it says. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReplayError {
    /// The log has no line.
    #[error("the log is empty")]
    Empty,
    /// Not a line of a log.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The log has another format or version than this program reads.
    #[error(
        "line 1: format {format:?} version {version}; this reads {:?} version {}",
        log::FORMAT,
        log::VERSION
    )]
    Version {
        /// The format that it says it has.
        format: String,
        /// The version that it says it is.
        version: u32,
    },
    /// The log was made on another fabric than the one that was given.
    #[error("the log was made on fabric '{name}' ({digest}), this is '{other}' ({actual})")]
    Fabric {
        /// Name of the fabric of the log.
        name: String,
        /// Digest of the fabric of the log.
        digest: String,
        /// Name of the fabric that was given.
        other: String,
        /// Digest of the fabric that was given.
        actual: String,
    },
    /// The fabric cannot be used.
    #[error("{0}")]
    Site(#[from] SiteError),
    /// A line is not what was written.
    #[error(
        "line {line}, at {at}: the sum of this line is not right: it was changed after it was written, or a line \
         before it was added or left out"
    )]
    Changed {
        /// Number of the line, from 1.
        line: u64,
        /// Time of the line before it.
        at: Timestamp,
    },
    /// The last line is missing.
    #[error(
        "the log ends at line {line}, at {at}, without its last line (close): it was cut off, or its writer did not come \
         to its end; up to there its {decisions} decisions are the same"
    )]
    Cut {
        /// Number of the last line that is there, from 1.
        line: u64,
        /// Time of that line.
        at: Timestamp,
        /// Decisions before it, all of them the same as now.
        decisions: u64,
    },
    /// What is decided now is not what was decided then.
    #[error("line {line}, at {at}, decision {which}: {what}")]
    Difference {
        /// Line of the pass.
        line: u64,
        /// When the pass was made.
        at: Timestamp,
        /// Which decision of the pass, from 1.
        which: usize,
        /// What was decided then and what is decided now, in words.
        what: String,
        /// What is decided now; `None`: nothing.
        now: Option<Box<ActLine>>,
    },
    /// What was decided breaks a rule.
    #[error("line {line}, at {at}: the independent proof found: {what}")]
    Violation {
        /// Line of the pass.
        line: u64,
        /// When the pass was made.
        at: Timestamp,
        /// The rule that is broken, in words.
        what: String,
    },
}

/// What a log that was decided again contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Lines of the log, header and last line among them.
    pub lines: u64,
    /// Jobs that were queued.
    pub jobs: u64,
    /// Passes over the queue.
    pub passes: u64,
    /// Decisions that are the same.
    pub decisions: u64,
    /// Of these, placements, each proved.
    pub placements: u64,
}

/// What decides again. The controller's own code is [`Production`]; tests put others here.
pub trait Decider {
    /// What is to be done now; the snapshot is put back.
    fn pass(
        &mut self,
        queue_state: &mut QueueState,
        snapshot: &mut Snapshot,
        now: Timestamp,
        depth: usize,
    ) -> Vec<Act>;
}

/// The controller's own code.
#[derive(Debug, Default)]
pub struct Production(Placer);

impl Decider for Production {
    fn pass(
        &mut self,
        queue_state: &mut QueueState,
        snapshot: &mut Snapshot,
        now: Timestamp,
        depth: usize,
    ) -> Vec<Act> {
        queue_state.pass(snapshot, &mut self.0, now, Budget { jobs: depth, starts: usize::MAX })
    }
}

/// A replay, line by line.
pub struct Replay {
    snapshot: Snapshot,
    queue_state: QueueState,
    held: BTreeMap<JobUid, (TenantName, Arc<Placement>)>,
    decider: Box<dyn Decider>,
    now: Timestamp,
    line: u64,
    sum: Sum,
    closed: bool,
    done: Replayed,
}

/// Reads the header, so that the fabric can be found that it is about.
///
/// # Errors
/// [`ReplayError`] where the line is no header of a version that is read.
pub fn header(line: &str) -> Result<Header, ReplayError> {
    if line.trim().is_empty() {
        return Err(ReplayError::Empty);
    }
    let mut sum = Sum::default();
    let opened = sum.open(line);
    let (text, is_right) = opened.unwrap_or_else(|| (line.trim_end().to_owned(), false));
    let wrong = |error| ReplayError::Line { line: 1, what: format!("not a header: {}", fault(&error)) };
    match serde_json::from_str(&text).map_err(wrong)? {
        Line::Header(Header { format, version, .. }) if format != log::FORMAT || version != log::VERSION => {
            Err(ReplayError::Version { format, version })
        }
        Line::Header(_) if !is_right => Err(ReplayError::Changed { line: 1, at: Timestamp(0) }),
        Line::Header(header) => Ok(Header { sum, ..header }),
        _ => Err(ReplayError::Line { line: 1, what: "the first line is the header".to_owned() }),
    }
}

/// What is wrong with a line of JSON; the text has one line only, so that its number says nothing.
fn fault(error: &serde_json::Error) -> String {
    let reported = error.to_string();
    let reported = reported.split(" at line ").next().unwrap_or_default();
    format!("{reported}, column {}", error.column())
}

impl Replay {
    /// Begins behind the header, on the fabric that it is about.
    ///
    /// # Errors
    /// [`ReplayError`] where the fabric is another one.
    pub fn new(header: &Header, fabric: Fabric) -> Result<Self, ReplayError> {
        Self::with(header, fabric, Box::new(Production::default()))
    }

    /// The same with something else that decides.
    ///
    /// # Errors
    /// [`ReplayError`] where the fabric is another one.
    pub fn with(header: &Header, fabric: Fabric, decider: Box<dyn Decider>) -> Result<Self, ReplayError> {
        let actual = log::digest(&fabric);
        if actual != header.digest {
            let (name, digest) = (header.fabric.clone(), header.digest.clone());
            return Err(ReplayError::Fabric { name, digest, other: fabric.name, actual });
        }
        let site = match &header.servers[..] {
            [] => Site::new(fabric, header.gpus_per_node)?,
            lines => Site::of(fabric, &listed(lines)?)?,
        };
        Ok(Self {
            snapshot: site.snapshot,
            queue_state: QueueState::new(Policy::from(&header.policy)),
            held: BTreeMap::new(),
            decider,
            now: Timestamp(0),
            line: 1,
            sum: header.sum,
            closed: false,
            done: Replayed { lines: 1, ..Replayed::default() },
        })
    }

    /// The next line.
    ///
    /// # Errors
    /// [`ReplayError`] with the line, at the first thing that is wrong or different.
    pub fn line(&mut self, text: &str) -> Result<(), ReplayError> {
        self.line += 1;
        self.done.lines += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        if self.closed {
            return Err(self.wrong("lines follow the last one (close)"));
        }
        let opened = self.sum.open(text);
        let (text, is_right) = opened.unwrap_or_else(|| (text.trim_end().to_owned(), false));
        let line: Line = serde_json::from_str(&text).map_err(|error| self.wrong(fault(&error)))?;
        let at = match &line {
            Line::Header(_) => return Err(self.wrong("a second header")),
            Line::Tenant(line) => line.at,
            Line::Queue(line) => line.at,
            Line::Reservation(line) => line.at,
            Line::Job(line) => line.at,
            Line::End(line) => line.at,
            Line::Node(line) => line.at,
            Line::Pass(line) => line.at,
            Line::Close(line) => line.at,
        };
        if at < self.now.0 {
            return Err(self.wrong(format!("time runs backwards, from {} to {}", self.now, Timestamp(at))));
        }
        self.now = Timestamp(at);
        // What it does is reported first: that says more than that it was changed.
        self.report(&line)?;
        self.closed = matches!(line, Line::Close(_));
        if is_right { Ok(()) } else { Err(ReplayError::Changed { line: self.line, at: self.now }) }
    }

    /// Ends the log: what was replayed.
    ///
    /// # Errors
    /// [`ReplayError::Cut`] where its last line is missing.
    pub fn finish(&self) -> Result<Replayed, ReplayError> {
        let (line, at, decisions) = (self.line, self.now, self.done.decisions);
        if self.closed { Ok(self.done) } else { Err(ReplayError::Cut { line, at, decisions }) }
    }

    fn wrong(&self, what: impl ToString) -> ReplayError {
        ReplayError::Line { line: self.line, what: what.to_string() }
    }

    fn violation(&self, what: impl Into<String>) -> ReplayError {
        ReplayError::Violation { line: self.line, at: self.now, what: what.into() }
    }

    fn report(&mut self, line: &Line) -> Result<(), ReplayError> {
        let reported = match line {
            Line::Header(_) => Ok(()),
            Line::Tenant(line) => log::tenant(&line.tenant).map(|tenant| {
                let def = line.def();
                let quota = def.as_ref().map(|def| def.limit.unwrap_or(u32::MAX));
                self.snapshot.set_quota(&tenant, quota);
                self.queue_state.set_tenant(&tenant, def);
            }),
            Line::Queue(line) => {
                line.all().map(|(tenant, queue, def)| self.queue_state.set_queue(&tenant, &queue, def))
            }
            Line::Reservation(line) => {
                line.all().map(|(name, def)| self.queue_state.set_reservation(&name, def))
            }
            Line::Job(line) => return self.job(line),
            Line::End(line) => return self.end(line),
            Line::Node(line) => self.node(line),
            Line::Pass(line) => return self.pass(line),
            Line::Close(_) => Ok(()),
        };
        reported.map_err(|error| self.wrong(error))
    }

    fn job(&mut self, line: &JobLine) -> Result<(), ReplayError> {
        let entry = line.entry(&self.snapshot).map_err(|error| self.wrong(error))?;
        self.done.jobs += u64::from(entry.run().is_none());
        if let Some((tenant, placement)) = self.held.remove(&entry.uid) {
            self.snapshot.release(&tenant, &placement);
        }
        if let State::Running(run) = &entry.state {
            self.snapshot.hold(&entry.id.tenant, &run.placement);
            self.held.insert(entry.uid, (entry.id.tenant.clone(), Arc::clone(&run.placement)));
        }
        self.queue_state.set_job(entry.uid, Some(Arc::new(entry)));
        Ok(())
    }

    fn end(&mut self, line: &EndLine) -> Result<(), ReplayError> {
        let uid = log::uid(&line.uid).map_err(|error| self.wrong(error))?;
        let Some(entry) = self.queue_state.job(uid) else {
            return Err(self.wrong(format!("job {uid} ends and is not known")));
        };
        if let Some(past) = Past::of(entry, self.now, line.whole) {
            self.queue_state.remember(&past);
        }
        if let Some((tenant, placement)) = self.held.remove(&uid) {
            self.snapshot.release(&tenant, &placement);
        }
        if line.whole {
            self.queue_state.set_job(uid, None);
        }
        Ok(())
    }

    fn node(&mut self, line: &NodeLine) -> Result<(), LineError> {
        let name = log::node(&line.node)?;
        if self.snapshot.topology().index(&name).is_none() {
            return Err(LineError { field: "node", what: format!("no server '{name}'") });
        }
        self.snapshot.set_gate(&name, Gate { unschedulable: !line.open, ..Gate::default() });
        self.queue_state.nodes_changed();
        Ok(())
    }

    fn pass(&mut self, line: &PassLine) -> Result<(), ReplayError> {
        let depth = usize::try_from(line.depth).unwrap_or(usize::MAX);
        let acts = self.decider.pass(&mut self.queue_state, &mut self.snapshot, self.now, depth);
        self.done.passes += 1;
        self.compare(&line.acts, &acts)?;
        if !acts.is_empty()
            && let Err(breaches) = check::check(&self.queue_state, &acts, self.now)
        {
            let reported: Vec<String> = breaches.iter().map(ToString::to_string).collect();
            return Err(self.violation(reported.join("; ")));
        }
        for act in acts {
            self.done.decisions += 1;
            match act {
                Act::Start { uid, placement } => self.start(uid, placement)?,
                Act::Preempt { victim: uid, grace, .. }
                | Act::Shrink { victim: uid, grace, .. }
                | Act::Grow { uid, grace, .. } => {
                    let until = self.now.plus(grace);
                    self.change(uid, |entry| {
                        if let State::Running(run) = &mut entry.state {
                            run.ending = Some(until);
                        }
                    });
                }
            }
        }
        Ok(())
    }

    fn compare(&self, then: &[ActLine], now: &[Act]) -> Result<(), ReplayError> {
        for at in 0..then.len().max(now.len()) {
            let (then, now) = (then.get(at), now.get(at).map(ActLine::from));
            if then != now.as_ref() {
                let name = |text: &str| {
                    let entry = log::uid(text).ok().and_then(|uid| self.queue_state.job(uid))?;
                    Some(entry.id.to_string())
                };
                let what = log::difference(then, now.as_ref(), name);
                let (line, at, which, now) = (self.line, self.now, at + 1, now.map(Box::new));
                return Err(ReplayError::Difference { line, at, which, what, now });
            }
        }
        Ok(())
    }

    fn start(&mut self, uid: JobUid, placement: Placement) -> Result<(), ReplayError> {
        let Some(entry) = self.queue_state.job(uid).cloned() else {
            return Err(self.violation(format!("job {uid} starts and is not known")));
        };
        let claim = Claim::of(&entry);
        if let Some(what) = flaws(&self.snapshot, &claim, &placement).into_iter().next() {
            return Err(self.violation(format!("job {}: {what}", entry.id)));
        }
        self.done.placements += 1;
        self.snapshot.hold(&entry.id.tenant, &placement);
        let placement = Arc::new(placement);
        self.held.insert(uid, (entry.id.tenant.clone(), Arc::clone(&placement)));
        let now = self.now;
        self.change(uid, |entry| *entry = entry.running(placement, now));
        Ok(())
    }

    fn change(&mut self, uid: JobUid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.queue_state.job(uid) {
            let mut entry = Entry::clone(entry);
            change(&mut entry);
            self.queue_state.set_job(uid, Some(Arc::new(entry)));
        }
    }
}

/// The servers of a header, one by one.
fn listed(lines: &[ServersLine]) -> Result<Vec<Listed>, SiteError> {
    let mut servers = Vec::new();
    for ServersLine { count, gpus, model, cpus, memory } in lines {
        let kind = Kind { gpus: *gpus, model: model.clone(), cpus: *cpus, memory: *memory };
        let count = *count as usize;
        if servers.len() + count > MAX_SERVERS {
            return Err(SiteError::Others { listed: servers.len() + count, fabric: 0 });
        }
        servers.extend(std::iter::repeat_n(Listed { name: String::new(), kind }, count));
    }
    Ok(servers)
}
