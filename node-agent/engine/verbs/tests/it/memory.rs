//! Memory of ranks: sent from where it is, registered once, given back with it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_engine_transport::Wiring;
use node_agent_engine_transport::carrier::{Carrier, ChannelId, ENTROPY, News};
use node_agent_engine_verbs::VerbsCarrier;
use node_agent_ipc::Region;
use node_agent_ipc::pieces::{Source, Target};

use crate::faults::{CARRIED, FAILS, HELD, QUICK_END, SLOW_END};
use crate::world::{DMA_BUF, MR, Net, all_reduce, broadcast, leave, together};

/// Both ends of a channel.
struct Ends {
    carriers: [VerbsCarrier; 2],
    channels: [ChannelId; 2],
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
        Ends { carriers, channels: [opened[0].0, opened[1].0] }
    }

    /// Sends pieces from the first to the second, and gives what comes out there.
    fn carry(&mut self, pieces: &[Source<'_>]) -> Vec<u8> {
        let length = pieces.iter().map(Source::len).sum();
        assert_eq!(self.carriers[0].send(self.channels[0], pieces).unwrap(), length);
        let (mut got, mut at, mut news) = (vec![0; length], 0, Vec::new());
        for _ in 0..1000 {
            self.carriers.iter_mut().for_each(|carrier| carrier.check(Instant::now(), &mut news));
            match self.carriers[1].receive(self.channels[1], &mut [Target::from(&mut got[at..])]) {
                Ok(n) => at += n,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            if at == length {
                // What the receiver says it took, and the device of the sender.
                self.carriers[0].check(Instant::now(), &mut news);
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

/// What a device reads in place is its owner's again when it is done with it, and not when it has taken it.
#[test]
fn a_ranks_memory_is_read_until_the_device_says_so() {
    let net = Net::new(2, 1);
    let device = net.device(0, 0);
    let mut ends = Ends::new(&net);
    let (memory, _file) = Region::create(200_000).unwrap();
    let memory = Arc::new(memory);
    memory.write(0, &[1; 200_000]).unwrap();
    net.fake.fault(device, HELD, 0);
    let (channel, header, mut news) = (ends.channels[0], [7; 48], Vec::new());
    let small = [Source::from(&header[..]), Source::of(&memory, 0, 100).unwrap()];
    assert_eq!(ends.carriers[0].send(channel, &small).unwrap(), 148);
    assert_eq!(ends.carriers[0].release_buffer(channel), 148, "what was copied is not read any more");
    let large = [Source::from(&header[..]), Source::of(&memory, 0, 100_000).unwrap()];
    assert_eq!(ends.carriers[0].send(channel, &large).unwrap(), 100_048);
    assert_eq!(ends.carriers[0].send(channel, &small).unwrap(), 148);
    for _ in 0..100 {
        ends.carriers[0].check(Instant::now(), &mut news);
    }
    assert_eq!((ends.carriers[0].release_buffer(channel), &news[..]), (148, &[][..]));
    net.fake.fault(device, CARRIED, 0);
    ends.carriers[0].check(Instant::now(), &mut news);
    assert_eq!(ends.carriers[0].release_buffer(channel), 148 + 100_048 + 148);
    assert!(news.contains(&News::LetGo(channel)), "{news:?}");
    // A channel that ends reads nothing any more, whatever was under way, and however long its queue pairs are there.
    net.fake.fault(device, SLOW_END, 0);
    net.fake.fault(device, HELD, 0);
    assert_eq!(ends.carriers[0].send(channel, &large).unwrap(), 100_048);
    ends.carriers[0].end(channel);
    memory.write(0, &[2; 200_000]).unwrap();
    net.fake.fault(device, CARRIED, 0);
    let (mut got, mut at) = (vec![0; 300_000], 0);
    for _ in 0..100 {
        ends.carriers[1].check(Instant::now(), &mut news);
        at += ends.carriers[1].receive(ends.channels[1], &mut [Target::from(&mut got[at..])]).unwrap_or(0);
    }
    net.fake.fault(device, QUICK_END, 0);
    assert_eq!(at, 148 + 100_048 + 148);
    assert!(got[..at].iter().all(|byte| matches!(byte, 1 | 7)));
}

/// Who has sent all that it has to send is not done with it while a device still reads it.
#[test]
fn a_call_ends_when_no_device_reads_its_operands() {
    let net = Net::new(2, 1);
    let device = net.device(0, 0);
    together(net.engines(true), |n, engine| {
        engine.until(|e| e.rails.wiring() == Wiring::Done);
        all_reduce(n, engine, 1000);
        for value in 1..20 {
            broadcast(n, engine, 60_000, value, |engine| {
                net.fake.fault(device, HELD, 0);
                let before = engine.ended();
                engine.until(|e| e.rails.is_reading());
                (0..200).for_each(|_| engine.turn(Duration::ZERO));
                assert!(engine.rails.is_reading() && engine.ended() == before, "turn {value}");
                net.fake.fault(device, CARRIED, 0);
            });
        }
        leave(engine);
    });
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

/// Memory of a GPU whose dma-buf, a memory file, has the bytes from `offset` on.
fn on_gpu(bytes: &[u8], offset: u64) -> (Arc<Region>, OwnedFd) {
    let file = rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, (offset + bytes.len() as u64).next_multiple_of(4096)).unwrap();
    rustix::io::pwrite(&file, bytes, offset).unwrap();
    let memory = Region::of_device(file.try_clone().unwrap(), offset, bytes.len() as u64).unwrap();
    (Arc::new(memory), file)
}

#[test]
fn memory_of_a_gpu_is_sent_from_there_however_small() {
    let net = Net::new(2, 1);
    let mut ends = Ends::new(&net);
    ends.carriers[0].takes_dma_bufs(0).unwrap();
    let bytes: Vec<u8> = (0..150_000u32).map(|i| (i * 37 % 251) as u8).collect();
    let (memory, file) = on_gpu(&bytes, 4096 + 700);
    let (device, header) = (net.device(0, 0), [7; 48]);
    ends.carriers[0].lend(&memory).unwrap();
    for (from, length) in [(0, 1), (11, 100), (5, 4096), (1, 149_000), (0, 150_000)] {
        let pieces = [Source::from(&header[..]), Source::of(&memory, from, length).unwrap()];
        let expected = [&header[..], &bytes[from..from + length]].concat();
        assert!(ends.carry(&pieces) == expected, "{length} bytes from {from}");
        assert_eq!(net.fake.alive(device, DMA_BUF), 1, "registered once");
    }
    // What the GPU writes later is what is sent later.
    rustix::io::pwrite(&file, &[9; 100], 4096 + 700).unwrap();
    assert!(ends.carry(&[Source::of(&memory, 0, 200).unwrap()]) == [&[9; 100], &bytes[100..200]].concat());
    ends.carriers[0].arm();
    assert_eq!(net.fake.alive(device, DMA_BUF), 1, "as long as somebody holds it");
    drop(memory);
    ends.carriers[0].arm();
    assert_eq!(net.fake.alive(device, DMA_BUF), 0, "given back with it");
}

#[test]
fn memory_of_a_gpu_that_no_driver_registers_is_refused_on_all_rails() {
    let net = Net::new(2, 2);
    let [first, second] = [net.device(0, 0), net.device(0, 1)];
    let mut ends = Ends::new(&net);
    let (memory, _file) = on_gpu(&[1; 50_000], 0);
    net.fake.fault(second, FAILS + DMA_BUF as i32, libc::EOPNOTSUPP);
    let why = ends.carriers[0].takes_dma_bufs(1).unwrap_err();
    assert!(why.contains(": the NIC's driver cannot register dma-bufs: load one"), "{why}");
    assert_eq!(ends.carriers[0].lend(&memory).unwrap_err(), why);
    // A driver that says so only when it sees the memory: too large for its tables.
    net.fake.fault(second, FAILS + DMA_BUF as i32, libc::ENOMEM);
    let why = ends.carriers[0].lend(&memory).unwrap_err();
    assert!(why.contains(" cannot register it (ibv_reg_dmabuf_mr): "), "{why}");
    assert_eq!(net.fake.alive(first, DMA_BUF), 0, "the other rail's registration is given back");
    // It is never sent by the processor instead.
    let error = ends.carriers[0].send(ends.channels[0], &[Source::of(&memory, 0, 100).unwrap()]).unwrap_err();
    assert!(error.to_string().contains("not lent"), "{error}");
}

/// The kernel refuses a descriptor that is no dma-buf; a rank's word about its length is not believed either (`Region::of_device`).
#[test]
fn memory_that_the_kernel_refuses_is_told() {
    let net = Net::new(2, 1);
    let mut ends = Ends::new(&net);
    let (memory, _file) = on_gpu(&[1; 4096], 0);
    net.fake.fault(net.device(0, 0), FAILS + DMA_BUF as i32, libc::EINVAL);
    let why = ends.carriers[0].lend(&memory).unwrap_err();
    assert!(why.contains("Invalid argument"), "{why}");
}
