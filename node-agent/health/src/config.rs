//! What a site may set.

use std::collections::BTreeMap;

use proto_model::Timestamp;

use crate::{
    limits::Limits,
    rules::{RULES, Rule, Test},
};

/// What health is judged by.
#[derive(Debug, Clone)]
pub struct Config {
    /// Rules on rates and counts that hold, each with its test.
    pub rules: Vec<(&'static Rule, Test)>,
    /// The numbers of the detectors.
    pub limits: Limits,
    /// Packets may take several paths: a gap of sequence numbers is no loss.
    pub adaptive_routing: bool,
    /// When the server was booted.
    pub booted: Timestamp,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rules: RULES.iter().map(|rule| (rule, rule.test)).collect(),
            limits: Limits::default(),
            adaptive_routing: false,
            booted: Timestamp::default(),
        }
    }
}

/// A rule was named that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no health rule '{name}'; there are {}", known())]
pub struct UnknownRule {
    /// The name that was given.
    pub name: String,
}

fn known() -> String {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.fact.id).collect();
    names.join(", ")
}

impl Config {
    /// The published rules, with some that a site changed or (`None`) turned off.
    ///
    /// # Errors
    /// A rule that there is not.
    pub fn new(
        adaptive_routing: bool,
        changed: &BTreeMap<String, Option<Test>>,
    ) -> Result<Self, UnknownRule> {
        if let Some(name) = changed.keys().find(|name| RULES.iter().all(|rule| rule.fact.id != *name)) {
            return Err(UnknownRule { name: name.clone() });
        }
        let rules = RULES.iter().filter(|rule| !(adaptive_routing && rule.ordered_only)).filter_map(|rule| {
            let test = changed.get(rule.fact.id).copied().unwrap_or(Some(rule.test))?;
            Some((rule, test))
        });
        Ok(Self { rules: rules.collect(), adaptive_routing, ..Self::default() })
    }
}
