//! What devices say: completions, events, and what follows from devices that fail or hang.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_collective::RailCause;
use node_agent_collective::units::Rail;
use node_agent_engine_transport::carrier::{ChannelId, News};

use super::VerbsCarrier;
use crate::channel::{Channel, channel_of};
use crate::device::{Device, open_all};
use crate::ffi;
use crate::objects::{Access, Context, Mr};
use crate::port::{Port, port};

/// Completions taken at once.
const BATCH: usize = 64;
/// How often at most devices are asked for events: each time is a system call for each.
pub(super) const EVENTS: Duration = Duration::from_millis(1);
/// How long a device may take to say that it has given up the messages of a queue pair that is stopped.
const STOPPED: Duration = Duration::from_millis(100);
/// How long a device may take to bind the windows of a channel.
const BOUND: Duration = Duration::from_millis(200);

impl VerbsCarrier {
    /// Takes completions of one rail.
    pub(super) fn complete(&mut self, rail: usize, now: Instant, news: &mut Vec<News>) {
        let Some(Ok(port)) = self.ports.get_mut(rail) else { return };
        let mut batch = [ffi::Wc::default(); BATCH];
        for (queue, sends) in [(&port.send, true), (&port.receive, false)] {
            loop {
                let count = match queue.poll(&mut batch) {
                    Ok(count) => count,
                    Err(error) => {
                        port.spoilt = true;
                        let channels =
                            self.channels.values_mut().filter(|channel| usize::from(channel.rail) == rail);
                        channels.for_each(|l| {
                            _ = l.faults.broken.get_or_insert(RailCause::Io(error.to_string()))
                        });
                        break;
                    }
                };
                port.hung &= count == 0;
                for completion in &batch[..count.min(BATCH)] {
                    let name = channel_of(completion.wr_id);
                    // Events of channels that have ended do not matter.
                    let Some(channel) = self.channels.get_mut(&name) else { continue };
                    if sends {
                        let before = channel.release_buffer();
                        channel.sent(completion, now);
                        if channel.release_buffer() > before {
                            news.push(News::LetGo(ChannelId(name)));
                        }
                    } else if channel.came(completion) {
                        news.push(News::Readable(ChannelId(name)));
                    }
                }
                if count < BATCH {
                    break;
                }
            }
        }
    }

    /// Reads what happened to devices.
    pub(super) fn on_devices(&mut self, now: Instant, news: &mut Vec<News>) {
        self.put_off = now < self.asked + EVENTS;
        if self.put_off {
            return;
        }
        self.asked = now;
        for rail in 0..self.ports.len() {
            // Rails of one device share its events: the first that asks gets them for all.
            while let Some(Ok(port)) = self.ports.get(rail)
                && let Some((kind, number)) = port.context.event()
            {
                let context = Arc::clone(&port.context);
                self.take_event(&context, kind, number, news);
            }
        }
    }

    fn take_event(&mut self, context: &Arc<Context>, kind: u32, number: u8, news: &mut Vec<News>) {
        for (rail, port) in self.ports.iter_mut().enumerate() {
            let Ok(port) = port else { continue };
            if !Arc::ptr_eq(&port.context, context) {
                continue;
            }
            let ours = port.place.is_some_and(|place| place.port == number);
            let cause = match kind {
                ffi::EVENT_PORT_ERR | ffi::EVENT_PORT_ACTIVE if ours => {
                    news.push(News::Port(rail as Rail, kind == ffi::EVENT_PORT_ACTIVE));
                    if kind == ffi::EVENT_PORT_ACTIVE {
                        continue;
                    }
                    RailCause::NoCarrier
                }
                ffi::EVENT_GID_CHANGE => {
                    let device = Device { name: port.device.clone(), context: Arc::clone(context) };
                    let place = device.place(port.address);
                    if std::mem::replace(&mut port.place, place) == place {
                        continue;
                    }
                    tracing::info!(rail, device = port.device, ?place, "the rail's GID has moved");
                    RailCause::Io("the GID has moved".into())
                }
                ffi::EVENT_CQ_ERR => {
                    port.spoilt = true;
                    RailCause::Io("a completion queue has failed".into())
                }
                ffi::EVENT_DEVICE_FATAL => {
                    port.fail(self.asked);
                    RailCause::Io("the device has failed".into())
                }
                _ => continue,
            };
            let channels = self.channels.values_mut().filter(|channel| usize::from(channel.rail) == rail);
            channels.for_each(|channel| _ = channel.faults.broken.get_or_insert_with(|| cause.clone()));
        }
    }

