//! A thread of the agent that keeps class of service as a profile says. What harms traffic it leaves to somebody who knows that the
//! server is drained (`rail-node-agent qos apply --drained`), and says so once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use node_agent_host::qos::{
    Keeper, Outcome, devices,
    keeper::{KeeperError, Verdict},
    looks::Timing,
};
use node_agent_netlink::Kernel;
use node_agent_qos::{Options, QosProfile};
use proto_model::{Nic, QosPort, QosWish, Severity};
use tokio::sync::watch;

use super::{
    flaps::{Flaps, Telling},
    journal::FileJournal,
    wish::{self, Progress},
};

/// What is wrong with the class of service of NICs, by network device.
pub type Faults = BTreeMap<String, (Severity, String)>;

/// NICs that are remembered, those that are away with them.
const NICS_MAX: usize = 256;
/// How long the end of the agent waits for this thread at most.
const TURN: Duration = Duration::from_millis(500);

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Keeping {
    slot: Arc<Mutex<Slot>>,
    bell: Option<SyncSender<()>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// How NICs stand to what the controller wishes.
    pub ports: watch::Receiver<Vec<QosPort>>,
    /// Links that go down because of it; told before they do.
    pub flaps: watch::Receiver<Flaps>,
}

/// What the thread has not taken yet.
#[derive(Debug, Default)]
struct Slot {
    wish: Option<Arc<QosWish>>,
    nics: Option<Vec<Nic>>,
}

impl Keeping {
    /// Starts it; what is wrong goes to `faults`. Without a profile and without a wish it sleeps.
    ///
    /// # Errors
    /// A profile is to be kept, and the journal is another's or cannot be read, or the kernel tells no events.
    pub fn start(
        data_dir: &Path,
        kernel: Arc<dyn Kernel>,
        nics: &[Nic],
        profile: Option<QosProfile>,
        faults: watch::Sender<Faults>,
    ) -> Result<Self, KeeperError> {
        let (tell, ports) = watch::channel(Vec::new());
        let (tell_flaps, flaps) = watch::channel(Flaps::new());
        let (bell, rung) = sync_channel(1);
        let (slot, stop) = (Arc::new(Mutex::new(Slot::default())), Arc::new(AtomicBool::new(false)));
        let mut keeping = Thread {
            data_dir: data_dir.to_owned(),
            kernel,
            keeper: None,
            progress: None,
            nics: nics.to_vec(),
            told: BTreeMap::new(),
            faults,
            ports: tell,
            flaps: tell_flaps,
            slot: Arc::clone(&slot),
            stop: Arc::clone(&stop),
        };
        if let Some(profile) = profile {
            keeping.keeper = Some(keeping.open(profile)?);
        }
        match wish::load(&keeping.wish_path()) {
            Ok(Some(wish)) => keeping.progress = Some(Progress::new(Arc::new(wish))),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "what the controller wishes of class of service is not known any more")
            }
        }
        let thread = thread::Builder::new().name("qos".into()).spawn(move || keeping.run(&rung))?;
        Ok(Self { slot, bell: Some(bell), stop, thread: Some(thread), ports, flaps })
    }

    /// The controller has wished something.
    pub fn wish(&self, wish: Arc<QosWish>) {
        self.put(|slot| slot.wish = Some(wish));
    }

    /// The NICs of this server, all of them.
    pub fn nics(&self, nics: &[Nic]) {
        self.put(|slot| slot.nics = Some(nics.to_vec()));
    }

    fn put(&self, put: impl FnOnce(&mut Slot)) {
        put(&mut self.slot.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(bell) = &self.bell {
            // It has been rung already, and the thread will find both.
            let _ = bell.try_send(());
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed there.
            let _ = thread.join();
        }
    }
}

struct Thread {
    data_dir: PathBuf,
    kernel: Arc<dyn Kernel>,
    keeper: Option<Keeper>,
    progress: Option<Progress>,
    nics: Vec<Nic>,
    told: BTreeMap<String, String>,
    faults: watch::Sender<Faults>,
    ports: watch::Sender<Vec<QosPort>>,
    flaps: watch::Sender<Flaps>,
    slot: Arc<Mutex<Slot>>,
    stop: Arc<AtomicBool>,
}

impl Thread {
    fn wish_path(&self) -> PathBuf {
        wish::path(&self.data_dir)
    }

