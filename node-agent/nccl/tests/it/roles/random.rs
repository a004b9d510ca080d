//! Programs at random, against a plan that all ranks make of one seed: connections in all directions, groups, sizes below the room.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;

use proto_random::Random;

use super::{Rank, fill, good, setting, until};
use crate::plugin::Handle;

const UNTOUCHED: u8 = 0xee;

/// What one message of a line is: its number, room, size and tag.
#[derive(Clone, Copy)]
struct Message {
    number: u64,
    room: usize,
    bytes: usize,
    tag: i32,
}

/// A connection as all ranks plan it.
struct Plan {
    from: usize,
    to: usize,
    groups: VecDeque<Vec<Message>>,
    /// The same messages in the order in which they are sent.
    sends: VecDeque<Message>,
}

fn plan(rng: &mut Random, world: usize) -> Plan {
    let from = rng.index(world);
    let to = (from + rng.index(world)) % world;
    let (mut groups, mut sends, mut number) = (VecDeque::new(), VecDeque::new(), 0);
    for _ in 0..rng.index(40) {
        let count = 1 + rng.index(8);
        let group: Vec<Message> = (0..count)
            .map(|tag| {
                let most = [1, 64, 5000, 100_000][rng.index(4)];
                let room = rng.index(most);
                number += 1;
                let bytes = if rng.index(3) == 0 { room } else { rng.index(room + 1) };
                Message { number, room, bytes, tag: i32::try_from(tag).unwrap() * 7 - 3 }
            })
            .collect();
        let mut order = group.clone();
        for at in (1..count).rev() {
            order.swap(at, rng.index(at + 1));
        }
        sends.extend(order);
        groups.push_back(group);
    }
    Plan { from, to, groups, sends }
}

/// A receive under way: the request, its messages, and their rooms.
type Receiving = (*mut c_void, Vec<Message>, Vec<Vec<u8>>);

/// A connection as this rank has it.
struct Line {
    number: u64,
    plan: Plan,
    handle: Option<Handle>,
    listener: *mut c_void,
    sender: *mut c_void,
    receiver: *mut c_void,
    sending: VecDeque<(*mut c_void, Vec<u8>)>,
    receiving: VecDeque<Receiving>,
}

pub fn run(rank: &mut Rank) {
    let seed = setting("RAIL_TEST_SEED");
    println!("seed {seed}: RAIL_TEST_SEED={seed} does the same again");
    let mut rng = Random::new(seed);
    let plans: Vec<Plan> = (0..2 + rng.index(10)).map(|_| plan(&mut rng, rank.world)).collect();
    let mut own = Random::new(seed ^ (rank.rank as u64 + 1));
    let mut lines = Vec::new();
    let here = rank.rank;
    for (number, plan) in (0..).zip(plans).filter(|(_, plan)| [plan.from, plan.to].contains(&here)) {
        let listener = if plan.to == rank.rank { rank.listen(&format!("line.{number}")) } else { null_mut() };
        lines.push(Line {
            number,
            plan,
            handle: None,
            listener,
            sender: null_mut(),
            receiver: null_mut(),
            sending: VecDeque::new(),
            receiving: VecDeque::new(),
        });
    }
    for line in &mut lines {
        if line.plan.from == rank.rank {
            line.handle = Some(rank.handle(&format!("line.{}", line.number)));
        }
    }
    // Others may wait for this rank to go on as long as it has to be heard: all lines in one loop.
    until("all lines", || {
        for _ in 0..lines.len() {
            let at = own.index(lines.len());
            lines[at].act(rank, &mut own);
        }
        lines.iter().all(|line| line.is_done(rank.rank)).then_some(())
    });
    for line in &lines {
        let closed = [
            (line.sender, Plan::CLOSE_SEND),
            (line.receiver, Plan::CLOSE_RECEIVE),
            (line.listener, Plan::CLOSE_LISTEN),
        ];
        for (comm, how) in closed.into_iter().filter(|(comm, _)| !comm.is_null()) {
            good("a close", how(rank, comm));
        }
    }
    rank.finish();
}

type Close = fn(&Rank, *mut c_void) -> Result<(), i32>;

impl Plan {
    const CLOSE_SEND: Close = |rank, comm| rank.plugin.close_send(comm);
    const CLOSE_RECEIVE: Close = |rank, comm| rank.plugin.close_recv(comm);
    const CLOSE_LISTEN: Close = |rank, comm| rank.plugin.close_listen(comm);
}

impl Line {
    fn act(&mut self, rank: &Rank, rng: &mut Random) {
        if self.plan.from == rank.rank {
            self.act_sender(rank, rng);
        }
        if self.plan.to == rank.rank {
            self.act_receiver(rank, rng);
        }
    }

    fn act_sender(&mut self, rank: &Rank, rng: &mut Random) {
        if let (true, Some(handle)) = (self.sender.is_null(), &mut self.handle) {
            self.sender = good("connect", rank.plugin.connect(handle));
            return;
        }
        if let (0..2, Some(message)) = (rng.index(3), self.plan.sends.front()) {
            let data = fill(self.number, message.number, message.bytes);
            let request = good("isend", rank.plugin.isend(self.sender, &data, message.tag));
            if !request.is_null() {
                self.plan.sends.pop_front();
                self.sending.push_back((request, data));
            }
        } else if let Some((request, data)) = self.sending.front()
            && let Some(found) = good("test", rank.plugin.test(*request, 1))
        {
            assert_eq!(found[0] as usize, data.len());
            self.sending.pop_front();
        }
    }

    fn act_receiver(&mut self, rank: &Rank, rng: &mut Random) {
        if self.receiver.is_null() {
            self.receiver = good("accept", rank.plugin.accept(self.listener));
            return;
        }
        if let (0, Some(group)) = (rng.index(2), self.plan.groups.front()) {
            if self.receiving.len() >= 32 {
                return;
            }
            let mut rooms: Vec<Vec<u8>> = group.iter().map(|message| vec![UNTOUCHED; message.room]).collect();
            let mut messages: Vec<(&mut [u8], i32)> =
                rooms.iter_mut().zip(group).map(|(room, message)| (&mut room[..], message.tag)).collect();
            let request = good("irecv", rank.plugin.irecv(self.receiver, &mut messages));
            if let (false, Some(group)) = (request.is_null(), self.plan.groups.pop_front()) {
                self.receiving.push_back((request, group, rooms));
            }
        } else if let Some((request, group, rooms)) = self.receiving.front()
            && let Some(found) = good("test", rank.plugin.test(*request, group.len()))
        {
            for ((message, room), found) in group.iter().zip(rooms).zip(found) {
                let (came, rest) = room.split_at(message.bytes);
                assert_eq!(found as usize, message.bytes);
                assert!(
                    came == fill(self.number, message.number, message.bytes),
                    "message {}",
                    message.number
                );
                assert!(rest.iter().all(|byte| *byte == UNTOUCHED));
            }
            self.receiving.pop_front();
        }
    }

    fn is_done(&self, rank: usize) -> bool {
        let sent = !self.sender.is_null() && self.plan.sends.is_empty() && self.sending.is_empty();
        let received = !self.receiver.is_null() && self.plan.groups.is_empty() && self.receiving.is_empty();
        (sent || self.plan.from != rank) && (received || self.plan.to != rank)
    }
}
