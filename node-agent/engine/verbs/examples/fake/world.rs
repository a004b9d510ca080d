//! What the devices that stand in are, and what becomes of what is posted on them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CString, c_int, c_uint};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use node_agent_engine_verbs::ffi::*;

/// Calls that can be made to fail, and kinds of objects that are counted.
pub const KINDS: usize = 8;
pub const CONTEXT: usize = 0;
pub const PD: usize = 1;
pub const MR: usize = 2;
pub const CHANNEL: usize = 3;
pub const CQ: usize = 4;
pub const QP: usize = 5;
/// Of memory on GPUs; counted with the others too.
pub const DMA_BUF: usize = 6;
/// Memory windows; that some are there and cannot be bound is a fault of its own.
pub const MW: usize = 7;

#[derive(Default)]
pub struct FakeDevice {
    /// Made when it is asked for; it stays where it is.
    pub name: Option<CString>,
    pub gid: Gid,
    pub index: u32,
    pub down: bool,
    pub silent: bool,
    pub held: bool,
    pub slow: bool,
    pub never_binds: bool,
    pub duplicates: u32,
    pub lose_acknowledgements: bool,
    pub fail: [i32; KINDS],
    pub alive: [i64; KINDS],
    pub contexts: Vec<usize>,
    pub path: AhAttr,
    /// Has the addresses of all rails that tests of engines use: 127.0.R.N.
    pub all: bool,
}

/// Adds that device, for programs that know nothing of this library's own functions.
pub const ALL: &str = "RAIL_FAKE_VERBS_ALL";
/// How many rails, and nodes on each.
pub const RAILS: u8 = 8;
pub const NODES: u8 = 16;

pub struct FakeQp {
    pub device: usize,
    pub send: usize,
    pub receive: usize,
    pub depths: (usize, usize),
    pub expected: VecDeque<u64>,
    pub under_way: usize,
    pub state: c_uint,
    pub peer: u32,
    pub failed: bool,
}

pub struct FakeCq {
    pub completion_channel: usize,
    pub entries: usize,
    pub done: VecDeque<Wc>,
    pub armed: bool,
    pub device: usize,
    pub broken: bool,
}

/// A message that was posted. Its bytes are read when it is carried, as a device reads them, but those that went inline.
pub struct Posted {
    pub qp: u32,
    pub id: u64,
    pub remote: u64,
    pub rkey: u32,
    pub imm: u32,
    /// What it binds, if it is no message: a window's key, the range, and the key of its memory.
    pub binds: Option<(u32, u64, u64, u32)>,
    pub pieces: Vec<Sge>,
    pub inline: Option<Vec<u8>>,
    /// How often somebody asked for completions since.
    pub age: u32,
    /// It has vanished, and its queue pair knows nothing of it.
    pub lost: bool,
}

/// A message is carried when somebody has asked for completions so often since it was posted, or wants to sleep.
pub const AGE: u32 = 3;

pub struct Pipe {
    pub write: OwnedFd,
    pub read: OwnedFd,
    pub events: VecDeque<(c_uint, u64)>,
}

#[derive(Default)]
pub struct World {
    pub devices: Vec<FakeDevice>,
    pub qps: BTreeMap<u32, FakeQp>,
    pub cqs: BTreeMap<usize, FakeCq>,
    pub pipes: BTreeMap<usize, Pipe>,
    pub posted: VecDeque<Posted>,
    /// Windows that are bound: by key, the range, and the queue pair whose peer may write it.
    pub windows: BTreeMap<u32, (u64, u64, u32)>,
    pub regions: BTreeMap<u32, (u64, u64, bool, usize)>,
    /// Of registered dma-bufs: what is to be added to their addresses to be where they are mapped.
    pub mapped: BTreeMap<u32, (u64, usize)>,
    pub next: u32,
}

pub static WORLD: Mutex<World> = Mutex::new(World {
    devices: Vec::new(),
    qps: BTreeMap::new(),
    cqs: BTreeMap::new(),
    pipes: BTreeMap::new(),
    posted: VecDeque::new(),
    windows: BTreeMap::new(),
    regions: BTreeMap::new(),
    mapped: BTreeMap::new(),
    next: 1,
});

pub fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn fail(errno: i32) {
    unsafe { *libc::__errno_location() = errno };
}

/// A context as the library makes it, and which device it is of.
#[repr(C)]
pub struct Open {
    pub context: Context,
    /// Where the real one has its lock.
    pub rest: [u64; 8],
    pub device: usize,
}

pub unsafe fn device_of(context: *mut Context) -> usize {
    unsafe { (*context.cast::<Open>()).device }
}

impl World {
    pub fn pipe(&mut self, owner: usize) -> c_int {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let fd = read.as_raw_fd();
        self.pipes.insert(owner, Pipe { write, read, events: VecDeque::new() });
        fd
    }

    pub fn event(&mut self, owner: usize, kind: c_uint, element: u64) {
        if let Some(pipe) = self.pipes.get_mut(&owner) {
            pipe.events.push_back((kind, element));
            rustix::io::write(&pipe.write, &[1]).unwrap();
        }
    }

    /// Whether this call fails now.
    pub fn fails(&mut self, device: usize, kind: usize) -> bool {
        let errno = self.devices[device].fail[kind];
        fail(errno);
        errno != 0
    }

    pub fn alive(&mut self, device: usize, kind: usize, change: i64) {
        self.devices[device].alive[kind] += change;
    }

