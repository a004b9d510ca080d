//! The desired state of this server's class of service: which NIC is to be what, what is said of each, and the file in which
//! it outlives the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use node_agent_os::files::{self, Durability};
use node_agent_qos::{QosProfile, journal::Asker, profile::from_json};
use proto_model::{DesiredQos, Nic, QosPort, QosState};
use serde::{Deserialize, Serialize};

use crate::keeper::{Aim, Verdict};

/// Bytes of what is said of a NIC.
const MESSAGE_MAX: usize = 1000;

/// The desired state as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    generation: u64,
    document: String,
    before: Option<String>,
    confirm_within_ms: u64,
    trial: BTreeSet<u32>,
    kept: BTreeSet<u32>,
    #[serde(default)]
    number: u64,
}

/// The file in which the desired state is kept.
#[must_use]
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("qos").join("desired.json")
}

/// Keeps desired state.
///
/// # Errors
/// It cannot be written.
pub fn save(path: &Path, desired: &DesiredQos) -> io::Result<()> {
    let saved = Saved {
        generation: desired.generation,
        document: desired.document.to_string(),
        before: desired.before.as_deref().map(str::to_owned),
        confirm_within_ms: u64::try_from(desired.confirm_within.as_millis()).unwrap_or(u64::MAX),
        trial: desired.trial.clone(),
        kept: desired.kept.clone(),
        number: desired.number,
    };
    files::write_json(path, &saved, Durability::Process)
}

/// The desired state that was kept, if there is one.
///
/// # Errors
/// It cannot be read.
pub fn load(path: &Path) -> io::Result<Option<DesiredQos>> {
    let desired = |saved: Saved| DesiredQos {
        generation: saved.generation,
        document: saved.document.into(),
        before: saved.before.map(Into::into),
        confirm_within: Duration::from_millis(saved.confirm_within_ms),
        trial: saved.trial,
        kept: saved.kept,
        number: saved.number,
    };
    Ok(files::read_json::<Saved>(path)?.map(desired))
}

/// How far each NIC is with desired state.
#[derive(Debug)]
pub struct Progress {
    desired: Arc<DesiredQos>,
    profile: Result<Arc<QosProfile>, String>,
    before: Option<Result<Arc<QosProfile>, String>>,
    /// The state of each NIC, by the name of its network device.
    ports: BTreeMap<String, QosPort>,
    /// What each NIC is to be.
    aims: BTreeMap<String, Aim>,
    /// Those that were looked at since they are to be that: whatever the outcome, nothing is under way there.
    done: BTreeSet<String>,
}

fn read(document: &str) -> Result<Arc<QosProfile>, String> {
    from_json(document)
        .map(Arc::new)
        .map_err(|error| format!("this agent does not accept the profile: {error}"))
}

impl Progress {
    /// Nothing has been seen yet; what an agent before this one said of the same rollout is not known.
    #[must_use]
    pub fn new(desired: Arc<DesiredQos>) -> Self {
        let profile = read(&desired.document);
        let before = desired.before.as_deref().map(read);
        let (ports, aims, done) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { desired, profile, before, ports, aims, done }
    }

    /// Another desired state. Of the same rollout what was seen stays.
    pub fn desired(&mut self, desired: Arc<DesiredQos>) {
        if desired.generation == self.desired.generation && desired.document == self.desired.document {
            self.desired = desired;
        } else {
            *self = Self::new(desired);
        }
    }

    /// What each NIC is to be. `known` are those of which class of service can be kept; of others that is said.
    pub fn aims(&mut self, nics: &[Nic], known: &BTreeSet<String>) -> BTreeMap<String, Aim> {
        let mut aims = BTreeMap::new();
        let mut ports = BTreeMap::new();
        let mut done = BTreeSet::new();
        for nic in nics {
            let old = self.ports.remove(&nic.netdev).filter(|old| old.device == nic.device);
            let answered = old.as_ref().map_or(0, |old| old.observed_generation);
            let (on_trial, kept) =
                (self.desired.trial.contains(&nic.rail), self.desired.kept.contains(&nic.rail));
            let mut port = old.unwrap_or_else(|| self.port(nic, QosState::Held, ""));
            if on_trial || kept {
                let failed = match &self.profile {
                    Err(error) => Some(error.clone()),
                    Ok(_) if !known.contains(&nic.netdev) && port.state == QosState::Held => Some(format!(
                        "{} has no RDMA device, so there is no class of service to be kept",
                        nic.netdev
                    )),
                    Ok(_) => None,
                };
                if let Some(why) = failed {
                    port = self.port(nic, QosState::Failed, &why);
                }
            } else if port.state != QosState::Failed {
                port = self.port(nic, QosState::Held, "");
            }
            let who = Some(Asker::Rollout { generation: self.desired.generation });
            let profile = if on_trial || kept {
                self.profile.as_ref().ok().cloned()
            } else {
                self.before.as_ref().and_then(|before| before.as_ref().ok().cloned())
            };
            let trial = (on_trial && profile.is_some()).then_some(self.desired.confirm_within);
            let aim = Aim { profile, trial, who };
            // What class of service is not kept of is not looked at.
            let as_before = self.aims.get(&nic.netdev) == Some(&aim) && self.done.contains(&nic.netdev);
            port.observed_generation = answered;
            if as_before || !known.contains(&nic.netdev) {
                port.observed_generation = self.desired.number;
                done.insert(nic.netdev.clone());
            }
            aims.insert(nic.netdev.clone(), aim);
            ports.insert(nic.netdev.clone(), port);
        }
        (self.ports, self.done, self.aims) = (ports, done, aims.clone());
        aims
    }

