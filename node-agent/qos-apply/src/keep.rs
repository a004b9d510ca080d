//! A thread of the agent that keeps class of service as a profile says. What harms traffic waits until no job runs on this server: a NIC
//! whose data class waits takes no new one, and is fixed once the controller has had time to hear of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use node_agent_netlink::Kernel;
use node_agent_qos::{Options, Plan, QosProfile};
use proto_model::{DesiredQos, Nic, QosPort, Severity};
use tokio::sync::watch;

use crate::{
    Keeper, Outcome, Record,
    checks::Timing,
    devices,
    journal::key,
    keeper::{KeeperError, Verdict},
    run,
};
use crate::{
    desired::{self, Progress},
    file_journal::FileJournal,
    flaps::{Flaps, Telling},
};

/// What is wrong with the class of service of NICs, by network device.
pub type Faults = BTreeMap<String, (Severity, String)>;

/// NICs that are remembered, those that are away with them.
const NICS_MAX: usize = 256;
/// How long the end of the agent waits for this thread at most.
const TURN: Duration = Duration::from_millis(500);
/// How often the journal is looked at while there is nothing to be kept: somebody may have died in the middle of an apply.
const GLANCE: Duration = Duration::from_secs(1);
/// How long a NIC is reported as unfit before anything that harms traffic is done to it: by then the controller knows, and starts
/// nothing there.
const HEARD: Duration = Duration::from_secs(10);

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Keeping {
    slot: Arc<Mutex<Slot>>,
    bell: Option<SyncSender<()>>,
    stop: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// How NICs stand to their desired state.
    pub ports: watch::Receiver<Vec<QosPort>>,
    /// Links that go down because of it; reported before they do.
    pub flaps: watch::Receiver<Flaps>,
}

/// What the thread has not taken yet.
#[derive(Debug, Default)]
struct Slot {
    desired: Option<Arc<DesiredQos>>,
    nics: Option<Vec<Nic>>,
}

impl Keeping {
    /// Starts it; what is wrong goes to `faults`. Without a profile and without desired state it only sees to what somebody else has
    /// begun and cannot end any more. Until it knows otherwise it assumes that jobs run here.
    ///
    /// # Errors
    /// A profile is to be kept, and the journal is another's or cannot be read, or the kernel reports no events.
    pub fn start(
        data_dir: &Path,
        kernel: Arc<dyn Kernel>,
        nics: &[Nic],
        profile: Option<QosProfile>,
        faults: watch::Sender<Faults>,
    ) -> Result<Self, KeeperError> {
        Self::start_after(HEARD, data_dir, kernel, nics, profile, faults)
    }

    /// The same; `heard` is how long a NIC is reported as unfit before anything that harms traffic is done to it.
    fn start_after(
        heard: Duration,
        data_dir: &Path,
        kernel: Arc<dyn Kernel>,
        nics: &[Nic],
        profile: Option<QosProfile>,
        faults: watch::Sender<Faults>,
    ) -> Result<Self, KeeperError> {
        let (report, ports) = watch::channel(Vec::new());
        let (report_flaps, flaps) = watch::channel(Flaps::new());
        let (bell, rung) = sync_channel(1);
        let (slot, stop) = (Arc::new(Mutex::new(Slot::default())), Arc::new(AtomicBool::new(false)));
        let busy = Arc::new(AtomicBool::new(true));
        let mut keeping = Thread {
            data_dir: data_dir.to_owned(),
            kernel,
            heard,
            profile,
            keeper: None,
            progress: None,
            withheld: BTreeMap::new(),
            nics: nics.to_vec(),
            reported: BTreeMap::new(),
            faults,
            ports: report,
            flaps: report_flaps,
            slot: Arc::clone(&slot),
            stop: Arc::clone(&stop),
            busy: Arc::clone(&busy),
        };
        if keeping.profile.is_some() {
            keeping.keeper = Some(keeping.open()?);
        }
        match desired::load(&keeping.desired_path()) {
            Ok(Some(desired)) => keeping.progress = Some(Progress::new(Arc::new(desired))),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "the class of service that the controller desires is not known any more")
            }
        }
        let thread = thread::Builder::new().name("qos".into()).spawn(move || keeping.run(&rung))?;
        Ok(Self { slot, bell: Some(bell), stop, busy, thread: Some(thread), ports, flaps })
    }

    /// The controller has desired something.
    pub fn desired(&self, desired: Arc<DesiredQos>) {
        self.put(|slot| slot.desired = Some(desired));
    }

    /// The NICs of this server, all of them.
    pub fn nics(&self, nics: &[Nic]) {
        self.put(|slot| slot.nics = Some(nics.to_vec()));
    }

    /// Whether jobs run on this server.
    pub fn busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
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
    /// How long a NIC is reported as unfit before anything that harms traffic is done to it; see [`HEARD`].
    heard: Duration,
    /// For all NICs, where there is no desired state.
    profile: Option<QosProfile>,
    keeper: Option<Keeper>,
    progress: Option<Progress>,
    /// NICs of which something of the data class waits until nothing uses them, and since when.
    withheld: BTreeMap<String, Instant>,
    nics: Vec<Nic>,
    reported: BTreeMap<String, String>,
    faults: watch::Sender<Faults>,
    ports: watch::Sender<Vec<QosPort>>,
    flaps: watch::Sender<Flaps>,
    slot: Arc<Mutex<Slot>>,
    stop: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
}

