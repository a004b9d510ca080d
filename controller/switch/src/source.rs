//! Values that say where they come from.

use std::fmt;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Published: a vendor's or a project's table or paper, by name.
    Published(&'static str),
    /// A field of the profile.
    Profile(&'static str),
    /// The fabric's document or the list of switches.
    Fabric(&'static str),
    /// Worked out by a rule, by name.
    Rule(&'static str),
    /// Nobody publishes it; taken for this reason.
    Assumed(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published(text) => write!(f, "published: {text}"),
            Self::Profile(field) => write!(f, "profile: {field}"),
            Self::Fabric(text) => write!(f, "fabric: {text}"),
            Self::Rule(text) => write!(f, "rule: {text}"),
            Self::Assumed(text) => write!(f, "assumed: {text}"),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: Source,
}

impl<T> Sourced<T> {
    /// A value that is published there.
    pub const fn published(value: T, at: &'static str) -> Self {
        Self { value, source: Source::Published(at) }
    }

    /// A value that nobody publishes.
    pub const fn assumed(value: T, why: &'static str) -> Self {
        Self { value, source: Source::Assumed(why) }
    }
}

impl<T: fmt::Display> fmt::Display for Sourced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.value, self.source)
    }
}
