//! The carrier: rails' devices, their channels, and what happens to them.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_collective::units::{Node, Rail};
use node_agent_engine_transport::carrier::{Carrier, ChannelId, ENTROPY, News};
use node_agent_ipc::Region;
use node_agent_ipc::pieces::{Source, Target};

use crate::cache::{Bounds, Cache};
use crate::channel::{Channel, Shape};
use crate::device::open_all;
use crate::imm::MOST_SLOTS;
use crate::library::Library;
use crate::objects::{Access, Context, Mr};
use crate::offer::Offer;
use crate::port::{LEAST_ENTRIES, Port, port};
use crate::reaper::Reaper;

mod events;

use events::EVENTS;

/// Slots of a ring.
const SLOTS: u32 = 32;
/// Greatest and least slot, bytes.
const SLOT_BYTES: (u64, u64) = (64 << 10, 8 << 10);
/// What all rings of an engine may have together, as far as the least slot allows.
const RINGS: u64 = 512 << 20;
/// Most entries of a completion queue that are asked for; where a device has fewer, half and half again until it has them.
const MOST_ENTRIES: u32 = 1 << 20;
/// What is kept registered of memories that are sent from in place.
const REGISTERED: Bounds = Bounds { memories: 1024, bytes: 64 << 30 };
/// Memories of GPUs at most. Their bytes are pinned on the GPU anyhow; what a NIC's tables and a GPU's window can hold, they say.
const LENT: Bounds = Bounds { memories: 1024, bytes: 4 << 40 };
/// How often at least, while there is no time to sleep, memories are let go of that nobody else holds.
const SWEEP: Duration = Duration::from_millis(100);

/// What verbs rails must know.
#[derive(Debug, Clone)]
pub struct Config {
    /// This node's own address on each rail.
    pub rails: Vec<IpAddr>,
    /// Number of nodes of the job.
    pub nodes: usize,
    /// Queue pairs of each link, 1 to 8, equal at all nodes: more take more ways through the fabric.
    pub pairs: usize,
    /// The IP traffic class of all packets: DSCP times four, and two bits of ECN. 106 is DSCP 26, ECN-capable.
    pub traffic_class: u8,
    /// In place of the system's libibverbs.
    pub library: Option<PathBuf>,
}

/// Carries links over RDMA verbs: it opens the NICs of the rails and makes one channel for each generation of a link.
#[derive(Debug)]
pub struct VerbsCarrier {
    library: Arc<Library>,
    shape: Shape,
    /// Entries of completion queues.
    entries: u32,
    /// By rail; or why there is none.
    ports: Vec<Result<Port, String>>,
    channels: BTreeMap<u32, Channel>,
    next: u32,
    /// When devices were last asked for events, and whether somebody wanted to ask since.
    asked: Instant,
    put_off: bool,
    duplicates: u64,
    /// What was found out while channels ended.
    unheard: Vec<News>,
    /// The registrations of ranks' shared buffers, by rail; those not used lately give way to others.
    cache: Cache<Region, Mr>,
    /// Memories of GPUs, with their registrations by rail. They cannot be copied instead, so they stay registered while they are held.
    lent: Vec<(Arc<Region>, Vec<Arc<Mr>>)>,
    swept: Instant,
    reaper: Reaper<Channel>,
}

/// The rings' slots, so that all links have room and few links have much.
fn shape(config: &Config) -> Shape {
    let links = (config.nodes.saturating_sub(1) * config.rails.len()).max(1) as u64;
    // Each link has two rings.
    let fair = RINGS / (2 * links * u64::from(SLOTS));
    let slot_bytes = fair.clamp(SLOT_BYTES.1, SLOT_BYTES.0).next_power_of_two() as u32;
    let slot_bytes = if u64::from(slot_bytes) > fair.max(SLOT_BYTES.1) { slot_bytes / 2 } else { slot_bytes };
    Shape {
        pairs: config.pairs.clamp(1, crate::offer::MOST_PAIRS),
        slots: SLOTS.min(MOST_SLOTS),
        slot_bytes,
        traffic_class: config.traffic_class,
        timeout: 15,
        retries: 6,
    }
}