    pub fn complete(&mut self, cq: usize, wc: Wc) {
        let queue = self.cqs.get_mut(&cq).unwrap();
        queue.done.push_back(wc);
        assert!(queue.done.len() <= queue.entries, "a completion queue overflows");
        if std::mem::take(&mut queue.armed) {
            let completion_channel = queue.completion_channel;
            self.event(completion_channel, 0, cq as u64);
        }
    }

    pub fn send_done(&mut self, number: u32, id: u64, status: c_uint) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        qp.failed |= status != WC_SUCCESS;
        let cq = qp.send;
        self.complete(cq, Wc { wr_id: id, status, opcode: 1, qp_num: number, ..Wc::default() });
    }

    /// Carries what was posted `age` questions ago, in order.
    pub fn progress(&mut self, age: u32) {
        for mut posted in std::mem::take(&mut self.posted) {
            posted.age += 1;
            let Some(own) = self.qps.get(&posted.qp) else { continue };
            if posted.lost || self.devices[own.device].held || posted.age < age {
                self.posted.push_back(posted);
                continue;
            }
            let bytes = posted.inline.take().unwrap_or_else(|| unsafe { self.gather(&posted.pieces) });
            match unsafe { self.carry(&posted, &bytes) } {
                Some(status) => self.send_done(posted.qp, posted.id, status),
                None => self.posted.push_back(Posted { lost: true, ..posted }),
            }
        }
    }

    /// Gives up what is posted on a queue pair: it is not read any more.
    pub fn flush(&mut self, number: u32) {
        for posted in std::mem::take(&mut self.posted) {
            if posted.qp == number {
                self.send_done(number, posted.id, WC_WR_FLUSH_ERR);
            } else {
                self.posted.push_back(posted);
            }
        }
    }

    /// Reads the bytes of a message from registered memory.
    pub unsafe fn gather(&self, pieces: &[Sge]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in pieces {
            let known = |(address, length, ..): &(u64, u64, bool, usize)| {
                piece.addr >= *address && piece.addr + u64::from(piece.length) <= address + length
            };
            assert!(self.regions.get(&piece.lkey).is_some_and(known), "memory that is not registered");
            let on_gpu = self.mapped.get(&piece.lkey).map_or(0, |(shift, _)| *shift);
            let before = bytes.len();
            bytes.resize(before + piece.length as usize, 0);
            let from = piece.addr.wrapping_add(on_gpu) as *const u8;
            unsafe { std::ptr::copy(from, bytes.as_mut_ptr().add(before), piece.length as usize) };
        }
        bytes
    }

    /// Carries one message; gives its status, or nothing if nobody ever says.
    pub unsafe fn carry(&mut self, posted: &Posted, bytes: &[u8]) -> Option<c_uint> {
        let &Posted { qp: number, remote, rkey, imm, .. } = posted;
        let own = &self.qps[&number];
        if own.failed {
            return Some(WC_WR_FLUSH_ERR);
        }
        let (device, peer) = (own.device, own.peer);
        if let Some((key, address, length, memory)) = posted.binds {
            let bound = |(start, bytes, ..): &(u64, u64, bool, usize)| {
                address >= *start && address + length <= start + bytes
            };
            let inside = self.regions.get(&memory).is_some_and(bound);
            if self.devices[device].never_binds || !inside || self.windows.contains_key(&key) {
                return Some(6);
            }
            self.windows.insert(key, (address, length, number));
            return Some(WC_SUCCESS);
        }
        if self.devices[device].silent {
            return None;
        }
        if self.devices[device].down {
            return Some(2);
        }
        let Some(there) = self.qps.get(&peer).filter(|there| there.state >= QPS_RTR && !there.failed) else {
            return Some(WC_RETRY_EXC_ERR);
        };
        if self.devices[there.device].down || there.peer != number {
            return Some(WC_RETRY_EXC_ERR);
        }
        if let Some(&(address, length, own)) = self.windows.get(&rkey) {
            let end = remote.checked_add(bytes.len() as u64);
            if own != peer || remote < address || end.is_none_or(|end| end > address + length) {
                return Some(10);
            }
            unsafe { std::ptr::copy(bytes.as_ptr(), remote as *mut u8, bytes.len()) };
        } else if !bytes.is_empty() {
            let region = self.regions.get(&rkey).filter(|(address, length, writable, owner)| {
                let end = remote.checked_add(bytes.len() as u64);
                let inside = remote >= *address && end.is_some_and(|end| end <= address + length);
                inside && *writable && *owner == there.device
            });
            if region.is_none() {
                return Some(10);
            }
            unsafe { std::ptr::copy(bytes.as_ptr(), remote as *mut u8, bytes.len()) };
        }
        let twice = std::mem::take(&mut self.devices[device].duplicates);
        for _ in 0..=u32::from(twice > 0) {
            let there = self.qps.get_mut(&peer).unwrap();
            let Some(id) = there.expected.pop_front() else { return Some(13) };
            let wc = Wc {
                wr_id: id,
                status: WC_SUCCESS,
                opcode: WC_RECV_RDMA_WITH_IMM,
                byte_len: bytes.len() as u32,
                imm_data: imm,
                qp_num: peer,
                wc_flags: 2,
                ..Wc::default()
            };
            let cq = there.receive;
            self.complete(cq, wc);
        }
        self.devices[device].duplicates = twice.saturating_sub(1);
        if self.devices[device].lose_acknowledgements { Some(WC_RETRY_EXC_ERR) } else { Some(WC_SUCCESS) }
    }
}
