//! A thread of the agent that keeps class of service as a profile says. What harms traffic it leaves to somebody who knows that the
//! server is drained (`rail-node-agent qos apply --drained`), and says so once.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use node_agent_host::qos::{
    Keeper, Outcome,
    keeper::{KeeperError, Verdict},
    looks::Timing,
};
use node_agent_netlink::RealKernel;
use node_agent_qos::{Options, QosProfile};
use proto_model::Severity;
use tokio::sync::watch;

use super::journal::FileJournal;

/// What is wrong with the class of service of NICs, by network device.
pub type Faults = BTreeMap<String, (Severity, String)>;

/// How long the end of the agent waits for this thread at most.
const TURN: Duration = Duration::from_millis(500);

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Keeping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeping {
    /// Starts it; what is wrong goes to `faults`.
    ///
    /// # Errors
    /// The journal is another's or cannot be read, or the kernel tells no events.
    pub fn start(
        data_dir: &Path,
        profile: QosProfile,
        faults: watch::Sender<Faults>,
    ) -> Result<Self, KeeperError> {
        let journal = Box::new(FileJournal::open(data_dir)?);
        let kernel = Arc::new(RealKernel::new());
        let options = Options::default();
        let mut keeper = Keeper::new(kernel, journal, profile, options, "agent", Timing::default())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let mut told = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                match keeper.turn(TURN, false) {
                    Ok(outcomes) => {
                        outcomes.iter().for_each(|outcome| tell(outcome, &mut told));
                        let now = wrong(&told, &keeper.out_of_service());
                        faults.send_if_modified(|known| {
                            let other = *known != now;
                            *known = now;
                            other
                        });
                    }
                    Err(error) => {
                        tracing::error!(%error, "class of service is no longer kept; restart the agent");
                        return;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("qos".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed there.
            let _ = thread.join();
        }
    }
}

/// A NIC that may be half of one thing and half of another serves no new job; one that is merely not as its profile says does.
fn wrong(told: &BTreeMap<String, String>, out_of_service: &BTreeMap<String, String>) -> Faults {
    let differs = told.iter().filter(|(_, text)| !text.is_empty());
    let mut all: Faults =
        differs.map(|(netdev, text)| (netdev.clone(), (Severity::Degraded, text.clone()))).collect();
    all.extend(out_of_service.iter().map(|(netdev, why)| (netdev.clone(), (Severity::Drain, why.clone()))));
    all
}

/// Logs what is new. A NIC that stays as it is, right or wrong, is told of once.
fn tell(outcome: &Outcome, told: &mut BTreeMap<String, String>) {
    let netdev = outcome.netdev.as_str();
    let text = match &outcome.verdict {
        Verdict::Clean => String::new(),
        Verdict::Mended(plan) => {
            let changes: Vec<&str> =
                plan.edits.iter().flat_map(|edit| edit.commands.iter().map(String::as_str)).collect();
            tracing::info!(netdev, cause = ?outcome.cause, changes = changes.join("; "), "class of service was mended");
            String::new()
        }
        Verdict::Withheld(plan) => {
            let reasons: Vec<&str> = plan.withheld.iter().map(|held| held.reason.as_str()).collect();
            format!("{} edit(s) are withheld: {}", plan.withheld.len(), reasons.join("; "))
        }
        Verdict::Refused(refusal) => refusal.to_string(),
        Verdict::Failed(error) => error.to_string(),
        Verdict::Trial(_) => "it is changed for a trial, which has to be confirmed".to_owned(),
        Verdict::Gone => "it is not there".to_owned(),
    };
    if told.get(netdev) != Some(&text) {
        if !text.is_empty() {
            tracing::warn!(netdev, "class of service is not as the profile says: {text}");
        }
        told.insert(netdev.to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_nic_serves_nobody_and_one_that_differs_is_named() {
        let map = |rows: &[(&str, &str)]| -> BTreeMap<String, String> {
            rows.iter().map(|(netdev, text)| ((*netdev).to_owned(), (*text).to_owned())).collect()
        };
        let told = map(&[("eth0", ""), ("eth1", "2 edit(s) are withheld"), ("eth2", "EIO")]);
        let faults = wrong(&told, &map(&[("eth2", "edit 3 of 9 was begun and not completed")]));
        let fault = |severity, text: &str| (severity, text.to_owned());
        let expected = [
            ("eth1".to_owned(), fault(Severity::Degraded, "2 edit(s) are withheld")),
            ("eth2".to_owned(), fault(Severity::Drain, "edit 3 of 9 was begun and not completed")),
        ];
        assert_eq!(faults, BTreeMap::from(expected));
    }
}
