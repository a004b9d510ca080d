//! What a change of the fabric document takes away.

use std::collections::BTreeSet;

use proto_model::{JobId, TenantName};

/// So many of them, in words.
pub fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A document may leave out one server of so many that the present one cables, and always one; one that leaves out more must say
/// that this is meant.
const SHARE: usize = 10;

/// What a change of the fabric document takes away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FabricImpact {
    /// Servers that the present document cables.
    pub servers: usize,
    /// Those of them that would not be cabled any more, in the order of their names.
    pub left_out: Vec<String>,
    /// Jobs that hold something on those: they go on, and no other one gets rails there.
    pub jobs: BTreeSet<JobId>,
}

impl FabricImpact {
    /// The tenants of those jobs.
    #[must_use]
    pub fn tenants(&self) -> BTreeSet<&TenantName> {
        self.jobs.iter().map(|job| &job.tenant).collect()
    }

    /// Why the document that would leave out so much is refused.
    pub fn in_words(&self, fabric: &str) -> String {
        let Self { servers, left_out, jobs } = self;
        let what = match left_out.as_slice() {
            all if all.len() == *servers => {
                format!("no server of the {servers} that fabric '{fabric}' cables")
            }
            some => {
                format!(
                    "only {} of the {servers} servers that fabric '{fabric}' cables",
                    servers - some.len()
                )
            }
        };
        let shown: Vec<&str> = left_out.iter().take(3).map(String::as_str).collect();
        let more = if left_out.len() > shown.len() { ", ..." } else { "" };
        let jobs = match jobs.len() {
            0 => "no job runs there".to_owned(),
            running => {
                format!("{} of {} there", count(running, "job"), count(self.tenants().len(), "tenant"))
            }
        };
        format!(
            "the document cables {what} (without {}{more}; {jobs}); nothing is changed. If that is meant, say so (`railctl apply --allow-shrink`, `allowShrink`)",
            shown.join(", ")
        )
    }

    /// Whether so much is left out that it may be a mistake.
    pub fn is_much(&self) -> bool {
        let left_out = self.left_out.len();
        left_out > 0 && (left_out == self.servers || left_out > 1 && left_out * SHARE > self.servers)
    }
}