    fn open(&self, profile: QosProfile) -> Result<Keeper, KeeperError> {
        let journal = Box::new(Telling::new(FileJournal::open(&self.data_dir)?, self.flaps.clone()));
        let (kernel, options) = (Arc::clone(&self.kernel), Options::default());
        Keeper::new(kernel, journal, profile, options, "agent", Timing::default())
    }

    /// Until the agent ends.
    fn run(mut self, rung: &Receiver<()>) {
        self.aim();
        while !self.stop.load(Ordering::Relaxed) {
            // Nothing is to be kept: it sleeps until there is.
            if self.keeper.is_none() && self.progress.is_none() && rung.recv().is_err() {
                return;
            }
            while rung.try_recv().is_ok() {}
            self.take();
            if self.progress.is_some() && self.keeper.is_none() {
                self.open_for_wish();
            }
            let Some(keeper) = &mut self.keeper else { continue };
            match keeper.turn(TURN, false) {
                Ok(outcomes) => self.tell_all(&outcomes),
                Err(error) => {
                    tracing::error!(%error, "class of service is no longer kept; restart the agent");
                    return;
                }
            }
        }
    }

    /// For a wish a keeper is needed; where somebody at this server has the journal, it is tried again.
    fn open_for_wish(&mut self) {
        match self.open(QosProfile::default()) {
            Ok(mut keeper) => {
                keeper.aim(BTreeMap::new());
                self.keeper = Some(keeper);
                self.told.remove("");
                self.aim();
            }
            Err(error) => {
                let text = error.to_string();
                if self.told.insert(String::new(), text.clone()).as_ref() != Some(&text) {
                    tracing::warn!("class of service cannot be kept yet: {text}");
                }
                thread::sleep(TURN);
            }
        }
    }

