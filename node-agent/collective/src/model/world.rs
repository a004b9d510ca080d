//! The links between the machines, as a small value: an event makes the next world from this one.
//!
//! Connections have lives, each end hears of their beginning and end for itself, and what is on the way when one
//! ends may be lost or come late. Time stands still while anything else can happen, unless the world may be impatient: then it may
//! pass to the next deadline at any moment, so often.

use super::Canon;
use super::hosts::{Hosts, Id, Input, Out};
use crate::units::Time;

/// Frames on one wire; more say that something is sent again and again.
const MOST_ON_WIRE: usize = 16;
/// What an end may have to hear.
const MOST_NEWS: usize = 4;
/// Stands for no packet where an id is expected.
const NONE: Id = Id::MAX;

/// How many of each kind may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// One end loses the connection.
    pub losses: u8,
    /// A link swallows everything from now on, in one direction or in both, and nobody gets an event of it.
    pub dark: u8,
    /// A frame comes twice.
    pub twice: u8,
    /// A frame vanishes from a link that goes on.
    pub vanish: u8,
    /// A frame of a life that is over comes in.
    pub late: u8,
    /// A frame stays half in while other things happen.
    pub halves: u8,
    /// Time passes although other things can happen.
    pub impatience: u8,
    /// Connections that are made again: no fault.
    pub dials: u8,
}

