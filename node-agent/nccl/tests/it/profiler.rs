//! The library's profiler as NCCL loads it, beside real messages.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use rail_nccl_net::abi::{CollEvent, EventV4, EventV5, Payload, ProfilerV4, ProfilerV5, ProxyOpEvent};

use crate::plugin::{logged, logger};
use crate::roles::{Rank, fill, good, setting, until};

/// NCCL's kinds and states.
const COLL: u64 = 1 << 1;
const PROXY_OP: u64 = 1 << 3;
const PROXY_STEP: u64 = 1 << 4;
const SEND_PEER: c_int = 20;
const SEND: c_int = 9;
const RECEIVE: c_int = 10;
const BYTES: usize = 4 << 20;

fn ok(code: c_int) {
    assert_eq!(code, 0, "{:?}", logged());
}

enum Table {
    V4(&'static ProfilerV4),
    V5(&'static ProfilerV5),
}

/// The profiler of one version, with a communicator.
struct Profiler {
    table: Table,
    context: *mut c_void,
    mask: c_int,
}

impl Profiler {
    fn begin(path: &Path, rank: &Rank) -> Self {
        // SAFETY: the library was loaded before, and is never closed.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
        let (mut context, mut mask) = (null_mut(), -1);
        let places = (&raw mut context, &raw mut mask);
        let number = rank.rank as c_int;
        let (ranks, name) = (rank.world as c_int, c"name".as_ptr());
        // SAFETY: symbols of these names are statics of these types; the log function is good for ever, and places live while a call lasts.
        let table = unsafe {
            if setting("RAIL_TEST_PROFILER") == 4 {
                let table = &**library.get::<*const ProfilerV4>(b"ncclProfiler_v4").unwrap();
                ok(table.init.unwrap()(places.0, places.1, name, 77, 2, ranks, number, logger()));
                Table::V4(table)
            } else {
                let symbol = format!("ncclProfiler_v{}", setting("RAIL_TEST_PROFILER"));
                let table = &**library.get::<*const ProfilerV5>(symbol.as_bytes()).unwrap();
                ok(table.init.unwrap()(places.0, 77, places.1, name, 2, ranks, number, logger()));
                Table::V5(table)
            }
        };
        Self { table, context, mask }
    }

    fn start(&self, kind: u64, parent: *mut c_void, payload: Payload) -> *mut c_void {
        let mut handle = null_mut();
        // SAFETY: the payload is of this kind, and places live while a call lasts.
        unsafe {
            match &self.table {
                Table::V4(table) => {
                    let mut event = EventV4 { kind: kind as u8, parent, rank: 0, payload };
                    ok(table.start_event.unwrap()(self.context, &raw mut handle, &raw mut event));
                }
                Table::V5(table) => {
                    let mut event = EventV5 { kind, parent, rank: 0, payload };
                    ok(table.start_event.unwrap()(self.context, &raw mut handle, &raw mut event));
                }
            }
        }
        handle
    }

    fn state(&self, event: *mut c_void, state: c_int, mut bytes: usize) {
        let record = match &self.table {
            Table::V4(table) => table.record_event_state,
            Table::V5(table) => table.record_event_state,
        };
        // SAFETY: a number, and a place that lives while the call lasts.
        ok(unsafe { record.unwrap()(event, state, &raw mut bytes) });
    }

    fn stop(&self, event: *mut c_void) {
        let stop = match &self.table {
            Table::V4(table) => table.stop_event,
            Table::V5(table) => table.stop_event,
        };
        // SAFETY: a number.
        ok(unsafe { stop.unwrap()(event) });
    }

    fn end(self) {
        let finalize = match &self.table {
            Table::V4(table) => table.finalize,
            Table::V5(table) => table.finalize,
        };
        // SAFETY: a number.
        ok(unsafe { finalize.unwrap()(self.context) });
    }
}

fn collective(sequence: u64) -> Payload {
    Payload {
        coll: CollEvent {
            sequence,
            function: c"AllReduce".as_ptr(),
            buffers: [null_mut(); 2],
            count: 99,
            root: 0,
            datatype: c"ncclFloat32".as_ptr(),
            channels: 1,
            warps: 1,
            algorithm: c"RING".as_ptr(),
            protocol: c"SIMPLE".as_ptr(),
        },
    }
}

fn operation(peer: usize, sends: bool) -> Payload {
    operation_of(std::process::id() as c_int, peer, sends)
}

fn operation_of(pid: c_int, peer: usize, sends: bool) -> Payload {
    let peer = peer as c_int;
    Payload { proxy_op: ProxyOpEvent { pid, channel: 1, peer, steps: 1, chunk: 1, sends: sends.into() } }
}

/// Messages around a ring, told to the profiler as NCCL's proxy tells them.
pub fn profile(rank: &mut Rank, path: &Path) {
    let profiler = Profiler::begin(path, rank);
    assert_eq!(profiler.mask, 30);
    assert!(!profiler.context.is_null());
    let (sender, receiver) = rank.ring("ring");
    let (next, before) = ((rank.rank + 1) % rank.world, (rank.rank + rank.world - 1) % rank.world);
    for number in 0..6 {
        let call = profiler.start(COLL, null_mut(), collective(number));
        let ops = [
            profiler.start(PROXY_OP, call, operation(next, true)),
            profiler.start(PROXY_OP, call, operation(before, false)),
        ];
        // The payload of a message's event is not read.
        let steps = ops.map(|op| profiler.start(PROXY_STEP, op, operation(0, false)));
        assert!([call, ops[0], ops[1], steps[0], steps[1]].iter().all(|handle| !handle.is_null()));
        profiler.state(steps[0], SEND_PEER, BYTES);
        profiler.state(steps[1], RECEIVE, 0);
        let data = fill(rank.rank as u64, number, BYTES);
        let mut room = vec![0; BYTES];
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let sent = rank.send(sender, &data, 0);
        profiler.state(steps[0], SEND, BYTES);
        until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
        profiler.stop(steps[1]);
        until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
        profiler.stop(steps[0]);
        ops.iter().for_each(|op| profiler.stop(*op));
        profiler.stop(call);
        assert!(room == fill(before as u64, number, BYTES));
    }
    // What this process does for a rank of another one is not of its own communicator.
    let foreign = std::process::id() as c_int + 1;
    assert!(profiler.start(PROXY_OP, null_mut(), operation_of(foreign, next, true)).is_null());
    // What is over, or was never there, is nobody's.
    profiler.stop(null_mut());
    assert!(profiler.start(PROXY_STEP, null_mut(), operation(0, false)).is_null());
    profiler.end();
    assert!(logged().iter().any(|(_, line)| line.contains(".trace.json is written")), "{:?}", logged());
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
    rank.finish();
}

/// NCCL loads the profiler of its network plugin by itself: that costs nothing where the job does not ask for it.
pub fn unprofiled(rank: &mut Rank, path: &Path) {
    let profiler = Profiler::begin(path, rank);
    assert_eq!((profiler.mask, profiler.context), (0, null_mut()));
    assert!(profiler.start(COLL, null_mut(), collective(1)).is_null());
    profiler.end();
    assert!(!logged().iter().any(|(_, line)| line.contains("written")), "{:?}", logged());
    rank.finish();
}

/// The ranks' files say who waited for whom, and one rank of each server draws its rails.
pub fn check(pictures: &[String]) {
    for (rank, picture) in pictures.iter().enumerate() {
        let (next, before) = ((rank + 1) % 3, (rank + 2) % 3);
        for part in [
            "\"lost\":\"0\"".to_owned(),
            "AllReduce #5 (RING, SIMPLE)".to_owned(),
            format!("\"name\":\"sends to rank {next}\""),
            format!("\"name\":\"receives from rank {before}\""),
            format!("waits for rank {next}"),
            format!("waits for rank {before}"),
        ] {
            assert!(picture.contains(&part), "{part} is missing in rank {rank}'s:\n{picture}");
        }
        assert_eq!(picture.contains("\"name\":\"rail 0, Mbit/s\""), rank != 1, "rank {rank}:\n{picture}");
    }
}