impl VerbsCarrier {
    /// Loads the library and finds the device of each rail by its address.
    ///
    /// # Errors
    /// Why no rail at all can be carried, in one line.
    pub fn open(config: &Config) -> Result<Self, String> {
        let library = Library::load(config.library.as_deref()).map_err(|error| error.to_string())?;
        let library = Arc::new(library);
        let devices = open_all(&library, &[])?;
        if devices.is_empty() {
            return Err("this server has no RDMA device that can be opened".into());
        }
        let shape = shape(config);
        let entries = config.nodes.saturating_sub(1).max(1) as u64 * shape.pairs as u64;
        let entries =
            (entries * u64::from(2 * shape.depth())).clamp(LEAST_ENTRIES.into(), MOST_ENTRIES.into()) as u32;
        let ports: Vec<_> = config.rails.iter().map(|&address| port(&devices, address, entries)).collect();
        if let Some(why) =
            ports.iter().all(Result::is_err).then(|| ports.iter().find_map(|p| p.as_ref().err()))
        {
            return Err(why.cloned().unwrap_or_else(|| "there are no rails".into()));
        }
        let (channels, duplicates) = Default::default();
        let (asked, reaper) = (Instant::now(), Reaper::new());
        let cache = Cache::new(ports.len(), REGISTERED);
        let (put_off, swept, next, lent, unheard) = (false, asked, 0, Vec::new(), Vec::new());
        Ok(VerbsCarrier {
            library,
            shape,
            entries,
            ports,
            channels,
            next,
            asked,
            put_off,
            duplicates,
            unheard,
            cache,
            lent,
            swept,
            reaper,
        })
    }

    /// The device of a rail, or why it has none.
    ///
    /// # Errors
    /// The reason.
    pub fn device(&self, rail: Rail) -> Result<&str, &str> {
        match self.ports.get(usize::from(rail)) {
            Some(Ok(port)) => Ok(&port.device),
            Some(Err(why)) => Err(why),
            None => Err("there is no such rail"),
        }
    }

    /// Whether memory of GPUs can be registered on a rail's device, or why not.
    ///
    /// # Errors
    /// The reason, with what to do.
    pub fn takes_dma_bufs(&self, rail: Rail) -> Result<(), String> {
        match self.ports.get(usize::from(rail)) {
            Some(Ok(port)) => port.pd.takes_dma_bufs().map_err(|error| format!("{}: {error}", port.device)),
            Some(Err(why)) => Err(why.clone()),
            None => Err("there is no such rail".into()),
        }
    }

