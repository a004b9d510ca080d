//! Checks of this server, one at a time and apart from everything else: a device that hangs holds up no job. What the kernel reports of
//! changes brings the next check forward; without that there is the poll.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use node_agent_host::{Discovery, Host, InventoryFileError};
use node_agent_netlink::{RealKernel, events::Events};
use tokio::{sync::mpsc, task::JoinHandle};

/// How long the thread waits for events before it sees whether it is still needed.
const TURN: Duration = Duration::from_millis(500);

/// How this server is looked at.
pub struct Watch {
    /// The server that is looked at.
    pub host: Arc<dyn Host>,
    /// The events of changes; `None` where there are none, and the interval alone decides.
    pub notices: Option<Notices>,
    /// How often it is looked at, whatever events come.
    pub every: Duration,
}

impl Watch {
    /// This machine, whose kernel reports changes. What it does not report (files of drivers, NVLinks) is seen half a minute later.
    #[must_use]
    pub fn machine(host: Arc<dyn Host>) -> Self {
        Self { host, notices: Notices::start(), every: Duration::from_secs(30) }
    }

    /// A file, which costs nothing to read.
    #[must_use]
    pub fn file(host: Arc<dyn Host>) -> Self {
        Self { host, notices: None, every: Duration::from_secs(1) }
    }
}

/// Waits until something of the server has changed; for ever where no events come.
pub async fn notice(notices: &mut Option<Notices>) -> Option<()> {
    match notices {
        Some(notices) => notices.heard.recv().await,
        None => std::future::pending().await,
    }
}

/// What a check found.
pub type Found = Result<Discovery, InventoryFileError>;

/// The check under way, if any.
#[derive(Debug, Default)]
pub struct Looking {
    under_way: Option<JoinHandle<Found>>,
    /// Something happened while it was under way.
    again: bool,
}

impl Looking {
    /// Checks now, or again once the check under way is done: it may have been too early for what happened now.
    pub fn begin(&mut self, host: &Arc<dyn Host>) {
        if self.under_way.is_some() {
            self.again = true;
            return;
        }
        let host = Arc::clone(host);
        self.under_way = Some(tokio::task::spawn_blocking(move || host.discover()));
    }

    /// The check under way, when it is done; nothing where it found no end of its own. Never if there is none.
    pub async fn done(&mut self, host: &Arc<dyn Host>) -> Option<Found> {
        let Some(handle) = &mut self.under_way else { return std::future::pending().await };
        let found = handle.await;
        self.under_way = None;
        if std::mem::take(&mut self.again) {
            self.begin(host);
        }
        found.ok()
    }
}

/// When a check follows an event.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Events that belong together come within this time.
    pub settle: Duration,
    /// A storm of events is not more checks than one in this time.
    pub gap: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { settle: Duration::from_millis(100), gap: Duration::from_secs(1) }
    }
}

impl Pace {
    /// When to check, after the first event since the last check.
    #[must_use]
    pub fn due(self, event: Duration, last: Option<Duration>) -> Duration {
        let settled = event.saturating_add(self.settle);
        last.map_or(settled, |last| settled.max(last.saturating_add(self.gap)))
    }
}

/// The thread that waits for events; it ends when this is dropped.
#[derive(Debug)]
pub struct Notices {
    /// Gets a message whenever the kernel reports a change after which the server should be checked.
    pub heard: mpsc::Receiver<()>,
    stop: Arc<AtomicBool>,
}

impl Notices {
    /// Listens to this machine's kernel; `None` where it reports nothing, and polling alone finds changes.
    #[must_use]
    pub fn start() -> Option<Self> {
        let events = Events::of_inventory(&RealKernel::new());
        let events =
            events.inspect_err(|error| tracing::warn!(%error, "changes are found by looking only")).ok()?;
        Self::of(events, Pace::default())
    }

    fn of(mut events: Events, pace: Pace) -> Option<Self> {
        let (notify, heard) = mpsc::channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            if let Err(error) = listen(&mut events, pace, &notify, &stopped) {
                tracing::warn!(%error, "the kernel tells no changes any more; they are found by looking");
            }
        };
        let started = thread::Builder::new().name("notices".to_owned()).spawn(run);
        started.map(|_| Self { heard, stop }).ok()
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn listen(
    events: &mut Events,
    pace: Pace,
    notify: &mpsc::Sender<()>,
    stopped: &AtomicBool,
) -> Result<(), node_agent_netlink::NetlinkError> {
    let begun = Instant::now();
    let (mut due, mut last): (Option<Duration>, Option<Duration>) = (None, None);
    while !stopped.load(Ordering::Relaxed) {
        let now = begun.elapsed();
        if due.is_some_and(|due| due <= now) {
            (due, last) = (None, Some(now));
            // One is waiting already: the check that it brings is after this event too.
            let _ = notify.try_send(());
        }
        let wait = due.map_or(TURN, |due| due.saturating_sub(now).min(TURN));
        if events.next(wait)?.is_some() && due.is_none() {
            due = Some(pace.due(begun.elapsed(), last));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use node_agent_netlink::fake::{FakeKernel, Style};

    use super::*;

    #[test]
    fn events_that_belong_together_are_one_look_and_a_storm_is_few() {
        let pace = Pace { settle: Duration::from_millis(100), gap: Duration::from_secs(1) };
        let ms = Duration::from_millis;
        assert_eq!(pace.due(ms(500), None), ms(600));
        assert_eq!(pace.due(ms(500), Some(ms(0))), ms(1000), "a second after the last");
        assert_eq!(pace.due(ms(5000), Some(ms(600))), ms(5100), "long after it");
    }

    #[tokio::test]
    async fn what_the_kernel_tells_is_heard() {
        let kernel = FakeKernel::new();
        kernel.add("eth0", Style::Mlx5);
        let events = Events::of_inventory(&kernel).unwrap();
        let pace = Pace { settle: Duration::from_millis(1), gap: Duration::from_millis(1) };
        let mut notices = Notices::of(events, pace).unwrap();
        kernel.flap("eth0");
        notices.heard.recv().await.unwrap();
        kernel.change(|world| world.report_address("eth0", false));
        notices.heard.recv().await.unwrap();
    }

    /// A host whose looks end when the test says so.
    #[derive(Debug)]
    struct Slow(std::sync::Mutex<std::sync::mpsc::Receiver<()>>, std::sync::atomic::AtomicU32);

    impl Host for Slow {
        fn discover(&self) -> Found {
            self.0.lock().unwrap().recv().unwrap();
            let checks = self.1.fetch_add(1, Ordering::Relaxed) + 1;
            let inventory = proto_model::Inventory { cpus: checks, ..Default::default() };
            Ok(Discovery { inventory, ..Discovery::default() })
        }
    }

    #[tokio::test]
    async fn what_happens_during_a_look_brings_one_more() {
        let (end, ends) = std::sync::mpsc::channel();
        let host: Arc<dyn Host> = Arc::new(Slow(ends.into(), 0.into()));
        let mut looking = Looking::default();
        for _ in 0..3 {
            looking.begin(&host);
        }
        end.send(()).unwrap();
        end.send(()).unwrap();
        for check in 1..=2 {
            assert_eq!(looking.done(&host).await.unwrap().unwrap().inventory.cpus, check);
        }
        let more = tokio::time::timeout(Duration::ZERO, looking.done(&host)).await;
        assert!(more.is_err(), "three changes of the desired state are two checks");
    }
}