    fn port(&self, nic: &Nic, state: QosState, message: &str) -> QosPort {
        let (device, generation) = (nic.device.clone(), self.desired.generation);
        QosPort {
            device,
            generation,
            state,
            message: line(message),
            observed_generation: self.desired.number,
        }
    }

    /// What a check of a NIC found.
    pub fn see(&mut self, nics: &[Nic], netdev: &str, verdict: &Verdict, text: &str) {
        let Some(nic) = nics.iter().find(|nic| nic.netdev == netdev) else { return };
        // Its driver is being reloaded, for example: what follows shows.
        if matches!(verdict, Verdict::Gone) {
            return;
        }
        self.done.insert(netdev.to_owned());
        let on_trial = self.desired.trial.contains(&nic.rail);
        let named = on_trial || self.desired.kept.contains(&nic.rail);
        let state = match verdict {
            // There is nothing new to say; of a profile that is not accepted nothing was tried.
            _ if !named || self.profile.is_err() => {
                if let Some(port) = self.ports.get_mut(netdev) {
                    port.observed_generation = self.desired.number;
                }
                return;
            }
            Verdict::Trial(_) | Verdict::Clean | Verdict::Mended(_) if on_trial => QosState::Trial,
            Verdict::Clean | Verdict::Mended(_) => QosState::Kept,
            _ if on_trial => QosState::Failed,
            _ => QosState::Differs,
        };
        let text = if matches!(state, QosState::Trial | QosState::Kept) { "" } else { text };
        let port = self.port(nic, state, text);
        self.ports.insert(netdev.to_owned(), port);
    }

    /// What is said of all of them.
    #[must_use]
    pub fn ports(&self) -> Vec<QosPort> {
        let mut ports: Vec<QosPort> = self.ports.values().cloned().collect();
        ports.sort_by(|a, b| a.device.cmp(&b.device));
        ports
    }
}

