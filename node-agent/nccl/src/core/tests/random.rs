//! Programs at random: many connections in all directions, groups of receives, tags that overtake each other, sizes below the room, and ends
//! that close whenever they like.

use std::collections::{BTreeMap, VecDeque};

use proto_random::Random;

use super::net::Net;
use crate::core::{MAX_RECEIVES, MAX_REQUESTS, Outcome, ReceiveId, RequestId, SendId};

/// The number of a group, and a place in it.
type Target = (usize, usize);

/// A connection and what is planned for it.
struct Line {
    from: usize,
    to: usize,
    send: SendId,
    receive: ReceiveId,
    /// By tag: sizes that are yet to be sent, and where each is to land (number of the group, place in it). Groups of (room, tag) that are yet to
    /// be received.
    sends: BTreeMap<i32, VecDeque<(u64, Target)>>,
    groups: VecDeque<Vec<(u64, i32)>>,
    /// Sizes that each place is to get, of requests under way.
    expected: BTreeMap<RequestId, Vec<u64>>,
    sending: VecDeque<(RequestId, u64)>,
    /// Where each message that was sent is to land, and which request each group has become.
    sent: Vec<(RequestId, Target)>,
    received: Vec<RequestId>,
    receiving: VecDeque<RequestId>,
    plans: VecDeque<Vec<u64>>,
    open: [bool; 2],
}

fn line(net: &mut Net, rng: &mut Random, groups: usize) -> Line {
    let ranks = net.machines.len();
    let from = rng.index(ranks);
    let to = (from + 1 + rng.index(ranks - 1)) % ranks;
    let (send, receive) = net.connect(from, to);
    let (mut sends, mut all, mut plans) =
        (BTreeMap::<_, VecDeque<_>>::new(), VecDeque::new(), VecDeque::new());
    // Pairs of ranks share the connection; each has a tag, and some have places in a group and others none.
    let pairs = 1 + rng.index(2 * MAX_RECEIVES);
    for number in 0..groups {
        let count = 1 + rng.index(MAX_RECEIVES);
        let room = |rng: &mut Random| rng.word() % [1, 30, 400, 2000][rng.index(4)];
        let group: Vec<(u64, i32)> =
            (0..count).map(|_| (room(rng), i32::try_from(rng.index(pairs)).unwrap() - 3)).collect();
        let sizes: Vec<u64> = group.iter().map(|(room, _)| rng.word() % (room + 1)).collect();
        for (at, (size, (_, tag))) in sizes.iter().zip(&group).enumerate() {
            sends.entry(*tag).or_default().push_back((*size, (number, at)));
        }
        all.push_back(group);
        plans.push_back(sizes);
    }
    Line {
        from,
        to,
        send,
        receive,
        sends,
        groups: all,
        plans,
        expected: BTreeMap::new(),
        sending: VecDeque::new(),
        sent: Vec::new(),
        received: Vec::new(),
        receiving: VecDeque::new(),
        open: [true; 2],
    }
}

