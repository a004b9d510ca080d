//! One setting that is not as desired.

use std::fmt;

use super::impact::Impact;

/// The file of SONiC's settings.
pub const CONFIG_DB: &str = "config_db.json";
/// The file of FRR's.
pub const FRR_CONF: &str = "frr.conf";

/// One setting that is not as desired.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// What the change does to traffic; the worst comes first in no order but this.
    pub impact: Impact,
    /// The file that it stands in.
    pub file: &'static str,
    /// TABLE|KEY|field, or a part of the routing.
    pub path: String,
    /// As desired; empty: it should not be there.
    pub desired: String,
    /// As read back; empty: it is missing.
    pub found: String,
    /// Why it does that to traffic.
    pub why: &'static str,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &str| if text.is_empty() { "nothing".to_owned() } else { format!("'{text}'") };
        write!(f, "{} {}: {} in place of {}", self.file, self.path, or(&self.desired), or(&self.found))
    }
}
