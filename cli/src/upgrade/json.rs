//! Plan and status as JSON documents.

use serde_json::{Value, json};

use super::{
    model::{Facts, Plan, What},
    version::Version,
};

impl What {
    /// The word for programs.
    fn word(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Standby => "standby",
            Self::Leader => "leader",
            Self::Controllers => "controllers",
            Self::Agents => "agents",
            Self::SwitchAgents => "switchAgents",
        }
    }
}

/// The plan as one document.
#[must_use]
pub fn plan(of: &Plan) -> String {
    let refusals = of.refusals.iter().map(|one| json!({"code": one.why.code(), "message": one.message}));
    let steps = of.steps.iter().map(|step| {
        json!({
            "what": step.what.word(), "names": step.names, "effect": step.effect, "lasts": step.lasts, "back": step.back,
        })
    });
    let value = json!({
        "to": of.to.to_string(),
        "refusals": refusals.collect::<Vec<_>>(),
        "notes": of.notes,
        "steps": steps.collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// Of which release each part is.
#[must_use]
pub fn status(of: &Facts, railctl: Version) -> String {
    let word = |version: Option<Version>| version.map(|version| version.to_string());
    let controllers = of.controllers.iter().map(|one| {
        let (version, error) = match &one.version {
            Ok(version) => (Value::from(version.to_string()), Value::Null),
            Err(error) => (Value::Null, Value::from(error.as_str())),
        };
        json!({"address": one.at, "version": version, "error": error, "leads": one.leads})
    });
    let agents = of.agents.iter().map(
        |one| json!({"node": one.node, "version": word(one.version), "ready": one.ready, "jobs": one.jobs}),
    );
    let switches = of.switches.iter().map(|one| json!({"switch": one.name, "version": word(one.version)}));
    let value = json!({
        "railctl": railctl.to_string(),
        "leader": of.leader.as_ref().ok(),
        "leaderError": of.leader.as_ref().err(),
        "controllers": controllers.collect::<Vec<_>>(),
        "agents": agents.collect::<Vec<_>>(),
        "switchAgents": switches.collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