/// From, to, rail; or an end of a link: node, peer, rail.
pub type Wire = (u8, u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Post(u8),
    Deliver(Wire),
    Hear(Wire),
    Dial(Wire),
    Time,
    Lose(Wire),
    Dark(Wire),
    DarkBoth(Wire),
    Twice(Wire),
    Vanish(Wire),
    Late(Wire),
    Half(Wire),
    Impatience,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum News {
    #[default]
    None,
    Up(u8),
    Down(u8),
}

/// A queue that is a plain value.
#[derive(Debug, Clone, Copy)]
struct Queue<T, const N: usize> {
    items: [T; N],
    len: u8,
}

impl<T: Copy, const N: usize> Queue<T, N> {
    fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }

    fn push(&mut self, item: T) -> Check {
        let place = self.items.get_mut(usize::from(self.len)).ok_or("a queue is full")?;
        *place = item;
        self.len += 1;
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.as_slice().first().copied()?;
        self.items.copy_within(1.., 0);
        self.len -= 1;
        Some(first)
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

/// One end of a link, and what comes to it.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Which life it has open; 0: none.
    open: u8,
    /// The last life of the link.
    lives: u8,
    news: Queue<News, MOST_NEWS>,
    wire: Queue<Id, MOST_ON_WIRE>,
    /// The first of `wire` has begun to come in.
    half: bool,
    /// What comes to this end vanishes.
    dark: bool,
    /// A counted frame has vanished in this life: nothing goes on here until that is found out, over another rail.
    wounded: bool,
    /// Of the lives that are over, the frame that may still come.
    late: Id,
}

const END: End = End {
    open: 1,
    lives: 1,
    news: Queue { items: [News::None; MOST_NEWS], len: 0 },
    wire: Queue { items: [NONE; MOST_ON_WIRE], len: 0 },
    half: false,
    dark: false,
    wounded: false,
    late: NONE,
};

#[derive(Debug, Clone)]
pub struct World {
    nodes: u8,
    rails: u8,
    pub may: Faults,
    hosts: Vec<Id>,
    /// By node, peer, rail.
    ends: Vec<End>,
}

type Check = Result<(), String>;

fn other((a, b, rail): Wire) -> Wire {
    (b, a, rail)
}

impl World {
    /// All links up, nothing posted.
    pub fn new(hosts: &Hosts, may: Faults) -> Self {
        let (nodes, rails) = (hosts.setup.nodes as u8, hosts.setup.rails as u8);
        World {
            nodes,
            rails,
            may,
            hosts: (0..nodes.into()).collect(),
            ends: vec![END; usize::from(nodes) * usize::from(nodes) * usize::from(rails)],
        }
    }

    fn all_ends(&self) -> impl Iterator<Item = Wire> + use<> {
        let (nodes, rails) = (self.nodes, self.rails);
        let pairs = (0..nodes).flat_map(move |a| (0..nodes).filter(move |&b| b != a).map(move |b| (a, b)));
        pairs.flat_map(move |(a, b)| (0..rails).map(move |rail| (a, b, rail)))
    }

    fn index(&self, (node, peer, rail): Wire) -> usize {
        (usize::from(node) * usize::from(self.nodes) + usize::from(peer)) * usize::from(self.rails)
            + usize::from(rail)
    }

    fn end(&self, end: Wire) -> &End {
        &self.ends[self.index(end)]
    }

    fn end_mut(&mut self, end: Wire) -> &mut End {
        let at = self.index(end);
        &mut self.ends[at]
    }

    fn deadline(&self, hosts: &Hosts) -> Option<Time> {
        self.hosts.iter().filter_map(|&id| hosts.get(id).deadline).min()
    }

    /// Whether all calls of all ranks have ended.
    pub fn is_done(&self, hosts: &Hosts) -> bool {
        self.hosts.iter().all(|&id| hosts.get(id).done == hosts.setup.calls.len())
    }

    /// Everything that can happen without a fault.
    pub fn events(&self, hosts: &Hosts) -> Vec<Event> {
        let mut events = Vec::new();
        for (node, &id) in (0..).zip(&self.hosts) {
            let host = hosts.get(id);
            if host.posted < hosts.setup.calls.len() && host.posted == host.done {
                events.push(Event::Post(node));
            }
        }
        for end in self.all_ends() {
            let here = self.end(end);
            if self.readable(hosts, end) {
                events.push(Event::Deliver(other(end)));
            }
            if here.news.len > 0 {
                events.push(Event::Hear(end));
            }
            // The higher node dials, whenever it has nothing open.
            let dark = here.dark || self.end(other(end)).dark;
            if end.0 > end.1 && here.open == 0 && here.news.len == 0 && !dark && self.may.dials > 0 {
                events.push(Event::Dial(end));
            }
        }
        if events.is_empty() && self.deadline(hosts).is_some() {
            events.push(Event::Time);
        }
        events
    }

    /// A frame of a life that this end has not heard of waits in its socket.
    fn readable(&self, hosts: &Hosts, end: Wire) -> bool {
        let here = self.end(end);
        here.wire
            .as_slice()
            .first()
            .is_some_and(|&p| hosts.packet(p).header.generation == u32::from(here.open))
    }

    /// Every fault that may happen now. When all calls have ended, only what frames may still cause is of interest.
    pub fn faults(&self, hosts: &Hosts) -> Vec<Event> {
        let may = match self.is_done(hosts) {
            true => &Faults { twice: self.may.twice, late: self.may.late, ..Faults::default() },
            false => &self.may,
        };
        let mut events = Vec::new();
        for end in self.all_ends() {
            let (here, there, wire) = (self.end(end), self.end(other(end)), other(end));
            let (readable, spare) = (self.readable(hosts, end), self.spare(end));
            if here.open > 0 && may.losses > 0 && spare {
                events.push(Event::Lose(end));
            }
            if here.open > 0 && here.open == there.open && may.dark > 0 && spare && !here.dark {
                events.push(Event::Dark(wire));
                if end.0 < end.1 && !there.dark {
                    events.push(Event::DarkBoth(wire));
                }
            }
            if readable && !here.half {
                let header = hosts.packet(here.wire.items[0]).header;
                let data = header.length > 0;
                // Nobody finds out that a counted frame has vanished from the only link that is left; nor does that happen
                // there: below are transports that lose nothing but with the whole connection.
                let spare = header.number == 0 || self.other_is_whole(end);
                let possible = [
                    (may.twice > 0, Event::Twice(wire)),
                    (may.vanish > 0 && spare, Event::Vanish(wire)),
                    (may.halves > 0 && data, Event::Half(wire)),
                ];
                events.extend(possible.iter().filter(|p| p.0).map(|p| p.1));
            }
            if may.late > 0 && here.late != NONE {
                events.push(Event::Late(wire));
            }
        }
        if may.impatience > 0 && self.deadline(hosts).is_some() && !self.events(hosts).contains(&Event::Time)
        {
            events.push(Event::Impatience);
        }
        events
    }

    fn both(&self, end: Wire, rail: u8) -> [&End; 2] {
        [(end.0, end.1, rail), (end.1, end.0, rail)].map(|e| self.end(e))
    }

    /// Whether another rail between the same nodes is unharmed.
    fn other_is_whole(&self, end: Wire) -> bool {
        let whole = |rail: u8| {
            self.both(end, rail).iter().all(|e| e.open > 0 && e.news.len == 0 && !e.dark && !e.wounded)
        };
        (0..self.rails).any(|rail| rail != end.2 && whole(rail))
    }

    /// Whether work can go on without a rail: over another, or over this one, connected again.
    fn spare(&self, end: Wire) -> bool {
        let reborn =
            self.may.dials > 0 && self.may.dark == 0 && self.both(end, end.2).iter().all(|e| !e.dark);
        self.other_is_whole(end) || reborn
    }

    /// What a state is told apart by. Hosts and packets are interned, so their names stand for what they are.
    pub fn digest(&self) -> u64 {
        let mut canon = Canon::new();
        self.hosts.iter().for_each(|&id| canon.put(id));
        let m = self.may;
        canon.bytes(&[m.losses, m.dark, m.twice, m.vanish, m.late, m.halves, m.impatience, m.dials]);
        for end in self.all_ends() {
            let End { open, lives, news, wire, half, dark, wounded, late } = self.end(end);
            let flags = [*open, *lives, u8::from(*half), u8::from(*dark), u8::from(*wounded), wire.len];
            canon.bytes(&flags);
            // A late frame that can never come any more tells nothing apart.
            canon.put(if m.late > 0 { *late } else { NONE });
            for news in news.as_slice() {
                match *news {
                    News::None => {}
                    News::Up(life) => canon.put(u16::from(life)),
                    News::Down(life) => canon.put(256 + u16::from(life)),
                }
            }
            wire.as_slice().iter().for_each(|&p| canon.put(1000 + u64::from(p)));
        }
        canon.end() as u64
    }

    /// The world after an event, or what is wrong with it.
    ///
    /// # Errors
    /// The text says which property the event violates.
    pub fn after(&self, hosts: &mut Hosts, event: Event) -> Result<World, String> {
        let mut next = self.clone();
        next.happen(hosts, event)?;
        Ok(next)
    }

    fn happen(&mut self, hosts: &mut Hosts, event: Event) -> Check {
        let may = &mut self.may;
        match event {
            Event::Post(node) => self.step(hosts, node, Input::Post),
            Event::Deliver(wire) => self.deliver(hosts, wire, false),
            Event::Half(wire) => {
                may.halves -= 1;
                let packet = self.end(other(wire)).wire.items[0];
                let packet = self.written(hosts, wire, packet)?;
                let end = self.end_mut(other(wire));
                (end.half, end.wire.items[0]) = (true, packet);
                self.step(hosts, wire.1, Input::Begin { rail: wire.2, peer: wire.0, packet })
            }
            Event::Twice(wire) => {
                may.twice -= 1;
                self.deliver(hosts, wire, true)
            }
            Event::Vanish(wire) => {
                may.vanish -= 1;
                let end = self.end_mut(other(wire));
                let packet = end.wire.pop().ok_or("nothing to lose")?;
                end.wounded |= hosts.packet(packet).header.number > 0;
                self.written(hosts, wire, packet).map(|_| ())
            }
            Event::Late(wire) => {
                may.late -= 1;
                let packet = std::mem::replace(&mut self.end_mut(other(wire)).late, NONE);
                self.step(hosts, wire.1, Input::Late { rail: wire.2, peer: wire.0, packet })
            }
            Event::Lose(end) => {
                may.losses -= 1;
                self.close(hosts, end, true)
            }
            Event::Dark(wire) => {
                may.dark -= 1;
                self.darken(hosts, wire)
            }
            Event::DarkBoth(wire) => {
                may.dark -= 1;
                self.darken(hosts, wire)?;
                self.darken(hosts, other(wire))
            }
            Event::Hear(end) => self.on_report(hosts, end),
            Event::Dial(end) => {
                may.dials -= 1;
                for end in [end, other(end)] {
                    let end = self.end_mut(end);
                    end.lives += 1;
                    end.news.push(News::Up(end.lives))?;
                }
                Ok(())
            }
            Event::Time | Event::Impatience => {
                may.impatience -= u8::from(event == Event::Impatience);
                let by = self.deadline(hosts).ok_or("nothing is due")?.saturating_sub(hosts.now());
                (0..self.nodes).try_for_each(|node| self.step(hosts, node, Input::Age(by)))
            }
        }
    }

    /// Something happens to a host; what it does in turn is carried out.
    fn step(&mut self, hosts: &mut Hosts, node: u8, input: Input) -> Check {
        let id = self.hosts[usize::from(node)];
        let outcome = hosts.after(id, input)?;
        self.hosts[usize::from(node)] = outcome.host;
        for &out in outcome.out.iter() {
            match out {
                Out::Frame { rail, peer, packet } => self.hand(hosts, (node, peer, rail), packet)?,
                Out::Close { rail, peer, life } => {
                    if self.end((node, peer, rail)).open == life {
                        self.close(hosts, (node, peer, rail), false)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn hand(&mut self, hosts: &mut Hosts, here: Wire, packet: Id) -> Check {
        let life = hosts.packet(packet).header.generation as u8;
        if self.end(here).open != life {
            return Err(format!("a frame for life {life} of {here:?}, which is not open"));
        }
        // An end that is closed, or has a newer life, reads no more of this one.
        let there = self.end_mut(other(here));
        let heard = there.open == life || there.news.as_slice().contains(&News::Up(life));
        if there.dark || !heard {
            return self.written(hosts, here, packet).map(|_| ());
        }
        there.wire.push(packet).map_err(|_| format!("{MOST_ON_WIRE} frames on {here:?}, and more to come"))
    }

    /// The bytes of a frame's payload go out, if they have not yet. Gives the packet with them.
    fn written(&mut self, hosts: &mut Hosts, wire: Wire, packet: Id) -> Result<Id, String> {
        if hosts.packet(packet).payload.is_some() {
            return Ok(packet);
        }
        let whole = hosts.written(self.hosts[usize::from(wire.0)], wire.2, wire.1, packet)?;
        let number = hosts.packet(packet).header.number;
        self.step(hosts, wire.0, Input::Sent { rail: wire.2, peer: wire.1, number })?;
        Ok(whole)
    }

    fn darken(&mut self, hosts: &mut Hosts, wire: Wire) -> Check {
        let end = self.end_mut(other(wire));
        end.dark = true;
        let lost = end.wire;
        // What had begun to come in stays half in.
        end.wire.len = u8::from(end.half);
        let from = usize::from(end.half);
        lost.as_slice()[from..].iter().try_for_each(|&packet| self.written(hosts, wire, packet).map(|_| ()))
    }

    fn deliver(&mut self, hosts: &mut Hosts, wire: Wire, again: bool) -> Check {
        let (rail, peer) = (wire.2, wire.0);
        let end = self.end_mut(other(wire));
        let half = std::mem::take(&mut end.half);
        let packet = end.wire.as_slice().first().copied().ok_or("nothing to deliver")?;
        let packet = self.written(hosts, wire, packet)?;
        let end = self.end_mut(other(wire));
        if again {
            end.wire.items[0] = packet;
        } else {
            end.wire.pop();
        }
        let input =
            if half { Input::End { rail, peer, packet } } else { Input::Frame { rail, peer, packet } };
        self.step(hosts, wire.1, input)
    }

    /// An end loses its connection; the other end will hear of it unless the link is dark.
    fn close(&mut self, hosts: &mut Hosts, end: Wire, report: bool) -> Check {
        let may_late = self.may.late > 0;
        let here = self.end_mut(end);
        let life = std::mem::take(&mut here.open);
        (here.half, here.wounded) = (false, false);
        // Of what was on its way to this end, the first counted frame may come late: bytes that a receiver still had.
        let wire = here.wire;
        here.wire.clear();
        let late = here.late == NONE && may_late;
        for &packet in wire.as_slice() {
            // What a newer connection has brought waits for this end to hear of it.
            if hosts.packet(packet).header.generation > life.into() {
                self.end_mut(end).wire.push(packet)?;
                continue;
            }
            let packet = self.written(hosts, other(end), packet)?;
            let here = self.end_mut(end);
            if late && here.late == NONE && hosts.packet(packet).header.number > 0 {
                here.late = packet;
            }
        }
        let there = self.end_mut(other(end));
        // What this end's socket has not taken is dropped: so is what comes after it.
        let taken = there.wire.as_slice().iter().position(|&p| hosts.packet(p).payload.is_none());
        there.wire.len = taken.map_or(there.wire.len, |at| at as u8);
        let reported = there.news.as_slice().contains(&News::Down(life));
        let linked = there.open > 0 && there.open <= life || there.news.as_slice().contains(&News::Up(life));
        if linked && !there.dark && !reported {
            there.news.push(News::Down(life))?;
        }
        if report {
            self.step(hosts, end.0, Input::Down { rail: end.2, peer: end.1, life })?;
        }
        Ok(())
    }

    fn on_report(&mut self, hosts: &mut Hosts, end: Wire) -> Check {
        let news = self.end_mut(end).news.pop().ok_or("no news")?;
        let open = self.end(end).open;
        match news {
            News::Down(life) if open == life => self.close(hosts, end, true),
            News::Up(life) if open < life => {
                if open > 0 {
                    self.close(hosts, end, true)?;
                }
                self.end_mut(end).open = life;
                self.step(hosts, end.0, Input::Up { rail: end.2, peer: end.1, life })
            }
            _ => Ok(()),
        }
    }
}
