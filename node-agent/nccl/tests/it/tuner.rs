//! The library's tuner as NCCL loads it.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use rail_nccl_net::abi::{TunerV3, TunerV4, TunerV5, TunerV6};

use crate::plugin::{logged, logger};
use crate::roles::{Rank, fill, good, until};

const ALGORITHMS: usize = 7;
const PROTOCOLS: usize = 3;
/// NCCL's numbers.
const ALL_REDUCE: c_int = 4;
const SEND: c_int = 6;
const RING: usize = 1;
const SIMPLE: usize = 2;
/// What NCCL calls impossible, also where it has multiplied that.
const IGNORED: [f32; 2] = [-1.0, -1024.0];
/// Channels that NCCL has chosen.
const CHANNELS: c_int = 17;

/// What the tuner makes of a table in which trees and rings cost nothing on GPUs.
type Chosen = ([f32; ALGORITHMS * PROTOCOLS], c_int);

fn table() -> Chosen {
    let mut costs: [f32; ALGORITHMS * PROTOCOLS] = std::array::from_fn(|at| IGNORED[at % 2]);
    costs[..2 * PROTOCOLS].fill(0.0);
    (costs, CHANNELS)
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "{:?}", logged());
}

/// Loads a table of the library.
macro_rules! load {
    ($library:expr, $type:ty, $name:literal) => {{
        // SAFETY: the symbol of this name is a static of this type, and the library is never closed.
        let table = unsafe { &**$library.get::<*const $type>($name).unwrap() };
        // SAFETY: a static text that ends with a NUL.
        assert_eq!(unsafe { CStr::from_ptr(table.name.as_ptr()) }, c"Rail");
        table
    }};
}

/// Chooses with one version, for messages of these sizes.
macro_rules! chosen {
    ($table:expr, $context:expr, $collective:expr, $($registered:expr)?) => {
        [1_usize << 10, 1 << 20, 64 << 20].map(|bytes| {
            let (mut costs, mut channels) = table();
            let costs_at = (&raw mut costs).cast();
            // SAFETY: the table has as many numbers, and all places live while the call lasts.
            ok(unsafe {
                $table.get_coll_info.unwrap()(
                    $context, $collective, bytes, 1, costs_at, ALGORITHMS as c_int, PROTOCOLS as c_int, $($registered,)? &raw mut channels,
                )
            });
            (costs, channels)
        })
    };
}

/// Some traffic, so that rails are measured, and a choice in each version; then all that cannot be.
pub fn choose(rank: &mut Rank, path: &Path) {
    // SAFETY: the library was loaded before.
    let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
    traffic(rank);
    let mut context: *mut c_void = null_mut();
    macro_rules! early {
        ($type:ty, $name:literal, $text:literal, $($registered:expr)?) => {
            let table = load!(library, $type, $name);
            // SAFETY: the log function is good for ever, and the place for the context lives while the call lasts.
            ok(unsafe { table.init.unwrap()(rank.world, 3, logger(), &raw mut context) });
            check(rank, $text, &chosen!(table, context, ALL_REDUCE, $($registered)?));
            // SAFETY: a number.
            ok(unsafe { table.finalize.unwrap()(context) });
        };
    }
    early!(TunerV3, b"ncclTunerPlugin_v3", "v3",);
    early!(TunerV4, b"ncclTunerPlugin_v4", "v4", 0);
    macro_rules! late {
        ($type:ty, $name:literal, $text:literal, $id:expr) => {
            let table = load!(library, $type, $name);
            // SAFETY: as above; domains and constants are not read.
            ok(unsafe {
                table.init.unwrap()(&raw mut context, $id, rank.world, 3, logger(), null_mut(), null_mut())
            });
            check(rank, $text, &chosen!(table, context, ALL_REDUCE, 0));
            // What is no collective is NCCL's own affair.
            assert!(chosen!(table, context, SEND, 0).iter().all(|chosen| *chosen == self::table()));
            // SAFETY: a number.
            ok(unsafe { table.finalize.unwrap()(context) });
        };
    }
    late!(TunerV5, b"ncclTunerPlugin_v5", "v5", 5);
    late!(TunerV6, b"ncclTunerPlugin_v6", "v6", 6);
    let v6 = load!(library, TunerV6, b"ncclTunerPlugin_v6");
    let (mut costs, mut channels) = table();
    // SAFETY: a number that is over, and all places live while calls last.
    unsafe {
        let costs = (&raw mut costs).cast();
        assert_eq!(
            v6.get_coll_info.unwrap()(context, ALL_REDUCE, 1, 1, costs, 7, 3, 0, &raw mut channels),
            3
        );
        assert_eq!(v6.init.unwrap()(null_mut(), 1, rank.world, 3, logger(), null_mut(), null_mut()), 3);
    }
    rank.finish();
}