    /// Messages that came twice and were dropped by their number, so far.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates + self.channels.values().map(Channel::duplicates).sum::<u64>()
    }

    /// Lets go of memories that nobody else holds any more.
    fn sweep(&mut self) {
        self.cache.sweep();
        // Each registration holds the memory once, and this list does; messages under way hold registrations.
        self.lent.retain(|(memory, rails)| Arc::strong_count(memory) > 1 + rails.len());
    }

    fn channel(&mut self, channel: ChannelId) -> io::Result<&mut Channel> {
        self.channels.get_mut(&channel.0).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Carrier for VerbsCarrier {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn carries(&self, rail: Rail) -> Result<(), String> {
        match self.ports.get(usize::from(rail)) {
            Some(Ok(port)) if port.failed.is_some() => Err(format!("{} has failed", port.device)),
            _ => self.device(rail).map(|_| ()).map_err(str::to_owned),
        }
    }

    fn open(
        &mut self,
        rail: Rail,
        peer: Node,
        entropy: &[u8; ENTROPY],
    ) -> Result<(ChannelId, Vec<u8>), String> {
        let port = self.ports.get(usize::from(rail)).ok_or("there is no such rail")?.as_ref()?;
        port.room(self.shape.pairs, self.shape.depth())?;
        let name = self.next;
        let (channel, offer) = Channel::open((name, rail, peer), &port.ground()?, self.shape, entropy)?;
        self.next = self.next.checked_add(1).ok_or("too many channels")?;
        self.channels.insert(name, channel);
        Ok((ChannelId(name), offer.encode()))
    }

    fn join(&mut self, name: ChannelId, offer: &[u8]) -> Result<(), String> {
        let offer = Offer::decode(offer).map_err(|error| error.to_string())?;
        let channel = self.channels.get_mut(&name.0).ok_or("the channel is gone")?;
        let port = self.ports.get(usize::from(channel.rail)).ok_or("there is no such rail")?.as_ref()?;
        channel.join(&offer, &port.ground()?)?;
        let (rail, peer, windows) = (channel.rail, channel.node, channel.windows());
        tracing::debug!(rail, peer, device = port.device, windows, "channel joined");
        self.wait_for_windows(name)
    }

    fn lend(&mut self, memory: &Arc<Region>) -> Result<(), String> {
        self.sweep();
        let bytes: u64 = self.lent.iter().map(|(memory, _)| memory.len() as u64).sum();
        if self.lent.len() >= LENT.memories || bytes.saturating_add(memory.len() as u64) > LENT.bytes {
            return Err(format!("{} memories of GPUs with {bytes} bytes are lent already", self.lent.len()));
        }
        let mut registered = Vec::with_capacity(self.ports.len());
        for (rail, port) in self.ports.iter().enumerate() {
            let port = port.as_ref().map_err(|why| format!("rail {rail}: {why}"))?;
            let device = &port.device;
            port.pd.takes_dma_bufs().map_err(|error| format!("{device}: {error}"))?;
            // Least rights: it is only sent from.
            let mr = Mr::new(&port.pd, Arc::clone(memory), Access::Send);
            let mr =
                mr.map_err(|error| format!("{device} cannot register it (ibv_reg_dmabuf_mr): {error}"))?;
            registered.push(Arc::new(mr));
        }
        self.lent.push((Arc::clone(memory), registered));
        Ok(())
    }

    fn release_buffer(&self, channel: ChannelId) -> u64 {
        self.channels.get(&channel.0).map_or(0, Channel::release_buffer)
    }

    fn end(&mut self, channel: ChannelId) {
        self.stop_reading(channel);
        if let Some(channel) = self.channels.remove(&channel.0) {
            self.duplicates += channel.duplicates();
            self.reaper.take(channel);
        }
    }

    fn send(&mut self, channel: ChannelId, pieces: &[Source<'_>]) -> io::Result<usize> {
        let VerbsCarrier { channels, ports, cache, lent, .. } = self;
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let channel = channels.get_mut(&channel.0).ok_or_else(gone)?;
        let rail = usize::from(channel.rail);
        let Some(Ok(port)) = ports.get(rail) else { return Err(gone()) };
        let mut registered = |memory: &Arc<Region>| {
            if memory.device().is_some() {
                let (_, rails) = lent.iter().find(|(known, _)| Arc::ptr_eq(known, memory))?;
                return rails.get(rail).map(Arc::clone);
            }
            cache.get(memory, memory.len() as u64, rail, |memory| {
                Mr::new(&port.pd, Arc::clone(memory), Access::Send).inspect_err(|error| {
                    let (device, bytes) = (&port.device, memory.len());
                    tracing::info!(device, bytes, %error, "a rank's memory cannot be registered: it is copied");
                })
            })
        };
        channel.send(pieces, &mut registered, Instant::now())
    }

    fn receive(&mut self, channel: ChannelId, pieces: &mut [Target<'_>]) -> io::Result<usize> {
        self.channel(channel)?.receive(pieces, Instant::now())
    }

    fn check(&mut self, now: Instant, news: &mut Vec<News>) {
        news.append(&mut self.unheard);
        (0..self.ports.len()).for_each(|rail| self.complete(rail, now, news));
        self.on_devices(now, news);
        self.find_failed(now, news);
        self.ports.iter_mut().flatten().filter(|p| p.spoilt && p.failed.is_none()).for_each(Port::remediate);
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.sweep();
        }
        for (&name, channel) in &mut self.channels {
            channel.check(now);
            if let Some(cause) = channel.report_broken() {
                news.push(News::Broken(ChannelId(name), cause));
            } else if channel.unblocks() {
                news.push(News::Writable(ChannelId(name)));
            }
        }
    }

    fn arm(&mut self) {
        self.sweep();
        for port in self.ports.iter_mut().flatten() {
            if std::mem::replace(&mut port.armed, true) {
                port.completion_channel.drain();
            }
            for (queue, only_errors) in [(&port.receive, false), (&port.send, false)] {
                if let Err(error) = queue.arm(only_errors) {
                    tracing::warn!(device = port.device, %error, "a completion queue cannot be armed");
                }
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let events = self.put_off.then_some(self.asked + EVENTS);
        let failed = self.ports.iter().flatten().filter_map(|port| port.failed.map(|(at, _)| at));
        self.channels.values().filter_map(Channel::deadline).chain(events).chain(failed).min()
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        let mut files = Vec::new();
        let mut seen: Vec<&Arc<Context>> = Vec::new();
        for port in self.ports.iter().flatten() {
            files.push(port.completion_channel.as_fd());
            if !seen.iter().any(|context| Arc::ptr_eq(context, &port.context)) {
                seen.push(&port.context);
                files.push(port.context.events());
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_few_links_are_large_and_those_of_many_fit() {
        let config = |nodes, rails| Config {
            rails: vec!["10.0.0.1".parse().unwrap(); rails],
            nodes,
            pairs: 2,
            traffic_class: 106,
            library: None,
        };
        assert_eq!(shape(&config(2, 4)).slot_bytes, 64 << 10);
        assert_eq!(shape(&config(1, 0)).slot_bytes, 64 << 10);
        for (nodes, rails) in [(2, 1), (16, 8), (64, 8), (100, 8), (512, 8)] {
            let shape = shape(&config(nodes, rails));
            let all = 2 * u64::from(shape.slots) * u64::from(shape.slot_bytes) * ((nodes - 1) * rails) as u64;
            assert!(shape.slot_bytes.is_power_of_two());
            assert!(all <= RINGS || u64::from(shape.slot_bytes) == SLOT_BYTES.1, "{nodes} {rails}: {all}");
        }
    }
}
