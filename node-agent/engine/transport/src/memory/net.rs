//! The state that the ends share: which life of each link is open at which end, what is on its way, and the faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{HEADER_BYTES, RailCause};
use proto_random::mix;

use super::fault::Fault;

/// Bytes that a link holds.
const LINK_BYTES: usize = 1 << 20;
/// Pause before a link that ended is made again.
const REMAKE: Duration = Duration::from_millis(25);

/// A direction of a link: from, to, rail.
pub type DirectedLink = (Node, Node, Rail);

#[derive(Debug)]
pub struct Packet {
    pub header: [u8; HEADER_BYTES],
    pub payload: Vec<u8>,
    ready: Instant,
}

impl Packet {
    fn bytes(&self) -> usize {
        self.payload.len() + HEADER_BYTES
    }
}

/// The packets that are on their way in one direction of a link.
#[derive(Debug, Default)]
struct Pipe {
    packets: VecDeque<Packet>,
    bytes: usize,
    /// Frames that were ever put in: with the seed, that decides a frame's delay.
    count: u64,
}

/// A link: between the lower node (end 0) and the higher (end 1).
#[derive(Debug)]
struct Link {
    /// The latest life of it.
    generation: u32,
    /// Whether that life is open at each end, and if not, why.
    ends: [Result<(), RailCause>; 2],
    /// When it may be made again.
    remake: Option<Instant>,
}

#[derive(Debug)]
pub struct State {
    seed: u64,
    pipes: BTreeMap<DirectedLink, Pipe>,
    links: BTreeMap<DirectedLink, Link>,
    cut: BTreeSet<DirectedLink>,
    silent: BTreeSet<DirectedLink>,
    delay: BTreeMap<DirectedLink, Duration>,
    /// The ports that have no carrier.
    pub dark: BTreeSet<(Node, Rail)>,
    /// Faults that come when the net has carried this many frames, the next one last.
    script: Vec<(u64, Fault)>,
    carried: u64,
    pub woken: Vec<bool>,
}

/// The name of a link, and which of its ends a node is.
fn pair(a: Node, b: Node, rail: Rail) -> (DirectedLink, usize) {
    ((a.min(b), a.max(b), rail), usize::from(a > b))
}

impl State {
    pub fn new(nodes: usize, rails: usize, seed: u64) -> Self {
        let mut links = BTreeMap::new();
        for high in 0..nodes as Node {
            for (low, rail) in (0..high).flat_map(|low| (0..rails as Rail).map(move |rail| (low, rail))) {
                let closed = || Err(RailCause::Closed);
                let link = Link { generation: 0, ends: [closed(), closed()], remake: None };
                links.insert((low, high, rail), link);
            }
        }
        State {
            seed,
            pipes: BTreeMap::new(),
            links,
            cut: BTreeSet::new(),
            silent: BTreeSet::new(),
            delay: BTreeMap::new(),
            dark: BTreeSet::new(),
            script: Vec::new(),
            carried: 0,
            woken: vec![false; nodes],
        }
    }

    pub fn script(&mut self, mut script: Vec<(u64, Fault)>) {
        script.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        self.script = script;
    }

    /// Whether anything gets through both ways.
    fn clear(&self, (a, b, rail): DirectedLink) -> bool {
        !(self.cut.contains(&(a, b, rail))
            || self.dark.contains(&(a, rail))
            || self.dark.contains(&(b, rail))
            || self.silent.contains(&(a, b, rail))
            || self.silent.contains(&(b, a, rail)))
    }

    /// Ends a link's life at the end of `node`; what is on its way is lost.
    fn end(&mut self, node: Node, peer: Node, rail: Rail, cause: RailCause, now: Instant) {
        let (id, at) = pair(node, peer, rail);
        let Some(link) = self.links.get_mut(&id).filter(|link| link.ends[at].is_ok()) else { return };
        link.ends[at] = Err(cause);
        // The end that was the first sets the pause.
        if link.ends[1 - at].is_ok() {
            link.remake = Some(now + REMAKE);
        }
        for way in [(node, peer, rail), (peer, node, rail)] {
            if let Some(pipe) = self.pipes.get_mut(&way) {
                pipe.packets.clear();
                pipe.bytes = 0;
            }
        }
    }

    /// Carries on what needs nobody: an end learns that the other is gone as soon as anything gets through, and a link
    /// that is gone at both ends is made again when it is time. Gives the next such time.
    pub fn settle(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let clear: Vec<DirectedLink> = self.links.keys().copied().filter(|&id| self.clear(id)).collect();
        for id in clear {
            let (low, high, rail) = id;
            match self.links[&id].ends {
                [Ok(()), Ok(())] => continue,
                [Ok(()), Err(_)] => self.end(low, high, rail, RailCause::Closed, now),
                [Err(_), Ok(())] => self.end(high, low, rail, RailCause::Closed, now),
                [Err(_), Err(_)] => {}
            }
            let Some(link) = self.links.get_mut(&id) else { continue };
            if let Some(at) = link.remake.filter(|&at| at > now) {
                next = Some(next.map_or(at, |n| n.min(at)));
                continue;
            }
            link.generation += 1;
            link.ends = [Ok(()), Ok(())];
            (self.woken[usize::from(low)], self.woken[usize::from(high)]) = (true, true);
        }
        next
    }