impl Thread {
    fn desired_path(&self) -> PathBuf {
        desired::path(&self.data_dir)
    }

    /// A keeper of what is to be kept now; of nothing where there is no profile.
    fn open(&self) -> Result<Keeper, KeeperError> {
        let journal = Box::new(Telling::new(FileJournal::open(&self.data_dir)?, self.flaps.clone()));
        let (kernel, options) = (Arc::clone(&self.kernel), Options::default());
        let profile = self.profile.clone().unwrap_or_default();
        let mut keeper = Keeper::new(kernel, journal, profile, options, "agent", Timing::default())?;
        if self.profile.is_none() || self.progress.is_some() {
            keeper.aim(BTreeMap::new());
        }
        Ok(keeper)
    }

    /// Until the agent ends.
    fn run(mut self, rung: &Receiver<()>) {
        self.aim();
        while !self.stop.load(Ordering::Relaxed) {
            // Nothing is to be kept: it sleeps until there is, and looks whether somebody has left something half done.
            let idle = self.progress.is_none() && self.profile.is_none();
            if idle && self.keeper.is_none() {
                match rung.recv_timeout(GLANCE) {
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => self.glance(),
                    Ok(()) => {}
                }
            }
            while rung.try_recv().is_ok() {}
            self.take();
            if !idle && self.keeper.is_none() {
                self.open_again();
            }
            self.turn();
            if idle && self.keeper.as_ref().is_some_and(|keeper| keeper.out_of_service().is_empty()) {
                // Whoever has the journal keeps others out.
                self.keeper = None;
            }
        }
    }

    fn turn(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let busy = self.busy.load(Ordering::Relaxed);
        let heard =
            |netdev: &str| self.withheld.get(netdev).is_some_and(|since| since.elapsed() >= self.heard);
        match keeper.turn_where(TURN, &|netdev| !busy && heard(netdev)) {
            Ok(outcomes) => self.report_all(&outcomes),
            Err(error) => {
                tracing::error!(%error, "class of service is not kept for a moment");
                self.keeper = None;
                thread::sleep(TURN);
            }
        }
    }

