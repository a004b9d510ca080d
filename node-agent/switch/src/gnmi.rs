//! A SONiC switch that the agent does not run on: its database and its counters by gNMI.
//!
//! What differs from an agent on the switch: routing (`frr.conf`) is the site's own, since SONiC's server has no way to it; the server saves
//! every change at once, so that a switch that starts anew in the middle of a trial starts with what is tried, until the agent takes it
//! back; and what only a load of the whole database brings is refused, since the server cannot load one.

mod counted;
mod reach;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use node_agent_gnmi::{
    Error, Gnmi,
    sonic::{self, Config, Edit},
};
use proto_wire::v1::{SwitchPortStatus, SwitchSession};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use reach::CHANGE_MAX;
pub use reach::{Reach, ReachError};

use crate::{
    config_db,
    counters::lldp::Neighbor,
    decide::Method,
    files::Files,
    switch::{Found, Manner, NEIGHBORS_EVERY, Switch},
    text,
};

/// Changes after one another until the switch is known to have what it should.
const ROUNDS: usize = 3;
/// SONiC's server gives up waiting for its updater, and for saving, after a minute at the earliest, and answers so (UNKNOWN) while they go on
/// (sonic-gnmi, `sonic_service_client/dbus_client.go`): what is answered sooner has ended.
const ENDED_WITHIN: Duration = Duration::from_secs(55);
/// Its version is asked for again after this time.
const VERSION_EVERY: Duration = Duration::from_secs(300);
/// Ports' counters in SONiC's server, and the tables by which it finds them.
const COUNTERS: &str = "COUNTERS_DB";
const MAPS: [&str; 2] = ["COUNTERS_PORT_NAME_MAP", "COUNTERS_QUEUE_NAME_MAP"];
/// What its daemons say of ports.
const APPLICATIONS: &str = "APPL_DB";

/// What an earlier change may have left behind, for which nothing that is read is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unconfirmed {
    /// Nothing: what is read is what there is, and what is saved.
    Nothing,
    /// A change that may still be made, since then; what is read meanwhile is what was there before.
    Running(Instant),
    /// A change that has ended in the middle, or could not be saved: a change that is answered saves all.
    Unsaved,
}

/// A switch, called from a thread that is none of the runtime's.
#[derive(Debug)]
pub struct GnmiSwitch {
    client: Gnmi,
    /// Where the client comes from, for another one with newer credentials.
    reach: Reach,
    runtime: Handle,
    unconfirmed: Unconfirmed,
    /// Its daemons have said which counters are whose.
    has_maps: bool,
    /// It was logged that its ports cannot be read.
    is_logged: bool,
    neighbors: BTreeMap<String, Neighbor>,
    /// When they were asked for.
    neighbors_at: Option<Instant>,
    version: String,
    version_at: Option<Instant>,
}

impl GnmiSwitch {
    /// The switch that this client calls. Not `settled`: an agent that was killed may have left a change behind, which is waited for before
    /// anything is believed.
    #[must_use]
    pub fn new(client: Gnmi, reach: Reach, runtime: Handle, settled: bool) -> Self {
        Self {
            client,
            reach,
            runtime,
            unconfirmed: if settled { Unconfirmed::Nothing } else { Unconfirmed::Running(Instant::now()) },
            has_maps: false,
            is_logged: false,
            neighbors: BTreeMap::new(),
            neighbors_at: None,
            version: String::new(),
            version_at: None,
        }
    }

    fn config(&mut self) -> Result<Config, String> {
        match self.runtime.block_on(sonic::config(&self.client)) {
            // Its database is empty while it starts, and what is laid over nothing would be nothing but that.
            Ok(config) if config.is_empty() => Err("the switch says that its database is empty".to_owned()),
            Ok(config) => Ok(config),
            Err(error) => {
                if matches!(error, Error::Denied(_) | Error::Unreachable(_)) {
                    self.reload_credentials();
                }
                Err(error.to_string())
            }
        }
    }

    /// A certificate may have been renewed in its folder.
    fn reload_credentials(&mut self) {
        let _inside = self.runtime.enter();
        match self.reach.client() {
            Ok(Some(client)) => self.client = client,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the credentials for the switch cannot be read again"),
        }
    }

    fn entries(&self, target: &str, names: &[&str]) -> Result<Map<String, Value>, Error> {
        self.runtime.block_on(sonic::entries(&self.client, target, names))
    }

