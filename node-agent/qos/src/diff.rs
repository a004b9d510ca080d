//! The verdict on a port: what deviates from the profile and what that does to RDMA traffic, and what cannot be known.

mod compare;
mod meaning;

use serde::{Deserialize, Serialize};

use crate::{
    item::Item,
    observed::{Observed, Reading},
    profile::QosProfile,
    vendor::{self, How, Vendor, Weight},
};

pub(crate) use compare::{Compared, State, all};

/// One thing that is not as the profile has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Deviation {
    /// The setting that differs.
    pub item: Item,
    /// The value that the profile wants.
    pub wanted: String,
    /// The value that the port has.
    pub found: String,
    /// What it does to RDMA traffic.
    pub meaning: String,
}

/// One thing that nobody can decide from here, or that nothing here can fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Finding {
    /// Which; none if it is about the port or the server as a whole.
    pub item: Option<Item>,
    /// Whether RDMA traffic may suffer by it.
    pub matters: bool,
    /// What, why, and what helps.
    pub text: String,
}

/// What is wrong with a port, and what is not known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Verdict {
    /// In the order of the profile's fields.
    pub deviations: Vec<Deviation>,
    /// What nobody can decide or fix from here, in the same order.
    pub findings: Vec<Finding>,
}

/// Compares a port with its profile.
#[must_use]
pub fn diff(profile: &QosProfile, observed: &Observed, vendor: &Vendor) -> Verdict {
    let mut verdict = Verdict::default();
    agents(observed, &mut verdict.findings);
    for Compared { item, state } in compare::all(profile, &observed.settings, vendor) {
        let row = vendor.row(vendor::aspect(item));
        match state {
            State::Same => {}
            State::Differs { wanted, found } => {
                let meaning = meaning::of(item, &found, profile);
                verdict.deviations.push(Deviation { item, wanted, found, meaning });
                if let How::Never { why, .. } = row.how
                    && !matches!(item, Item::Trust)
                {
                    let text = format!("{item} deviates and cannot be set here: {}", fill(why, observed));
                    verdict.findings.push(Finding { item: Some(item), matters: true, text });
                }
            }
            State::Unsupported { wanted } => {
                let finding = match row.how {
                    How::Never { why, weight } => Finding {
                        item: Some(item),
                        matters: weight == Weight::Matters,
                        text: format!(
                            "{item} {wanted} cannot be set or verified here: {}",
                            fill(why, observed)
                        ),
                    },
                    How::Set { .. } => Finding {
                        item: Some(item),
                        matters: true,
                        text: format!(
                            "{item} {wanted} cannot be set: this device has no such thing, others of its kind do"
                        ),
                    },
                };
                verdict.findings.push(finding);
            }
            State::Unreadable { wanted, why } => {
                let factory = if row.factory.is_empty() {
                    String::new()
                } else {
                    format!("; by default it is {}", row.factory)
                };
                let text = format!("{item} should be {wanted}, but cannot be read: {why}{factory}");
                verdict.findings.push(Finding { item: Some(item), matters: true, text });
            }
        }
    }
    verdict.findings.dedup();
    verdict
}

/// Programs that would change what is set.
fn agents(observed: &Observed, findings: &mut Vec<Finding>) {
    let text = match &observed.agents {
        Reading::Known(agents) if agents.is_empty() => return,
        Reading::Known(agents) => {
            let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
            format!(
                "{} runs on this server and overwrites class of service whenever it likes",
                names.join(", ")
            )
        }
        Reading::Unsupported => return,
        Reading::Unreadable(why) => format!("whether an LLDP or DCBX agent runs is not known: {why}"),
    };
    findings.push(Finding { item: None, matters: true, text });
}

/// Names of the device in a text of a table.
fn fill(text: &str, observed: &Observed) -> String {
    text.replace("{pci}", observed.device.pci.as_deref().unwrap_or("?"))
}
