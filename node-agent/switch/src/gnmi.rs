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

pub use reach::{Reach, ReachError};

use crate::{
    config_db,
    counters::lldp::Neighbor,
    decide::Method,
    files::Files,
    switch::{Found, Manner, NEIGHBORS_EVERY, Switch},
    text,
};

/// Reads and changes after one another until the switch is known to have what it should.
const ROUNDS: usize = 4;
/// Ports' counters in SONiC's server.
const COUNTERS: &str = "COUNTERS_DB";
/// What its daemons say of ports.
const APPLICATIONS: &str = "APPL_DB";

/// A switch, called from a thread that is none of the runtime's.
#[derive(Debug)]
pub struct GnmiSwitch {
    client: Gnmi,
    runtime: Handle,
    /// No change that nobody waits for can still be under way there.
    settled: bool,
    neighbors: BTreeMap<String, Neighbor>,
    /// When they were asked for.
    asked: Option<Instant>,
}

impl GnmiSwitch {
    /// The switch that this client calls. Not `settled`: an agent that was killed may have left a change behind, which is waited for before
    /// anything is believed.
    #[must_use]
    pub const fn new(client: Gnmi, runtime: Handle, settled: bool) -> Self {
        Self { client, runtime, settled, neighbors: BTreeMap::new(), asked: None }
    }

    fn config(&self) -> Result<Config, String> {
        let config = self.runtime.block_on(sonic::config(&self.client)).map_err(|error| error.to_string())?;
        // Its database is empty while it starts, and what is laid over nothing would be nothing but that.
        if config.is_empty() {
            Err("the switch says that its database is empty".to_owned())
        } else {
            Ok(config)
        }
    }

    fn entries(&self, target: &str, names: &[&str]) -> Result<Map<String, Value>, Error> {
        self.runtime.block_on(sonic::entries(&self.client, target, names))
    }

    fn read_ports(&mut self) -> Result<Vec<SwitchPortStatus>, Error> {
        let ports = self.entries(APPLICATIONS, &["PORT_TABLE"])?;
        if self.asked.is_none_or(|asked| asked.elapsed() >= NEIGHBORS_EVERY) {
            self.neighbors = counted::neighbors(&self.entries(APPLICATIONS, &["LLDP_ENTRY_TABLE"])?);
            self.asked = Some(Instant::now());
        }
        let counters = self.entries(COUNTERS, &["COUNTERS", "Ethernet*"])?;
        let queues = self.entries(COUNTERS, &["COUNTERS", "Ethernet*", "Queues"])?;
        Ok(counted::ports(&ports, &counters, &queues, &self.neighbors))
    }

    /// Makes the switch have what `wanted` says for what it has, and does not return before that is known.
    fn change(&mut self, wanted: impl Fn(&Config) -> Result<Config, String>) -> Result<(), String> {
        let mut lost = String::new();
        for _ in 0..ROUNDS {
            let found = self.config()?;
            let mut edits = sonic::edits(&found, &wanted(&found)?);
            let is_as_wanted = edits.is_empty();
            if is_as_wanted {
                if self.settled {
                    return Ok(());
                }
                // Changes are made one after the other: what answers this has ended all before it.
                edits.extend(unchanged(&found));
            }
            match self.runtime.block_on(sonic::apply(&self.client, &edits)) {
                Ok(()) if self.settled => return Ok(()),
                Ok(()) => self.settled = true,
                Err(error @ (Error::Unreachable(_) | Error::TooLarge { .. } | Error::Malformed(_))) => {
                    self.settled = false;
                    lost = error.to_string();
                }
                // Another one would wait as long.
                Err(error @ Error::Late(_)) => {
                    self.settled = false;
                    lost = error.to_string();
                    break;
                }
                // It makes no changes of ours at all, and is as wanted.
                Err(_) if is_as_wanted => return Ok(()),
                // SONiC's server answers so also where its updater has stopped in the middle: whoever asked takes that back.
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("nobody knows whether the switch has made the change: {lost}"))
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
        self.read_ports().unwrap_or_else(|error| {
            tracing::debug!(%error, "ports cannot be read");
            Vec::new()
        })
    }

    fn sessions(&mut self) -> Option<Vec<SwitchSession>> {
        None
    }

    fn version(&mut self) -> String {
        let said = self.entries("OTHERS", &["osversion", "build"]).unwrap_or_default();
        let version = said.get("build_version").and_then(Value::as_str).unwrap_or_default();
        let version = version.trim().trim_start_matches("SONiC.");
        if version.is_empty() { "SONiC".to_owned() } else { text::within(&format!("SONiC {version}"), 128) }
    }
}

/// A change to what is there already.
fn unchanged(found: &Config) -> Option<Edit> {
    let mut fields = found.iter().flat_map(|(table, entries)| {
        entries.iter().filter_map(move |(key, entry)| Some((table, key, entry.as_object()?)))
    });
    fields.find_map(|(table, key, fields)| {
        let (field, value) = fields.iter().find(|(field, _)| !field.contains(['~', '/']))?;
        let (key, field) = (Some(key.clone()).filter(|key| !key.contains('~'))?, Some(field.clone()));
        Some(Edit { table: table.clone(), key: Some(key), field, value: Some(value.clone()) })
    })
}

fn written(config: Config) -> Value {
    Value::Object(config.into_iter().map(|(table, entries)| (table, Value::Object(entries))).collect())
}

fn parsed(text: &str) -> Result<Config, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{} is not tables of entries: {error}", config_db::FILE))
}

/// What a call to the switch may cost: the longest of [`crate::nos`] for a change, since the updater is the same.
#[must_use]
pub fn limits() -> node_agent_gnmi::Limits {
    node_agent_gnmi::Limits { write: Duration::from_secs(600), ..node_agent_gnmi::Limits::default() }
}

#[cfg(test)]
mod tests;