/// One printable line of a bounded length.
fn line(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line = String::new();
    for c in printable {
        if line.len() + c.len_utf8() > MESSAGE_MAX {
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use node_agent_host::counters::recorded;

    use super::*;
    use crate::run::RunError;

    fn nic(rail: u32) -> Nic {
        recorded::nic(rail, &format!("mlx5_{rail}"), &format!("rail{rail}"))
    }

    fn desired(generation: u64, trial: &[u32], kept: &[u32]) -> Arc<DesiredQos> {
        Arc::new(DesiredQos {
            generation,
            document: "{}".into(),
            before: None,
            confirm_within: Duration::from_secs(60),
            trial: trial.iter().copied().collect(),
            kept: kept.iter().copied().collect(),
            number: 1,
        })
    }

    fn states(progress: &Progress) -> Vec<QosState> {
        progress.ports().into_iter().map(|port| port.state).collect()
    }

    #[test]
    fn a_nic_is_held_tried_and_kept() {
        let nics = [nic(0), nic(1)];
        let known: BTreeSet<String> = nics.iter().map(|nic| nic.netdev.clone()).collect();
        let mut progress = Progress::new(desired(1, &[0], &[]));
        let aims = progress.aims(&nics, &known);
        assert_eq!(
            (aims["rail0"].trial, aims["rail0"].profile.is_some()),
            (Some(Duration::from_secs(60)), true)
        );
        assert_eq!((aims["rail1"].trial, aims["rail1"].profile.is_some()), (None, false));
        assert_eq!(states(&progress), [QosState::Held; 2]);
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        progress.see(&nics, "rail1", &Verdict::Clean, "");
        assert_eq!(states(&progress), [QosState::Trial, QosState::Held], "nothing to be done is a trial too");
        progress.desired(desired(1, &[], &[0]));
        assert_eq!(progress.aims(&nics, &known)["rail0"].trial, None);
        assert_eq!(states(&progress)[0], QosState::Trial, "until it is confirmed");
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        progress.see(&nics, "rail0", &Verdict::Gone, "it is not there");
        assert_eq!(states(&progress)[0], QosState::Kept);
        let failed = || Verdict::Failed(RunError::NothingToUndo { netdev: "rail0".into() });
        progress.see(&nics, "rail0", &failed(), "two\nlines");
        assert_eq!(
            (states(&progress)[0], progress.ports()[0].message.as_str()),
            (QosState::Differs, "two lines")
        );
        let unverified = || Verdict::Unverified(vec!["EIO".into()]);
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        progress.see(&nics, "rail0", &unverified(), "EIO");
        assert_eq!(states(&progress)[0], QosState::Differs, "what was not read is not kept");
        progress.desired(desired(1, &[0], &[]));
        progress.aims(&nics, &known);
        progress.see(&nics, "rail0", &unverified(), "EIO");
        assert_eq!(states(&progress)[0], QosState::Failed);
        progress.see(&nics, "rail0", &failed(), "x");
        assert_eq!(states(&progress)[0], QosState::Failed);
        progress.desired(desired(1, &[], &[]));
        progress.aims(&nics, &known);
        assert_eq!(states(&progress)[0], QosState::Failed, "it is told until there is another rollout");
        progress.desired(desired(2, &[], &[]));
        progress.aims(&nics, &known);
        assert_eq!(states(&progress), [QosState::Held; 2]);
    }

    #[test]
    fn what_it_is_done_with_is_told() {
        let nics = [nic(0), nic(1)];
        let known = BTreeSet::from(["rail0".to_owned()]);
        let numbered = |number, trial: &[u32], generation| {
            Arc::new(DesiredQos { number, ..(*desired(generation, trial, &[])).clone() })
        };
        let numbers = |progress: &Progress| -> Vec<u64> {
            progress.ports().into_iter().map(|port| port.observed_generation).collect()
        };
        let mut progress = Progress::new(numbered(5, &[], 1));
        progress.aims(&nics, &known);
        assert_eq!(numbers(&progress), [0, 5], "of the other class of service is not kept");
        progress.see(&nics, "rail0", &Verdict::Gone, "");
        assert_eq!(numbers(&progress), [0, 5]);
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        assert_eq!(numbers(&progress), [5, 5]);
        progress.desired(numbered(6, &[], 1));
        progress.aims(&nics, &known);
        assert_eq!(numbers(&progress), [6, 6], "it is to be what it was to be");
        progress.desired(numbered(7, &[0], 1));
        progress.aims(&nics, &known);
        assert_eq!(numbers(&progress), [6, 7]);
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        assert_eq!((numbers(&progress), states(&progress)[0]), (vec![7, 7], QosState::Trial));
        progress.desired(numbered(8, &[], 1));
        progress.aims(&nics, &known);
        assert_eq!(numbers(&progress), [7, 8], "it is to be taken back still");
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        assert_eq!((numbers(&progress), states(&progress)[0]), (vec![8, 8], QosState::Held));
        progress.desired(numbered(9, &[], 2));
        progress.aims(&nics, &known);
        assert_eq!(numbers(&progress), [0, 9]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let nics = [nic(0)];
        let mut progress = Progress::new(desired(1, &[0], &[]));
        progress.aims(&nics, &BTreeSet::new());
        assert!(progress.ports()[0].message.contains("has no RDMA device"), "{:?}", progress.ports());
        let bad = DesiredQos { document: r#"{"mtu": "big"}"#.into(), ..(*desired(1, &[0], &[])).clone() };
        let mut progress = Progress::new(Arc::new(bad));
        let aims = progress.aims(&nics, &BTreeSet::from(["rail0".to_owned()]));
        assert!(aims["rail0"].profile.is_none() && aims["rail0"].trial.is_none());
        let port = &progress.ports()[0];
        assert!(port.state == QosState::Failed && port.message.contains("does not accept"), "{port:?}");
        progress.see(&nics, "rail0", &Verdict::Clean, "");
        assert_eq!((states(&progress)[0], progress.ports()[0].observed_generation), (QosState::Failed, 1));
        assert!(line(&"é".repeat(4000)).len() <= MESSAGE_MAX);
    }

    #[test]
    fn a_desired_outlives_the_agent() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("desired.json");
        assert_eq!(load(&path).unwrap(), None);
        let desired = DesiredQos { before: Some("{}".into()), ..(*desired(3, &[1], &[0])).clone() };
        save(&path, &desired).unwrap();
        assert_eq!(load(&path).unwrap(), Some(desired));
        std::fs::write(&path, "{").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("desired.json"));
    }
}
