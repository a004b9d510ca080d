//! Upgrades of a cluster: of which release each part is, and in which order to upgrade what. A decision of what was seen ([`model::Facts`]); nothing here asks
//! anybody.

mod json;
mod model;
mod notes;
mod plan;
mod steps;
#[cfg(test)]
mod tests;
mod text;
mod version;

pub use json::{plan as plan_json, status as status_json};
pub use model::{Agent, Backup, Controller, Facts, Switch, Target};
pub use plan::plan;
pub use text::{plan as plan_text, status as status_text};
pub use version::Version;