    /// All ports with all that they count, or none at all: a counter that is missing for once would look like one that begins anew.
    fn read_ports(&mut self) -> Result<Vec<SwitchPortStatus>, Error> {
        // The server reads these maps once, when counters are asked for first: not before they are there.
        if !self.has_maps {
            for map in MAPS {
                if self.runtime.block_on(sonic::table(&self.client, COUNTERS, map))?.is_empty() {
                    return Ok(Vec::new());
                }
            }
            self.has_maps = true;
        }
        let ports = self.entries(APPLICATIONS, &["PORT_TABLE"])?;
        if self.neighbors_at.is_none_or(|asked| asked.elapsed() >= NEIGHBORS_EVERY) {
            self.neighbors = counted::neighbors(&self.entries(APPLICATIONS, &["LLDP_ENTRY_TABLE"])?);
            self.neighbors_at = Some(Instant::now());
        }
        let counters = self.entries(COUNTERS, &["COUNTERS", "Ethernet*"])?;
        let queues = self.entries(COUNTERS, &["COUNTERS", "Ethernet*", "Queues"])?;
        Ok(counted::ports(&ports, &counters, &queues, &self.neighbors))
    }

    /// Makes the switch have what `wanted` says for what it has, and does not return before that was read, nor while an earlier change may
    /// still be under way.
    fn change(&mut self, wanted: impl Fn(&Config) -> Result<Config, String>) -> Result<(), String> {
        let begin = Instant::now();
        let (mut sent, mut why) = (0, String::new());
        loop {
            let found = self.config()?;
            let mut edits = sonic::edits(&found, &wanted(&found)?);
            let is_as_wanted = edits.is_empty();
            if is_as_wanted && self.unconfirmed == Unconfirmed::Nothing {
                return Ok(());
            }
            if sent == ROUNDS || begin.elapsed() > CHANGE_MAX {
                return Err(match self.unconfirmed {
                    Unconfirmed::Nothing => {
                        let count = edits.len();
                        format!("the switch has made the change, and still {count} settings are other ones")
                    }
                    Unconfirmed::Running(_) => {
                        format!("nobody knows whether the switch has made the change: {why}")
                    }
                    Unconfirmed::Unsaved => format!("the switch has not saved what it was set to: {why}"),
                });
            }
            if is_as_wanted {
                // Changes are made one after the other, and what is read meanwhile is what was there before: what answers this has ended all
                // before it.
                edits.extend(unchanged(&found));
            }
            sent += 1;
            let called = Instant::now();
            let result = self.runtime.block_on(sonic::apply(&self.client, &edits));
            let took = called.elapsed();
            why = match result {
                Ok(()) => {
                    self.unconfirmed = Unconfirmed::Nothing;
                    continue;
                }
                Err(error) if is_as_wanted => self.unchanged_failed(&error)?,
                Err(error) => self.failed(&error, took, &found)?,
            };
        }
    }

    /// What a change of what was `found` means that has failed after the time `took`: why, if the switch is to be read again.
    ///
    /// # Errors
    /// Why, if nothing more is to be tried now.
    fn failed(&mut self, error: &Error, took: Duration, found: &Config) -> Result<String, String> {
        let why = error.to_string();
        match error {
            Error::Unreachable(_) | Error::TooLarge { .. } | Error::Malformed(_) => {
                self.unconfirmed = Unconfirmed::Running(Instant::now());
                Ok(why)
            }
            Error::Late(_) => {
                self.unconfirmed = Unconfirmed::Running(Instant::now());
                Err(why)
            }
            Error::Failed { .. } if took >= ENDED_WITHIN => {
                self.unconfirmed = Unconfirmed::Running(Instant::now());
                Err(why)
            }
            // SONiC's server answers so (UNKNOWN) to a caller without the role, and to whatever its updater, or saving, says, also where it has
            // stopped in the middle. It has ended, so that what is read now is what came of it: nothing, if all is as it was.
            Error::Failed { .. } => {
                if !self.config().is_ok_and(|now| now == *found) {
                    self.unconfirmed = Unconfirmed::Unsaved;
                }
                Err(why)
            }
            _ => Err(why),
        }
    }

