//! The thread that keeps the switch's configuration: it hears the controller's last word and the time, saves what `decide` says, and only
//! then does it. A controller that is away, or a call to it that hangs, holds up no taking back.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use proto_wire::v1::{SwitchPortStatus, SwitchProgress, SwitchSession};
use tokio::sync::watch;

use crate::{
    decide::{Action, Desired, Done, Event, Moment, Outcome, Phase, Saved, step},
    mailbox::{Mail, Mailbox},
    sessions,
    store::Store,
    switch::{Found, Manner, Switch},
    text,
};

/// The controller's last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its fencing number.
    pub epoch: u64,
    /// What it desires.
    pub desired: Option<Desired>,
}

/// How often what is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// What is configured, where nothing was changed.
    pub read: Duration,
    /// Ports and their counters.
    pub ports: Duration,
    /// An attempt to take back or to keep, after one that failed.
    pub again: Duration,
}

/// What is reported.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// What is on the switch.
    pub found: Arc<Found>,
    /// Of these files.
    pub digest: String,
    /// Its ports.
    pub ports: Arc<Vec<SwitchPortStatus>>,
    /// When they were read, in milliseconds of the switch's clock; 0: they were not.
    pub ports_read_ms: u64,
    /// Its BGP sessions; none where they are not known.
    pub sessions: Option<Arc<Vec<SwitchSession>>>,
    /// Its operating system.
    pub version: String,
    /// How what is desired gets on.
    pub progress: SwitchProgress,
    /// The highest epoch that was obeyed.
    pub epoch: u64,
    /// Why the state is not on disk; empty: it is.
    pub unsaved: String,
    /// There is something to report.
    pub ready: bool,
}

/// The running thread.
#[derive(Debug)]
pub struct Keeper {
    /// The controller's word goes here.
    pub heard: Mailbox<Heard>,
    /// What is reported.
    pub status: watch::Receiver<Status>,
    thread: JoinHandle<()>,
}

/// A clock of the switch.
pub type Clock = Box<dyn Fn() -> Moment + Send>;

impl Keeper {
    /// Starts the thread with what was saved: what an earlier one has left undone comes first.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        switch: impl Switch,
        store: Store,
        saved: Saved,
        clock: Clock,
        rhythm: Rhythm,
    ) -> io::Result<Self> {
        let heard = Mailbox::default();
        let (status, seen) = watch::channel(Status::default());
        let now = Instant::now();
        let mut work = Work {
            switch,
            store,
            saved,
            clock,
            rhythm,
            status,
            found: Arc::default(),
            digest: String::new(),
            ports: Arc::default(),
            ports_read_ms: 0,
            sessions: None,
            version: String::new(),
            unsaved: String::new(),
            read_at: now,
            ports_at: now,
            rest_until: None,
        };
        let mailbox = heard.clone();
        let run = move || work.run(&mailbox);
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(run)?;
        Ok(Self { heard, status: seen, thread })
    }

    /// Ends it; a trial that nobody has confirmed is taken back before.
    pub fn end(self) {
        self.heard.close();
        if self.thread.join().is_err() {
            tracing::error!("the thread that keeps the configuration has panicked");
        }
    }
}

struct Work<S> {
    switch: S,
    store: Store,
    saved: Saved,
    clock: Clock,
    rhythm: Rhythm,
    status: watch::Sender<Status>,
    found: Arc<Found>,
    digest: String,
    ports: Arc<Vec<SwitchPortStatus>>,
    ports_read_ms: u64,
    sessions: Option<Vec<SwitchSession>>,
    version: String,
    unsaved: String,
    read_at: Instant,
    ports_at: Instant,
    /// After an attempt that failed.
    rest_until: Option<Instant>,
}

impl<S: Switch> Work<S> {
    fn run(&mut self, mailbox: &Mailbox<Heard>) {
        // Before anything else: a trial may be over.
        self.happen(&Event::Started);
        loop {
            self.watch();
            match mailbox.take(self.pause()) {
                Mail::Word(heard) => self.hear(&heard),
                Mail::Nothing => self.happen(&Event::Tick),
                Mail::Closed => return self.happen(&Event::Ending),
            }
        }
    }