    fn take(&mut self) {
        let slot = std::mem::take(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner));
        if slot.wish.is_none() && slot.nics.is_none() {
            return;
        }
        if let Some(nics) = slot.nics {
            self.see_nics(nics);
        }
        if let Some(wish) = slot.wish {
            if let Some(folder) = self.wish_path().parent()
                && let Err(error) =
                    std::fs::create_dir_all(folder).and_then(|()| wish::save(&self.wish_path(), &wish))
            {
                tracing::warn!(%error, "what the controller wishes of class of service would be forgotten by a restart");
            }
            match &mut self.progress {
                Some(progress) => progress.wish(wish),
                None => {
                    tracing::info!(
                        generation = wish.generation,
                        "class of service is kept as the controller wishes"
                    );
                    self.progress = Some(Progress::new(wish));
                }
            }
        }
        self.aim();
    }

    /// A NIC that is away, because its driver is being loaded anew for example, is to be what it was to be when it comes back: the
    /// keeper may see it before the next look at this server's inventory does.
    fn see_nics(&mut self, mut now: Vec<Nic>) {
        let away = |nic: &Nic| now.iter().all(|other| other.netdev != nic.netdev);
        let kept: Vec<Nic> = self.nics.drain(..).filter(away).collect();
        let room = NICS_MAX.saturating_sub(now.len());
        now.extend(kept.into_iter().take(room));
        self.nics = now;
    }

    /// Tells the keeper what each NIC is to be.
    fn aim(&mut self) {
        let Some(progress) = &mut self.progress else { return };
        let Some(keeper) = &mut self.keeper else { return };
        let known = devices(&*self.kernel).into_iter().map(|nic| nic.netdev).collect();
        keeper.aim(progress.aims(&self.nics, &known));
        self.publish();
    }

    fn tell_all(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let text = tell(outcome, &mut self.told);
            if let Some(progress) = &mut self.progress {
                progress.see(&self.nics, &outcome.netdev, &outcome.verdict, &text);
            }
        }
        let out = self.keeper.as_ref().map(Keeper::out_of_service).unwrap_or_default();
        let now = wrong(&self.told, &out);
        self.faults.send_if_modified(|known| {
            let other = *known != now;
            *known = now;
            other
        });
        self.publish();
    }

    fn publish(&self) {
        let Some(progress) = &self.progress else { return };
        let now = progress.ports();
        self.ports.send_if_modified(|known| {
            let other = *known != now;
            *known = now;
            other
        });
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

/// Logs what is new, and gives what is wrong in words. A NIC that stays as it is, right or wrong, is told of once.
fn tell(outcome: &Outcome, told: &mut BTreeMap<String, String>) -> String {
    let netdev = outcome.netdev.as_str();
    let text = match &outcome.verdict {
        Verdict::Clean => String::new(),
        Verdict::Mended(plan) => {
            let changes: Vec<&str> =
                plan.edits.iter().flat_map(|edit| edit.commands.iter().map(String::as_str)).collect();
            let (waited, took) = (outcome.waited.as_millis(), outcome.took.as_millis());
            let changes = changes.join("; ");
            tracing::info!(netdev, cause = ?outcome.cause, waited_ms = %waited, took_ms = %took, changes, "class of service was mended");
            String::new()
        }
        Verdict::Withheld(plan) => {
            let reasons: Vec<&str> = plan.withheld.iter().map(|held| held.reason.as_str()).collect();
            format!("{} edit(s) are withheld: {}", plan.withheld.len(), reasons.join("; "))
        }
        Verdict::Unverified(what) => format!("it cannot be verified: {}", what.join("; ")),
        Verdict::Refused(refusal) => refusal.to_string(),
        Verdict::Failed(error) => error.to_string(),
        Verdict::Trial(_) => "it is changed for a trial, which has to be confirmed".to_owned(),
        Verdict::Gone => "it is not there".to_owned(),
    };
    if told.get(netdev) != Some(&text) {
        if !text.is_empty() {
            tracing::warn!(netdev, "class of service is not as the profile says: {text}");
        }
        told.insert(netdev.to_owned(), text.clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use node_agent_host::{
        counters::recorded,
        qos::{Modelled, modelled},
    };
    use node_agent_netlink::fake::Style;
    use proto_model::QosState;

    use super::*;

    fn nic(rail: u32) -> Nic {
        recorded::nic(rail, &format!("mlx5_{rail}"), &format!("rail{rail}"))
    }

    fn wish(trial: &[u32], kept: &[u32]) -> Arc<QosWish> {
        Arc::new(QosWish {
            generation: 1,
            document: "{}".into(),
            before: None,
            confirm_within: Duration::from_secs(60),
            trial: trial.iter().copied().collect(),
            kept: kept.iter().copied().collect(),
            number: 1,
        })
    }

    async fn becomes(keeping: &mut Keeping, device: &str, state: QosState) {
        let is = |ports: &Vec<QosPort>| ports.iter().any(|port| port.device == device && port.state == state);
        let found = tokio::time::timeout(Duration::from_secs(30), keeping.ports.wait_for(is)).await;
        assert!(matches!(found, Ok(Ok(_))), "{device} is never {state:?}");
    }

    /// Also where the NIC was away, and where the agent ended in the middle: both leave the trial alone.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_trial_outlives_a_nic_that_is_away_and_the_agent() {
        let room = tempfile::tempdir().unwrap();
        let modelled_nic = |rail: u32| Modelled {
            netdev: format!("rail{rail}"),
            device: format!("mlx5_{rail}"),
            pci: format!("0000:1{rail}:00.0"),
        };
        let kernel: Arc<dyn Kernel> = Arc::new(modelled(&[0, 1].map(modelled_nic), Style::Mlx5, "6.12.0"));
        let start = || {
            let (faults, _) = watch::channel(Faults::new());
            Keeping::start(room.path(), Arc::clone(&kernel), &[nic(0)], None, faults).unwrap()
        };
        let waits = || {
            let records = FileJournal::read(room.path()).unwrap();
            records.iter().any(|record| record.netdev() == "rail0" && record.waits_until().is_some())
        };
        let mut keeping = start();
        keeping.wish(wish(&[0], &[]));
        becomes(&mut keeping, "mlx5_0", QosState::Trial).await;
        keeping.nics(&[nic(1)]);
        keeping.wish(wish(&[0, 1], &[]));
        becomes(&mut keeping, "mlx5_1", QosState::Trial).await;
        drop(keeping);
        assert!(waits(), "it was away");
        let mut keeping = start();
        becomes(&mut keeping, "mlx5_0", QosState::Trial).await;
        assert!(waits(), "the next agent has not taken it back");
        keeping.wish(wish(&[], &[0]));
        becomes(&mut keeping, "mlx5_0", QosState::Kept).await;
        assert!(!waits());
    }

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