    /// The life of a link that is open at the end of `node`, or why none is.
    ///
    /// # Errors
    /// The cause for which the link is down; [`RailCause::Closed`] where it never was up.
    pub fn open(&self, node: Node, peer: Node, rail: Rail) -> Result<u32, RailCause> {
        let (id, at) = pair(node, peer, rail);
        let link = self.links.get(&id).ok_or(RailCause::Closed)?;
        link.ends[at].clone().map(|()| link.generation)
    }

    pub fn close(&mut self, node: Node, peer: Node, rail: Rail, generation: u32, cause: RailCause) -> bool {
        let open = self.open(node, peer, rail) == Ok(generation);
        if open {
            self.end(node, peer, rail, cause, Instant::now());
        }
        open
    }

    pub fn redial(&mut self, node: Node, peer: Node, rail: Rail) {
        let (id, at) = pair(node, peer, rail);
        // The node with the higher index dials.
        if let Some(link) = self.links.get_mut(&id).filter(|_| at == 1) {
            link.remake = None;
        }
    }

    /// Carries out a fault.
    pub fn apply(&mut self, fault: &Fault, now: Instant) {
        match *fault {
            Fault::Cut { a, b, rail, ref cause } => {
                self.cut.insert(pair(a, b, rail).0);
                self.end(a, b, rail, cause.clone(), now);
                self.end(b, a, rail, cause.clone(), now);
            }
            Fault::Restore { a, b, rail } => {
                let id = pair(a, b, rail).0;
                self.cut.remove(&id);
                if let Some(link) = self.links.get_mut(&id) {
                    link.remake = None;
                }
            }
            Fault::Silence { from, to, rail } => drop(self.silent.insert((from, to, rail))),
            Fault::Speak { from, to, rail } => drop(self.silent.remove(&(from, to, rail))),
            Fault::Delay { from, to, rail, most } => drop(self.delay.insert((from, to, rail), most)),
            Fault::PortDown { node, rail } => {
                self.dark.insert((node, rail));
                for peer in (0..self.woken.len() as Node).filter(|&peer| peer != node) {
                    self.end(node, peer, rail, RailCause::NoCarrier, now);
                }
            }
            Fault::PortUp { node, rail } => {
                self.dark.remove(&(node, rail));
                for peer in (0..self.woken.len() as Node).filter(|&peer| peer != node) {
                    if let Some(link) = self.links.get_mut(&pair(node, peer, rail).0) {
                        link.remake = None;
                    }
                }
            }
        }
        self.woken.fill(true);
    }

    /// Whether a frame of this many bytes fits onto a link.
    pub fn has_room(&self, way: DirectedLink, bytes: usize) -> bool {
        self.pipes.get(&way).is_none_or(|pipe| pipe.bytes == 0 || pipe.bytes + bytes <= LINK_BYTES)
    }

    /// Takes a frame, and carries out the faults that are due with it.
    pub fn put(&mut self, way: DirectedLink, header: [u8; HEADER_BYTES], payload: Vec<u8>, now: Instant) {
        let most = self.delay.get(&way).copied().unwrap_or_default();
        let pipe = self.pipes.entry(way).or_default();
        pipe.count += 1;
        let name = u64::from(way.0) << 40 | u64::from(way.1) << 20 | u64::from(way.2);
        let random = mix(self.seed ^ mix(name) ^ pipe.count) >> 33;
        let delay = most.mul_f64(random as f64 / f64::from(1u32 << 31));
        let packet = Packet { header, payload, ready: now + delay };
        pipe.bytes += packet.bytes();
        pipe.packets.push_back(packet);
        self.carried += 1;
        while let Some((_, fault)) = self.script.pop_if(|(after, _)| *after <= self.carried) {
            self.apply(&fault, now);
        }
    }

    /// Takes the frame that has arrived, or gives the time when the next one will. A way that is silent keeps its frames,
    /// as a sender's kernel does that repeats them until they get through.
    ///
    /// # Errors
    /// No frame has arrived yet: the time at which the next one will, `None` where none is on its way.
    pub fn take(&mut self, way: DirectedLink, now: Instant) -> Result<Packet, Option<Instant>> {
        let (from, to, rail) = way;
        if !self.clear_one(way) || self.open(to, from, rail).is_err() {
            return Err(None);
        }
        let Some(pipe) = self.pipes.get_mut(&way) else { return Err(None) };
        let ready = pipe.packets.front().map(|packet| packet.ready);
        if ready.is_none_or(|ready| ready > now) {
            return Err(ready);
        }
        let packet = pipe.packets.pop_front().ok_or(None)?;
        pipe.bytes -= packet.bytes();
        Ok(packet)
    }

    /// Whether anything gets through this way.
    fn clear_one(&self, (from, to, rail): DirectedLink) -> bool {
        let down = self.dark.contains(&(from, rail)) || self.dark.contains(&(to, rail));
        !down && !self.silent.contains(&(from, to, rail))
    }
}