    /// What others have begun: NICs that are not in service for it are reported, and what nobody is there to end any more is ended.
    fn glance(&mut self) {
        let (records, unreadable) = match FileJournal::read_all(&self.data_dir) {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(%error, "the journal of class of service cannot be read");
                return;
            }
        };
        let out = records.iter().filter(|record| !record.in_service());
        let mut out: BTreeMap<String, String> =
            out.map(|record| (record.netdev().to_owned(), record.state())).collect();
        if !unreadable.is_empty() {
            // Files are named by the NIC's place, faults by its name.
            let nics = devices(&*self.kernel);
            let name =
                |place: &String| nics.iter().find(|nic| key(nic) == *place).map(|nic| nic.netdev.clone());
            out.extend(unreadable.into_iter().map(|(place, why)| (name(&place).unwrap_or(place), why)));
        }
        // Whoever tries something has until then; `qos confirm` needs the journal.
        let now = run::now();
        let left = |record: &Record| {
            !record.in_service()
                && !record.apply.is_over()
                && record.waits_until().is_none_or(|at| at.0 <= now.0)
        };
        if records.iter().any(left) {
            self.open_again();
        }
        self.report_faults(&out);
    }

    /// A keeper is needed; where somebody at this server has the journal, it is tried again.
    fn open_again(&mut self) {
        match self.open() {
            Ok(keeper) => {
                self.keeper = Some(keeper);
                self.reported.remove("");
                self.aim();
            }
            Err(error) => {
                let text = error.to_string();
                if self.reported.insert(String::new(), text.clone()).as_ref() != Some(&text) {
                    tracing::warn!("class of service cannot be kept yet: {text}");
                }
                thread::sleep(TURN);
            }
        }
    }

    fn take(&mut self) {
        let slot = std::mem::take(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner));
        if slot.desired.is_none() && slot.nics.is_none() {
            return;
        }
        if let Some(nics) = slot.nics {
            self.see_nics(nics);
        }
        if let Some(desired) = slot.desired {
            if let Some(folder) = self.desired_path().parent()
                && let Err(error) = std::fs::create_dir_all(folder)
                    .and_then(|()| desired::save(&self.desired_path(), &desired))
            {
                tracing::warn!(%error, "a restart would forget the class of service that the controller desires");
            }
            match &mut self.progress {
                Some(progress) => progress.desired(desired),
                None => {
                    tracing::info!(
                        generation = desired.generation,
                        "class of service is kept in the desired state"
                    );
                    self.progress = Some(Progress::new(desired));
                }
            }
        }
        self.aim();
    }

    /// A NIC that is away, because its driver is being reloaded for example, is to be what it was to be when it comes back: the
    /// keeper may see it before the next check of this server's inventory does.
    fn see_nics(&mut self, mut now: Vec<Nic>) {
        // One that has another name now is not away.
        let away =
            |nic: &Nic| now.iter().all(|other| other.netdev != nic.netdev && other.device != nic.device);
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

    fn report_all(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let text = report(outcome, &mut self.reported);
            match &outcome.verdict {
                Verdict::Withheld(plan) if waits(plan) => {
                    self.withheld.entry(outcome.netdev.clone()).or_insert_with(Instant::now);
                }
                Verdict::Gone => {}
                _ => drop(self.withheld.remove(&outcome.netdev)),
            }
            if let Some(progress) = &mut self.progress {
                progress.see(&self.nics, &outcome.netdev, &outcome.verdict, &text);
            }
        }
        let out = self.keeper.as_ref().map(Keeper::out_of_service).unwrap_or_default();
        self.report_faults(&out);
        self.publish();
    }

    fn report_faults(&self, out_of_service: &BTreeMap<String, String>) {
        let now = wrong(&self.reported, &self.withheld.keys().map(String::as_str).collect(), out_of_service);
        self.faults.send_if_modified(|known| {
            let other = *known != now;
            *known = now;
            other
        });
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

/// Whether something of the lossless data class waits.
fn waits(plan: &Plan) -> bool {
    plan.withheld.iter().any(|held| held.edit.change.is_of_data_class())
}

/// A NIC that may be half of one thing and half of another, or whose data class waits to be fixed, serves no new job; one that is merely
/// not as its profile says does.
fn wrong(
    reported: &BTreeMap<String, String>,
    withheld: &BTreeSet<&str>,
    out_of_service: &BTreeMap<String, String>,
) -> Faults {
    let severity = |netdev: &str| match withheld.contains(netdev) {
        true => Severity::Drain,
        false => Severity::Degraded,
    };
    let differs = reported.iter().filter(|(_, text)| !text.is_empty());
    let mut all: Faults =
        differs.map(|(netdev, text)| (netdev.clone(), (severity(netdev), text.clone()))).collect();
    all.extend(out_of_service.iter().map(|(netdev, why)| (netdev.clone(), (Severity::Drain, why.clone()))));
    all
}

/// Logs what is new, and gives what is wrong in words. A NIC that stays as it is, right or wrong, is logged once.
fn report(outcome: &Outcome, reported: &mut BTreeMap<String, String>) -> String {
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
    if reported.get(netdev) != Some(&text) {
        if !text.is_empty() {
            tracing::warn!(netdev, "class of service is not as the profile says: {text}");
        }
        reported.insert(netdev.to_owned(), text.clone());
    }
    text
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;