    /// Until something is to be done by itself.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.read_at.min(self.ports_at).saturating_duration_since(now);
        if let Some(rest) = self.rest_until {
            return next.min(rest.saturating_duration_since(now));
        }
        if let Some(trial) = &self.saved.trial {
            next = next.min(trial.left(&(self.clock)()));
        }
        next
    }

    /// Looks at the switch where that is due, and says what there is.
    fn watch(&mut self) {
        let now = Instant::now();
        if now >= self.read_at {
            self.read();
        }
        if now >= self.ports_at {
            self.ports = Arc::new(self.switch.ports());
            self.ports_read_ms = (self.clock)().ms;
            self.sessions = self.switch.sessions();
            self.ports_at = Instant::now() + self.rhythm.ports;
        }
        self.publish();
    }

    fn read(&mut self) {
        self.found = Arc::new(self.switch.read());
        self.digest = self.found.files.digest();
        self.version = self.switch.version();
        // After the files: who hears of these has heard of sessions under them.
        self.sessions = self.switch.sessions();
        self.read_at = Instant::now() + self.rhythm.read;
    }

    fn publish(&self) {
        self.status.send_replace(Status {
            found: Arc::clone(&self.found),
            digest: self.digest.clone(),
            ports: Arc::clone(&self.ports),
            ports_read_ms: self.ports_read_ms,
            sessions: self
                .sessions
                .as_deref()
                .map(|sessions| Arc::new(sessions::since(sessions, self.saved.trial.as_ref()))),
            version: self.version.clone(),
            progress: self.saved.progress(),
            epoch: self.saved.epoch,
            unsaved: self.unsaved.clone(),
            ready: true,
        });
    }

    fn hear(&mut self, heard: &Heard) {
        let done = &self.saved.done;
        let begins = heard.desired.as_ref().is_some_and(|desired| {
            matches!(desired.phase, Phase::Trial { .. })
                && (desired.number, desired.generation) != (done.number, done.generation)
        });
        if begins && self.saved.trial.is_none() {
            // What is taken back is what is there now.
            self.read();
        }
        let found = Arc::clone(&self.found);
        let (epoch, desired) = (heard.epoch, heard.desired.as_ref());
        let established = sessions::established(self.sessions.as_deref().unwrap_or_default());
        self.happen(&Event::Heard { epoch, desired, found: found.whole(), established: &established });
    }

    fn happen(&mut self, event: &Event<'_>) {
        if self.rest_until.is_some_and(|rest| Instant::now() < rest) && !matches!(event, Event::Ending) {
            return;
        }
        self.rest_until = None;
        let mut next = match step(&self.saved, event, &(self.clock)()) {
            Ok(next) => next,
            Err(refusal) => return tracing::warn!("{refusal}; it is not obeyed"),
        };
        loop {
            let action = self.adopt(next.0, next.1);
            self.publish();
            let Some(result) = self.carry_out(action) else { return };
            let result = result.as_ref().err().map_or(Ok(()), |error| Err(error.as_str()));
            if result.is_err() {
                self.rest_until = Some(Instant::now() + self.rhythm.again);
            }
            // Nobody refuses what was done here.
            let Ok(then) = step(&self.saved, &Event::Finished(result), &(self.clock)()) else { return };
            next = then;
        }
    }

    /// Saves the state; gives what may be done then.
    fn adopt(&mut self, state: Saved, action: Action) -> Action {
        if state == self.saved && self.unsaved.is_empty() {
            return action;
        }
        let Err(error) = self.store.save(&state) else {
            self.unsaved.clear();
            self.saved = state;
            return action;
        };
        self.unsaved = text::bounded(&format!("the state cannot be saved: {error}"));
        tracing::error!("{}", self.unsaved);
        match (action, &state.trial) {
            // Nothing is changed that could not be taken back after a loss of power.
            (Action::Try, Some(trial)) => {
                let (number, generation, digest) = (trial.number, trial.generation, String::new());
                let message = self.unsaved.clone();
                let done = Done { number, generation, outcome: Outcome::Failed, message, digest };
                self.saved = Saved { done, trial: None, ..state };
                Action::Nothing
            }
            // Nor is anything kept that would be taken back then.
            (Action::Keep { .. }, _) if self.saved.trial != state.trial => Action::Nothing,
            // Taking back is right whatever the disk says; so is all that it says less of than is known.
            _ => {
                self.saved = state;
                action
            }
        }
    }

    /// What came of it; `None` where there is nothing to do.
    fn carry_out(&mut self, action: Action) -> Option<Result<(), String>> {
        let trial = self.saved.trial.as_ref()?;
        let (generation, number) = (trial.generation, trial.number);
        let result = match action {
            Action::Nothing => return None,
            Action::Try => {
                let (within, method) = (trial.within, trial.method);
                tracing::info!(
                    generation,
                    number,
                    ?within,
                    ?method,
                    "a configuration is put in place for a trial"
                );
                self.switch.put(&trial.wanted, Manner::Planned { owned: &trial.owned }, method)
            }
            Action::TakeBack(method) => {
                tracing::warn!(generation, number, ?method, stage = ?trial.stage, "the trial is taken back");
                self.switch.put(&trial.before, Manner::Exact, method)
            }
            Action::Keep { again } => {
                tracing::info!(generation, number, "the configuration is kept");
                let put = if again {
                    self.switch.put(&trial.wanted, Manner::Planned { owned: &trial.owned }, trial.method)
                } else {
                    Ok(())
                };
                put.and_then(|()| self.switch.persist())
            }
        };
        if let Err(error) = &result {
            tracing::warn!(generation, number, "{error}");
        }
        self.read();
        Some(result)
    }
}

#[cfg(test)]
mod tests;