    /// What it means that a change to what is there already has failed: why, if the switch is to be read again.
    ///
    /// # Errors
    /// Why, if nothing more is to be tried now.
    fn unchanged_failed(&mut self, error: &Error) -> Result<String, String> {
        let why = error.to_string();
        let is_over = matches!(self.unconfirmed, Unconfirmed::Running(since) if since.elapsed() > CHANGE_MAX);
        match error {
            Error::Unreachable(_) | Error::TooLarge { .. } | Error::Malformed(_) => Ok(why),
            Error::Refused(_) => {
                self.unconfirmed = Unconfirmed::Nothing;
                Ok(why)
            }
            // It makes no changes of ours any more, so that none can be waited for by another one.
            Error::Denied(_) | Error::ReadOnly(_) | Error::Unsupported(_) if is_over => {
                self.unconfirmed = Unconfirmed::Nothing;
                Ok(why)
            }
            // The same, or it cannot save: what it has now may not be what it starts with.
            Error::Failed { .. } if is_over => {
                self.unconfirmed = Unconfirmed::Unsaved;
                Err(why)
            }
            _ => Err(why),
        }
    }
}

impl Switch for GnmiSwitch {
    fn read(&mut self) -> Found {
        let unreadable = |why: String| Found { files: Files::default(), unreadable: text::bounded(&why) };
        let text = match self.config() {
            Ok(config) => format!("{:#}\n", written(config)),
            Err(why) => return unreadable(format!("{}: {why}", config_db::FILE)),
        };
        match Files::new([(config_db::FILE.to_owned(), text)]) {
            Ok(files) => Found { files, unreadable: String::new() },
            Err(error) => unreadable(error.to_string()),
        }
    }

    fn put(&mut self, files: &Files, manner: Manner<'_>, method: Method) -> Result<(), String> {
        let wanted =
            files.get(config_db::FILE).ok_or_else(|| format!("there is no {} for it", config_db::FILE))?;
        match manner {
            Manner::Planned { .. } if method == Method::Reload => Err(
                "SONiC takes this by loading its whole database alone, which its gNMI server cannot: run `config reload` with the rendered file on the switch, or rail-switch-agent there"
                    .to_owned(),
            ),
            Manner::Planned { owned } => self.change(|found| {
                let merged = config_db::merge(&written(found.clone()).to_string(), wanted, owned);
                parsed(&merged.map_err(|error| error.to_string())?)
            }),
            Manner::Exact => self.change(|_| parsed(wanted)),
        }
    }

    /// The server has saved each change before it answered.
    fn persist(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn ports(&mut self) -> Vec<SwitchPortStatus> {
        let read = self.read_ports();
        if let Err(error) = &read
            && !self.is_logged
        {
            tracing::warn!(%error, "the ports of the switch cannot be read");
        }
        self.is_logged = read.is_err();
        read.unwrap_or_default()
    }

    fn sessions(&mut self) -> Option<Vec<SwitchSession>> {
        None
    }

    fn version(&mut self) -> String {
        if self.version_at.is_none_or(|asked| asked.elapsed() >= VERSION_EVERY)
            && let Ok(said) = self.entries("OTHERS", &["osversion", "build"])
        {
            let version = said.get("build_version").and_then(Value::as_str).unwrap_or_default();
            let version = version.trim().trim_start_matches("SONiC.");
            self.version = text::within(format!("SONiC {version}").trim(), 128);
            self.version_at = Some(Instant::now());
        }
        self.version.clone()
    }
}

/// A change to what is there already: the switch's name, or else what is first.
fn unchanged(found: &Config) -> Option<Edit> {
    let edit = |table: &str, key: &str, field: &str| {
        let value = found.get(table)?.get(key)?.get(field)?.clone();
        let (key, field) = (Some(key.to_owned()), Some(field.to_owned()));
        Some(Edit { table: table.to_owned(), key, field, value: Some(value) })
    };
    let is_plain = |name: &&String| !name.contains(['~', '/']);
    edit("DEVICE_METADATA", "localhost", "hostname").or_else(|| {
        let mut entries =
            found.iter().flat_map(|(table, entries)| entries.iter().map(move |one| (table, one)));
        entries.find_map(|(table, (key, entry))| {
            let field = entry.as_object()?.keys().find(is_plain)?;
            edit(table, Some(key).filter(is_plain)?, field)
        })
    })
}

fn written(config: Config) -> Value {
    Value::Object(config.into_iter().map(|(table, entries)| (table, Value::Object(entries))).collect())
}

fn parsed(text: &str) -> Result<Config, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{} is not tables of entries: {error}", config_db::FILE))
}

#[cfg(test)]
mod tests;
