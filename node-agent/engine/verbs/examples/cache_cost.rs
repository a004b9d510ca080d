//! Row E7: what it costs to find a registration that is kept, beside a hash look-up of the same names. Prints one measurement.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use node_agent_engine_verbs::cache::{Bounds, Cache};

/// Memories that are known: buffers of a few ranks.
const MEMORIES: usize = 256;
const RAILS: usize = 4;
const LOOKUPS: usize = 1_000_000;
const TURNS: usize = 11;

/// Nanoseconds of one look-up, of many in a row.
fn each(order: &[usize], mut look_up: impl FnMut(usize)) -> f64 {
    let begin = Instant::now();
    order.iter().for_each(|&at| look_up(at));
    begin.elapsed().as_secs_f64() * 1e9 / order.len() as f64
}

fn main() {
    let memories: Vec<Arc<usize>> = (0..MEMORIES).map(Arc::new).collect();
    let table: HashMap<usize, Arc<usize>> =
        memories.iter().map(|memory| (Arc::as_ptr(memory).addr(), Arc::clone(memory))).collect();
    let mut cache: Cache<usize, Arc<usize>> =
        Cache::new(RAILS, Bounds { memories: MEMORIES, bytes: MEMORIES as u64 });
    // The same random order every time (a linear congruence of Knuth's), so that both miss the processor's caches alike.
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((*state >> 33) as usize % (MEMORIES * RAILS))
    };
    let order: Vec<usize> = std::iter::repeat_n((), LOOKUPS).scan(1, |state, ()| next(state)).collect();
    let mut made = 0;
    for _ in 0..TURNS {
        let hash = each(&order, |at| {
            black_box(table.get(&Arc::as_ptr(&memories[at / RAILS]).addr()));
        });
        let hit = each(&order, |at| {
            black_box(cache.get(&memories[at / RAILS], 1, at % RAILS, |memory| {
                made += 1;
                Ok::<_, Infallible>(Arc::clone(memory))
            }));
        });
        println!("result {{\"hit_ns\":{hit:.2},\"hash_ns\":{hash:.2},\"registered\":{made}}}");
    }
}
