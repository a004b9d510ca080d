//! What came of all inputs, and what is wrong with an answer.

use std::{collections::BTreeMap, time::Duration};

/// What chance begins with; the same inputs come of it every time.
pub(super) const SEED: u64 = 20_261_126;
/// Longer without an answer is a hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Callers at once.
pub(super) const CALLERS: u64 = 4;
/// Examples that are shown of one kind of fault.
const SHOWN: usize = 12;

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A process died, or panicked.
    Crash,
    /// No answer in time.
    Hang,
    /// It failed as if it were the server's fault: 5xx, INTERNAL, UNKNOWN.
    Server,
    /// An exit code that railctl does not have.
    ExitCode,
    /// A refusal that names no field.
    NoField,
}

impl Fault {
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Crash, "crashes"),
        (Self::Hang, "hangs"),
        (Self::Server, "answers of 5xx, INTERNAL or UNKNOWN"),
        (Self::ExitCode, "wrong exit codes"),
        (Self::NoField, "refusals of an input that name no field of it"),
    ];
}

/// What came of all inputs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) inputs: u64,
    pub(super) faults: BTreeMap<Fault, (u64, Vec<String>)>,
    /// How often each answer came.
    pub(super) answers: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn answer(&mut self, answer: impl Into<String>) {
        self.inputs += 1;
        *self.answers.entry(answer.into()).or_default() += 1;
    }

    pub(super) fn fault(&mut self, fault: Fault, example: impl FnOnce() -> String) {
        let (count, examples) = self.faults.entry(fault).or_default();
        *count += 1;
        keep(examples, example().chars().take(500).collect());
    }

    pub(super) fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        for (fault, (count, examples)) in other.faults {
            let mine = self.faults.entry(fault).or_default();
            mine.0 += count;
            examples.into_iter().for_each(|example| keep(&mut mine.1, example));
        }
    }
}

/// Keeps an example if there is room, and none of its kind.
fn keep(examples: &mut Vec<String>, example: String) {
    if examples.len() < SHOWN && !examples.iter().any(|other| kind(other) == kind(&example)) {
        examples.push(example);
    }
}

/// What was called, and what came of it in short.
fn kind(example: &str) -> &str {
    example.split_once(": ").map_or(example, |(kind, _)| kind)
}