impl Line {
    /// The sender's program, or the receiver's, does something. Says whether it could.
    fn act(&mut self, net: &mut Net, rng: &mut Random) -> bool {
        match rng.index(4) {
            0 => {
                // Each pair of ranks sends in its own order, and at its own pace.
                let tags: Vec<i32> = self.sends.keys().copied().collect();
                let Some(tag) = tags.get(rng.index(tags.len().max(1))).copied() else { return false };
                let queue = self.sends.get_mut(&tag).unwrap();
                let (bytes, place) = *queue.front().unwrap();
                let Some(request) = net.machines[self.from].send(self.send, tag, bytes).unwrap() else {
                    return false;
                };
                queue.pop_front();
                if queue.is_empty() {
                    self.sends.remove(&tag);
                }
                self.sent.push((request, place));
                self.sending.push_back((request, bytes));
                true
            }
            1 => {
                let Some(group) = self.groups.front() else { return false };
                let Some(request) = net.machines[self.to].receive(self.receive, group).unwrap() else {
                    assert!(self.receiving.len() >= MAX_REQUESTS);
                    return false;
                };
                self.groups.pop_front();
                self.expected.insert(request, self.plans.pop_front().unwrap());
                self.received.push(request);
                self.receiving.push_back(request);
                true
            }
            2 => {
                let at = rng.index(self.sending.len().max(1));
                let Some(&(request, bytes)) = self.sending.get(at) else { return false };
                let outcome = net.machines[self.from].test(request).unwrap();
                if outcome == Outcome::Pending {
                    return false;
                }
                assert_eq!(outcome, Outcome::Done(vec![bytes]));
                self.sending.remove(at);
                true
            }
            _ => {
                let at = rng.index(self.receiving.len().max(1));
                let Some(&request) = self.receiving.get(at) else { return false };
                match net.machines[self.to].test(request).unwrap() {
                    Outcome::Pending => false,
                    Outcome::Done(sizes) => {
                        assert_eq!(Some(sizes), self.expected.remove(&request));
                        self.receiving.remove(at);
                        true
                    }
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.sends.is_empty()
            && self.groups.is_empty()
            && self.sending.is_empty()
            && self.receiving.is_empty()
    }

    /// Whether each message that has bytes landed in its own place.
    fn check_places(&self, net: &Net) {
        for (request, (group, at)) in &self.sent {
            let landed = net.landed.get(&(self.to, self.received[*group], *at));
            assert!(
                landed.is_none_or(|found| *found == (self.from, *request)),
                "{landed:?}, not {request:?}"
            );
        }
    }

    fn close(&mut self, net: &mut Net, end: usize) {
        if !std::mem::replace(&mut self.open[end], false) {
            return;
        }
        if end == 0 {
            net.machines[self.from].close_send(self.send).unwrap();
        } else {
            net.machines[self.to].close_receive(self.receive).unwrap();
        }
    }
}

fn world(seed: u64) -> (Net, Random, Vec<Line>) {
    let mut rng = Random::new(seed);
    let mut net = Net::new(2 + rng.index(3), 1 + rng.index(4));
    let lines = (0..1 + rng.index(6)).map(|_| {
        let groups = rng.index(60);
        line(&mut net, &mut rng, groups)
    });
    let lines = lines.collect();
    (net, rng, lines)
}

#[test]
fn every_message_lands_in_its_place() {
    for seed in 0..400 {
        let (mut net, mut rng, mut lines) = world(seed);
        let mut idle = 0;
        while !lines.iter().all(Line::is_done) {
            let at = rng.index(lines.len());
            let acted = lines[at].act(&mut net, &mut rng) | net.step(&mut rng);
            idle = if acted { 0 } else { idle + 1 };
            assert!(idle < 10_000, "seed {seed}: nothing goes on");
        }
        net.settle();
        assert!(net.is_quiet(), "seed {seed}");
        for line in &mut lines {
            line.check_places(&net);
            let first = rng.index(2);
            line.close(&mut net, first);
            line.close(&mut net, 1 - first);
        }
        net.settle();
        assert!(net.machines.iter().all(crate::core::Machine::is_idle), "seed {seed}");
    }
}

/// Ends close at any moment, with anything under way: no call of the engine is left alone, and nothing is left behind.
#[test]
fn closing_in_flight_leaves_nothing_behind() {
    for seed in 0..600 {
        let (mut net, mut rng, mut lines) = world(seed);
        let steps = rng.index(400);
        for _ in 0..steps {
            let at = rng.index(lines.len());
            if lines[at].open == [true; 2] {
                lines[at].act(&mut net, &mut rng);
            }
            net.step(&mut rng);
            if rng.index(60) == 0 {
                let end = rng.index(2);
                lines[at].close(&mut net, end);
            }
        }
        for line in &mut lines {
            let first = rng.index(2);
            line.close(&mut net, first);
            (0..rng.index(20)).for_each(|_| {
                net.step(&mut rng);
            });
            let landed = net.landed.len();
            line.close(&mut net, 1 - first);
            assert_eq!(net.landed.len(), landed);
        }
        net.settle();
        assert!(net.is_quiet(), "seed {seed}: a call of the engine waits for ever");
        assert!(net.machines.iter().all(crate::core::Machine::is_idle), "seed {seed}");
    }
}
