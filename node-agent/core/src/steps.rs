//! One step on one server: what follows from what its caller sends, from ends of its processes, and from time.
//!
//! A step never outlives its caller by more than [`GRACE`]: when the caller asks for its end, breaks the rules or is gone, its processes
//! get SIGTERM, and SIGKILL when that time is over. That it ends with the job is the supervisor's doing, whose processes these are.

use std::{collections::BTreeSet, time::Duration};

use proto_model::{StepInput, StepRequest, StepWindow, Timestamp};

/// Between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(5);
/// SIGKILL is repeated this often until nothing is left.
const KILL_AGAIN: Duration = Duration::from_secs(1);
/// The signal that asks a process to end.
pub const SIGTERM: i32 = 15;
/// The signal that nobody can refuse.
pub const SIGKILL: i32 = 9;

/// What has happened to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The caller sent something.
    Input(StepInput),
    /// The caller is gone, or has broken the rules.
    Gone,
    /// This many bytes of standard input were given to the process.
    Taken(usize),
    /// The process does not take any more input.
    InputRefused,
    /// A process has ended.
    Exited(u32),
    /// Time has passed: deadlines may be over.
    Tick,
}

/// What the shell must do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Give this to the process as soon as it takes it.
    Give(Vec<u8>),
    /// Its standard input ends when all of that is given.
    CloseInput,
    /// Signal the processes of the step.
    Signal(i32),
    /// The terminal has another size.
    Resize(StepWindow),
    /// Tell the caller of its input: this many bytes are taken, in all.
    TellTaken(u64),
    /// The caller has broken the rules: nothing more is taken from it.
    Refuse(&'static str),
}

/// A step while it goes on.
#[derive(Debug, Clone)]
pub struct Step {
    left: BTreeSet<u32>,
    /// Standard input, while the process takes some.
    open: bool,
    under_way: usize,
    taken: u64,
    kill_at: Option<Timestamp>,
}

impl Step {
    /// A step of these processes; `stdin`: one of them gets input.
    #[must_use]
    pub fn new(ranks: impl IntoIterator<Item = u32>, stdin: bool) -> Self {
        Self { left: ranks.into_iter().collect(), open: stdin, under_way: 0, taken: 0, kill_at: None }
    }

    /// None of its processes is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Its processes are being ended.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.kill_at.is_some()
    }

    /// What follows from `event`. Total: what does not fit changes nothing.
    pub fn step(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Input(StepInput::Data(data)) => self.data(data, now),
            Event::Input(StepInput::EndOfInput) => self.close(),
            Event::Input(StepInput::Signal(signal)) if !self.is_over() => vec![Action::Signal(signal)],
            Event::Input(StepInput::Window(window)) => vec![Action::Resize(window)],
            Event::Input(StepInput::End) | Event::Gone => self.end(now),
            Event::Taken(bytes) => {
                self.under_way = self.under_way.saturating_sub(bytes);
                self.taken = self.taken.saturating_add(bytes as u64);
                vec![Action::TellTaken(self.taken)]
            }
            Event::InputRefused => {
                // What is under way goes nowhere; the caller may go on sending.
                self.open = false;
                let lost = std::mem::take(&mut self.under_way);
                self.taken = self.taken.saturating_add(lost as u64);
                vec![Action::TellTaken(self.taken)]
            }
            Event::Exited(rank) => {
                self.left.remove(&rank);
                Vec::new()
            }
            Event::Tick => self.tick(now),
            Event::Input(StepInput::Signal(_)) => Vec::new(),
        }
    }

    fn data(&mut self, data: Vec<u8>, now: Timestamp) -> Vec<Action> {
        if !self.open {
            // Nobody reads it (any more): it counts as taken, so that the caller comes to its end.
            self.taken = self.taken.saturating_add(data.len() as u64);
            return vec![Action::TellTaken(self.taken)];
        }
        if self.under_way + data.len() > StepRequest::WINDOW {
            let mut actions =
                vec![Action::Refuse("more standard input is under way than the caller may send")];
            actions.extend(self.end(now));
            return actions;
        }
        self.under_way += data.len();
        vec![Action::Give(data)]
    }

    fn close(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.open, false) { vec![Action::CloseInput] } else { Vec::new() }
    }

    fn end(&mut self, now: Timestamp) -> Vec<Action> {
        if self.is_over() || self.is_ending() {
            return Vec::new();
        }
        self.kill_at = Some(now.plus(GRACE));
        vec![Action::Signal(SIGTERM)]
    }

    fn tick(&mut self, now: Timestamp) -> Vec<Action> {
        match self.kill_at {
            Some(kill_at) if kill_at <= now && !self.is_over() => {
                self.kill_at = Some(now.plus(KILL_AGAIN));
                vec![Action::Signal(SIGKILL)]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn input(step: &mut Step, input: StepInput) -> Vec<Action> {
        step.step(Event::Input(input), NOW)
    }

    #[test]
    fn an_end_is_a_signal_and_after_the_grace_a_kill_until_nothing_is_left() {
        for cause in [Event::Gone, Event::Input(StepInput::End)] {
            let mut step = Step::new([3, 4], false);
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE * 10)), []);
            assert_eq!(step.step(cause.clone(), NOW), [Action::Signal(SIGTERM)]);
            assert_eq!(step.step(cause, NOW.plus(GRACE / 2)), [], "once");
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE / 2)), []);
            assert_eq!(step.step(Event::Exited(3), NOW), []);
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE)), [Action::Signal(SIGKILL)]);
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE)), []);
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE + KILL_AGAIN)), [Action::Signal(SIGKILL)]);
            step.step(Event::Exited(4), NOW);
            assert!(step.is_over());
            assert_eq!(step.step(Event::Tick, NOW.plus(GRACE * 10)), []);
            assert_eq!(input(&mut step, StepInput::Signal(2)), []);
        }
    }

    #[test]
    fn input_is_bounded_by_what_was_taken() {
        let mut step = Step::new([0], true);
        let piece = || StepInput::Data(vec![7; StepRequest::CHUNK]);
        assert_eq!(input(&mut step, piece()).len(), 1);
        assert_eq!(input(&mut step, piece()).len(), 1);
        assert_eq!(
            step.step(Event::Taken(StepRequest::CHUNK), NOW),
            [Action::TellTaken(StepRequest::CHUNK as u64)]
        );
        assert!(matches!(input(&mut step, piece())[..], [Action::Give(_)]));
        let broken = input(&mut step, StepInput::Data(vec![1]));
        assert!(matches!(broken[..], [Action::Refuse(_), Action::Signal(SIGTERM)]));
    }

    #[test]
    fn what_nobody_reads_counts_as_taken() {
        let mut step = Step::new([0], true);
        input(&mut step, StepInput::Data(vec![1; 10]));
        assert_eq!(step.step(Event::InputRefused, NOW), [Action::TellTaken(10)]);
        assert_eq!(input(&mut step, StepInput::Data(vec![1; 5])), [Action::TellTaken(15)]);
        assert_eq!(input(&mut step, StepInput::EndOfInput), []);
        let mut open = Step::new([0], true);
        assert_eq!(input(&mut open, StepInput::EndOfInput), [Action::CloseInput]);
        assert_eq!(input(&mut open, StepInput::EndOfInput), []);
    }
}
