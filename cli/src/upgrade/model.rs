//! What is known of a cluster before an upgrade, and what a plan is.

use super::version::Version;

/// The version of the rows that a controller of this release stores; a test holds it to the controller's own.
pub const ROWS: u32 = 3;
/// That of the release before, as `proto/released/commits` has it.
pub const ROWS_BEFORE: u32 = 2;

/// A controller, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Where it was asked.
    pub at: String,
    /// Its release, or why it is not known.
    pub version: Result<Version, String>,
    /// It leads, as far as its address tells.
    pub leads: bool,
}

/// The agent of a server, as the controller knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its server.
    pub node: String,
    /// Its release; `None` where it was never heard, or says none.
    pub version: Option<Version>,
    /// It is heard.
    pub ready: bool,
    /// Jobs that hold something of the server.
    pub jobs: usize,
}

/// The agent of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The switch.
    pub name: String,
    /// Its agent's release; `None` where there is no agent, or it says none.
    pub version: Option<Version>,
}

/// What was seen of backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backup {
    /// Nobody said where they are.
    Unknown,
    /// Whoever asks answers for it.
    Waived,
    /// There is none where they should be.
    Absent,
    /// Where they should be there are those of other clusters only.
    OfOthers,
    /// The newest one.
    Newest {
        /// When it was made, in seconds since 1970.
        at: i64,
        /// The revision of the store that it has.
        revision: u64,
    },
}

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Now, in seconds since 1970.
    pub now: i64,
    /// The controllers that were asked.
    pub controllers: Vec<Controller>,
    /// Which one leads, by its own word: host and process; or why nobody says so.
    pub leader: Result<String, String>,
    /// The newest revision of the store.
    pub revision: u64,
    /// Why the store takes no writes, where it takes none.
    pub unwritable: Option<String>,
    /// The agents of all servers.
    pub agents: Vec<Agent>,
    /// The agents of all switches.
    pub switches: Vec<Switch>,
    /// Rollouts that have begun and not ended, in words.
    pub rollouts: Vec<&'static str>,
    /// What is known of backups.
    pub backup: Backup,
}

impl Facts {
    /// What is known where nobody leads: what each controller says of itself.
    #[must_use]
    pub fn without_leader(controllers: Vec<Controller>, why: String) -> Self {
        Self {
            now: 0,
            controllers,
            leader: Err(why),
            revision: 0,
            unwritable: None,
            agents: Vec::new(),
            switches: Vec::new(),
            rollouts: Vec::new(),
            backup: Backup::Unknown,
        }
    }
}

/// Where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The release that is asked for.
    pub version: Version,
    /// That of the railctl that is asked.
    pub railctl: Version,
    /// The oldest that a backup may be, in seconds.
    pub backup_within: i64,
}

/// What keeps an upgrade from being begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// More than one release lies between two programs.
    TooFar,
    /// An upgrade before was not ended.
    Mixed,
    /// A controller of a later release runs.
    NoWayBack,
    /// The railctl of another release is to be asked.
    OtherRailctl,
    /// A controller does not say of which release it is.
    ControllerAway,
    /// The store takes no writes.
    StoreUnwritable,
    /// A rollout has begun and not ended.
    RolloutUnderWay,
    /// No backup of late is known.
    NoBackup,
}

impl Why {
    /// The word for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooFar => "TooFar",
            Self::Mixed => "Mixed",
            Self::NoWayBack => "NoWayBack",
            Self::OtherRailctl => "OtherRailctl",
            Self::ControllerAway => "ControllerAway",
            Self::StoreUnwritable => "StoreUnwritable",
            Self::RolloutUnderWay => "RolloutUnderWay",
            Self::NoBackup => "NoBackup",
        }
    }
}

/// Why it is not to be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of it.
    pub why: Why,
    /// For people: what is so, and what to do.
    pub message: String,
}

/// What a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A backup of the store.
    Backup,
    /// A controller that does not lead.
    Standby,
    /// The controller that leads.
    Leader,
    /// Controllers of which no address says which one leads.
    Controllers,
    /// Agents of servers, with what jobs take from them.
    Agents,
    /// Agents of switches.
    SwitchAgents,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is about.
    pub what: What,
    /// Which ones, in the order in which to do them.
    pub names: Vec<String>,
    /// What it does to those who use the cluster.
    pub effect: String,
    /// About how long that lasts for each.
    pub lasts: &'static str,
    /// How to go back from there.
    pub back: &'static str,
}

/// The order in which to upgrade, or why not to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The release to go to.
    pub to: Version,
    /// What keeps it from being begun; nothing: it may be.
    pub refusals: Vec<Refusal>,
    /// What to know besides.
    pub notes: Vec<String>,
    /// What is to be done, in this order. Without refusals and steps nothing is older than that release.
    pub steps: Vec<Step>,
}
