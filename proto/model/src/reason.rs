//! Causes, for people and for programs.

use std::{borrow::Cow, fmt};

use crate::Timestamp;

/// One cause of a state or of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// UpperCamelCase, stable; for example `GpuCapacity`.
    pub code: Cow<'static, str>,
    /// One sentence: what, where, what to do.
    pub message: String,
    /// How many objects it concerns; 0 where counting makes no sense.
    pub count: u32,
    /// What it is about, for example `node/n3`; may be empty.
    pub scope: String,
    /// Since when, where known.
    pub since: Option<Timestamp>,
}

impl Reason {
    /// A cause without count, scope and time.
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), count: 0, scope: String::new(), since: None }
    }

    /// Says how many objects it concerns.
    #[must_use]
    pub fn count(mut self, count: usize) -> Self {
        self.count = u32::try_from(count).unwrap_or(u32::MAX);
        self
    }

    /// Says what it is about.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Says since when.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// A number of things in words: `1 node`, `3 nodes`.
#[must_use]
pub fn many(count: impl fmt::Display, what: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::many;

    #[test]
    fn one_thing_has_no_ending() {
        assert_eq!([many(0, "node"), many(1_u64, "node"), many(11, "GPU")], ["0 nodes", "1 node", "11 GPUs"]);
    }
}