    /// Looks for devices that have failed: after a reset, or when their driver was reloaded, they are there again as others.
    pub(super) fn find_failed(&mut self, now: Instant, news: &mut Vec<News>) {
        let due = |(rail, port): (usize, &mut Result<Port, String>)| {
            port.as_mut().is_ok_and(|port| port.checks_again(now)).then_some(rail)
        };
        let due: Vec<usize> = self.ports.iter_mut().enumerate().filter_map(due).collect();
        if due.is_empty() {
            return;
        }
        let well = self.ports.iter().flatten().filter(|port| port.failed.is_none());
        let known: Vec<&str> = well.map(|port| port.device.as_str()).collect();
        let devices = open_all(&self.library, &known).unwrap_or_default();
        for rail in due {
            let Some(Ok(old)) = self.ports.get_mut(rail) else { continue };
            let found = port(&devices, old.address, self.entries)
                .and_then(|new| new.ground().map(|_| ()).map(|()| new));
            match found {
                Ok(new) => {
                    tracing::info!(rail, device = new.device, "the rail has a device again");
                    self.cache.forget(rail);
                    for (memory, rails) in &mut self.lent {
                        match Mr::new(&new.pd, Arc::clone(memory), Access::Send) {
                            Ok(registered) => rails[rail] = Arc::new(registered),
                            Err(error) => {
                                tracing::warn!(rail, %error, "memory of a GPU cannot be registered again")
                            }
                        }
                    }
                    *old = new;
                    news.extend([News::Files, News::Carries(rail as Rail)]);
                }
                Err(why) => tracing::debug!(rail, why, "the rail's device is not back"),
            }
        }
    }

    /// Ends what a channel still reads where its owner has it, for the owner may write there next. Nothing more goes out from a queue pair
    /// that is stopped; that the device has let go of it all, it says by completions, which come at once from one that works.
    pub(super) fn stop_reading(&mut self, name: ChannelId) {
        let Some(channel) = self.channels.get_mut(&name.0).filter(|channel| channel.reads()) else { return };
        let rail = usize::from(channel.rail);
        channel.stop();
        // One that has failed reads nothing, and one that hangs has been waited for.
        if self.ports.get(rail).is_some_and(|port| port.as_ref().is_ok_and(|p| p.failed.is_some() || p.hung))
        {
            return;
        }
        let mut news = std::mem::take(&mut self.unheard);
        let start = Instant::now();
        loop {
            self.complete(rail, Instant::now(), &mut news);
            if !self.channels.get(&name.0).is_some_and(Channel::reads) {
                break;
            }
            if start.elapsed() >= STOPPED {
                tracing::warn!(rail, "a device does not say that a queue pair has stopped");
                if let Some(Ok(port)) = self.ports.get_mut(rail) {
                    port.hung = true;
                }
                break;
            }
            std::thread::yield_now();
        }
        self.unheard = news;
    }

    /// Before the peer learns that it may write: whether its windows are in force. Where a device cannot bind them, the port's next
    /// channels do without.
    pub(super) fn wait_for_windows(&mut self, name: ChannelId) -> Result<(), String> {
        let Some(rail) = self.channels.get(&name.0).map(|channel| usize::from(channel.rail)) else {
            return Ok(());
        };
        let mut news = std::mem::take(&mut self.unheard);
        let start = Instant::now();
        let bound = loop {
            let Some(channel) = self.channels.get(&name.0) else { break Ok(()) };
            match (channel.is_binding(), &channel.faults.broken) {
                (_, Some(cause)) => break Err(format!("its memory windows cannot be bound: {cause}")),
                (false, None) => break Ok(()),
                (true, None) if start.elapsed() >= BOUND => {
                    break Err("its memory windows are not bound in time".into());
                }
                (true, None) => {}
            }
            self.complete(rail, Instant::now(), &mut news);
            std::thread::yield_now();
        };
        self.unheard = news;
        if let (Err(why), Some(Ok(port))) = (&bound, self.ports.get_mut(rail)) {
            tracing::warn!(device = port.device, why, "rings are opened without memory windows from now on");
            port.windows = false;
        }
        bound
    }
}
