//! Memory of ranks: sent from where it is, registered once, given back with it.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use node_agent_local::Region;
use node_agent_local::pieces::{Source, Target};
use node_agent_transport::carrier::{Carrier, ENTROPY, Lane};
use node_agent_verbs::VerbsCarrier;

use crate::faults::FAILS;
use crate::world::{MR, Net};

/// Both ends of a lane.
struct Ends {
    carriers: [VerbsCarrier; 2],
    lanes: [Lane; 2],
}

impl Ends {
    fn new(net: &Net) -> Self {
        let mut carriers = [0, 1].map(|node| VerbsCarrier::open(&net.carrier_config(node)).unwrap());
        let opened = [0, 1].map(|node| {
            let peer = 1 - node as u16;
            carriers[node].open(0, peer, &[node as u8 + 1; ENTROPY]).unwrap()
        });
        for node in [0, 1] {
            carriers[node].join(opened[node].0, &opened[1 - node].1).unwrap();
        }
        Ends { carriers, lanes: [opened[0].0, opened[1].0] }
    }

    /// Sends pieces from the first to the second, and gives what comes out there.
    fn carry(&mut self, pieces: &[Source<'_>]) -> Vec<u8> {
        let length = pieces.iter().map(Source::len).sum();
        assert_eq!(self.carriers[0].send(self.lanes[0], pieces).unwrap(), length);
        let (mut got, mut at, mut news) = (vec![0; length], 0, Vec::new());
        for _ in 0..1000 {
            self.carriers.iter_mut().for_each(|carrier| carrier.look(Instant::now(), &mut news));
            match self.carriers[1].receive(self.lanes[1], &mut [Target::from(&mut got[at..])]) {
                Ok(n) => at += n,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if at == length {
                // What the receiver says it took, and the device of the sender.
                self.carriers[0].look(Instant::now(), &mut news);
                return got;
            }
        }
        panic!("{at} of {length} bytes came")
    }
}

#[test]
fn a_ranks_memory_is_sent_in_place_and_given_back_with_it() {
    let net = Net::new(2, 1);
    let registered = || net.fake.alive(net.device(0, 0), MR);
    let mut ends = Ends::new(&net);
    let (before, header) = (registered(), [7; 48]);
    let bytes: Vec<u8> = (0..150_000u32).map(|i| (i * 31 % 251) as u8).collect();
    let (memory, _file) = Region::create(150_000).unwrap();
    let memory = Arc::new(memory);
    memory.write(0, &bytes).unwrap();
    // Small pieces are copied, large ones are not, and neither lie on a boundary of a slot.
    for (from, length) in [(0, 100), (11, 4095), (5, 4096), (1, 149_000), (0, 150_000)] {
        let other = Source::from(&bytes[..777]);
        let pieces = [Source::from(&header[..]), Source::of(&memory, from, length).unwrap(), other];
        let expected = [&header[..], &bytes[from..from + length], &bytes[..777]].concat();
        assert!(ends.carry(&pieces) == expected, "{length} bytes from {from}");
        let once = i64::from(length >= 4096);
        assert_eq!(registered() - before, once, "registered once, if at all: {length} bytes");
    }
    // While a rank has it, it stays registered; then the device does not.
    ends.carriers[0].arm();
    assert_eq!(registered() - before, 1);
    drop(memory);
    ends.carriers[0].arm();
    assert_eq!(registered(), before);
}

#[test]
fn memory_that_cannot_be_registered_is_copied() {
    let net = Net::new(2, 1);
    let mut ends = Ends::new(&net);
    let (memory, _file) = Region::create(100_000).unwrap();
    let memory = Arc::new(memory);
    memory.write(0, &[9; 100_000]).unwrap();
    let device = net.device(0, 0);
    let before = net.fake.alive(device, MR);
    for answer in [libc::ENOMEM, 0] {
        net.fake.fault(device, FAILS + MR as i32, answer);
        assert!(ends.carry(&[Source::of(&memory, 0, 100_000).unwrap()]) == [9; 100_000]);
        assert_eq!(net.fake.alive(device, MR), before, "and not tried again");
    }
}