/// A communicator of this id as the latest version makes it; whether its table is another one than NCCL's, and what was said of it.
fn advised(rank: &Rank, path: &Path, id: u64) -> (bool, String) {
    // SAFETY: the library was loaded before.
    let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
    let table = load!(library, TunerV6, b"ncclTunerPlugin_v6");
    let mut context: *mut c_void = null_mut();
    // SAFETY: as above.
    ok(unsafe { table.init.unwrap()(&raw mut context, id, rank.world, 2, logger(), null_mut(), null_mut()) });
    let chosen = chosen!(table, context, ALL_REDUCE, 0);
    // SAFETY: a number.
    ok(unsafe { table.finalize.unwrap()(context) });
    let lines = logged();
    let said = lines.iter().rev().map(|(_, line)| line).find(|line| line.contains("tuner: ")).unwrap();
    (chosen.iter().any(|chosen| *chosen != self::table()), said.clone())
}

/// The first server's ranks leave before the others make a communicator.
pub fn unadvised(rank: &mut Rank, path: &Path) {
    rank.meeting.barrier("begin");
    if rank.rank == 0 {
        good("finalize", rank.plugin.finalize());
        rank.meeting.put("left", "yes");
        return;
    }
    rank.meeting.get("stopped");
    let mut id = 0;
    let said = until("the first server to leave", || {
        id += 1;
        let (advised, said) = advised(rank, path, id);
        (!advised).then_some(said)
    });
    assert!(said.contains("first node has left"), "{said}");
    good("finalize", rank.plugin.finalize());
}

/// Costs grow with bytes, what is impossible stays so, and all ranks say the same.
fn check(rank: &mut Rank, version: &str, chosen: &[Chosen; 3]) {
    let ring = RING * PROTOCOLS + SIMPLE;
    assert!(chosen[0].0[ring] > 0.0 && chosen.is_sorted_by(|a, b| a.0[ring] < b.0[ring]), "{chosen:?}");
    assert!(
        chosen.iter().all(|(costs, _)| costs[2 * PROTOCOLS..] == table().0[2 * PROTOCOLS..]),
        "{chosen:?}"
    );
    assert!(chosen.iter().all(|(_, channels)| *channels == CHANNELS), "channels are NCCL's own affair");
    let text = format!("{chosen:?}").replace(' ', "");
    rank.meeting.put(&format!("{version}.{}", rank.rank), &text);
}

fn traffic(rank: &mut Rank) {
    let (sender, receiver) = rank.ring("traffic");
    for number in 0..20 {
        let data = fill(1, number, 1 << 20);
        let mut room = vec![0; 1 << 20];
        let received = rank.receive(receiver, &mut [(&mut room, 0)]);
        let sent = rank.send(sender, &data, 0);
        until("a message", || good("test", rank.plugin.test_blind(received)).then_some(()));
        until("a send", || good("test", rank.plugin.test_blind(sent)).then_some(()));
    }
    good("closeSend", rank.plugin.close_send(sender));
    good("closeRecv", rank.plugin.close_recv(receiver));
}
