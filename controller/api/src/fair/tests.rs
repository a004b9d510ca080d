//! The decisions of the queue: by hand, and over random calls.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use proto_model::Timestamp;

use super::queue::{FairLimits, FairQueue, Flow, Ticket, Verdict};

fn flow(number: u32) -> Flow {
    Flow::Tenant(format!("t{number}"))
}

fn small() -> FairLimits {
    FairLimits {
        seats: 4,
        flow_seats: 3,
        rate: 0,
        burst: 1,
        flow_queue: 5,
        queue: 12,
        longest_wait: Duration::from_millis(1000),
        flow_streams: 2,
        anonymous_seats: 1,
        anonymous_streams: 2,
    }
}

#[test]
fn a_greedy_flow_leaves_a_seat_and_waits_behind_those_who_hold_less() {
    let mut queue = FairQueue::new(small());
    let now = Timestamp(5);
    let arrive = |queue: &mut FairQueue, number| queue.arrive(&flow(number), now);
    for _ in 0..3 {
        assert_eq!(arrive(&mut queue, 0), Verdict::Admit);
    }
    let waits: Vec<Verdict> = (0..5).map(|_| arrive(&mut queue, 0)).collect();
    assert!(waits.iter().all(|verdict| matches!(verdict, Verdict::Wait(_))), "{waits:?}");
    let full = arrive(&mut queue, 0);
    assert!(matches!(full, Verdict::Reject { cause: "flow-queue-full", .. }), "{full:?}");
    // Nobody else has noticed.
    assert_eq!(arrive(&mut queue, 1), Verdict::Admit);
    let Verdict::Wait(second) = arrive(&mut queue, 1) else { panic!("all seats are taken") };
    assert_eq!(queue.next(now), None);
    queue.leave(&flow(0), now);
    assert_eq!(queue.next(now), Some((flow(1), second)), "it holds one seat, the other two");
    assert_eq!(queue.next(now), None);
}

#[test]
fn a_rate_is_kept_and_told() {
    let limits = FairLimits { rate: 10, burst: 2, seats: 100, flow_seats: 90, ..small() };
    let mut queue = FairQueue::new(limits);
    let one = flow(0);
    assert_eq!(queue.arrive(&one, Timestamp(1000)), Verdict::Admit);
    assert_eq!(queue.arrive(&one, Timestamp(1000)), Verdict::Admit);
    let Verdict::Wait(ticket) = queue.arrive(&one, Timestamp(1000)) else { panic!("two at once") };
    assert_eq!((queue.next(Timestamp(1099)), queue.due()), (None, Some(Timestamp(1100))));
    assert_eq!(queue.next(Timestamp(1100)), Some((one.clone(), ticket)));
    for _ in 0..5 {
        assert!(matches!(queue.arrive(&one, Timestamp(1100)), Verdict::Wait(_)));
    }
    let Verdict::Reject { retry_after, .. } = queue.arrive(&one, Timestamp(1100)) else { panic!("full") };
    assert_eq!(retry_after, Duration::from_millis(500), "five go before it");
    let late = queue.expired(Timestamp(2100));
    assert!(late.is_some_and(|(flow, _)| flow == one));
}

#[test]
fn streams_of_a_flow_are_bounded_and_an_idle_flow_is_forgotten() {
    let mut queue = FairQueue::new(small());
    let now = Timestamp(0);
    assert!(queue.open_stream(&flow(0)) && queue.open_stream(&flow(0)));
    assert!(!queue.open_stream(&flow(0)) && queue.open_stream(&flow(1)));
    queue.close_stream(&flow(0), now);
    assert!(queue.open_stream(&flow(0)));
    for number in [0, 0, 1] {
        queue.close_stream(&flow(number), now);
    }
    assert!(format!("{queue:?}").contains("flows: {}"), "{queue:?}");
}

#[derive(Debug, Clone)]
enum Act {
    Arrive(u32),
    Leave(u32),
    GiveUp(usize),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0u32..4).prop_map(Act::Arrive),
        2 => (0u32..4).prop_map(Act::Leave),
        1 => (0usize..8).prop_map(Act::GiveUp),
        2 => (0u64..300).prop_map(Act::Pass),
    ];
    prop::collection::vec(act, 1..200)
}

/// What the queue promises, kept beside it.
#[derive(Default)]
struct Books {
    seats: BTreeMap<Flow, usize>,
    waits: Vec<(Flow, Ticket, Timestamp)>,
    begun: BTreeMap<Flow, Vec<u64>>,
}

impl Books {
    fn begin(&mut self, flow: &Flow, now: Timestamp) {
        *self.seats.entry(flow.clone()).or_default() += 1;
        self.begun.entry(flow.clone()).or_default().push(now.0);
    }

    fn check(&self, limits: &FairLimits) {
        assert!(self.seats.values().sum::<usize>() <= limits.seats);
        assert!(self.seats.values().all(|seats| *seats <= limits.flow_seats));
        assert!(self.waits.len() <= limits.queue);
        for begun in self.begun.values().filter(|_| limits.rate > 0) {
            let most = |window: &[u64]| {
                let took = window[window.len() - 1] - window[0];
                u64::from(limits.burst) + took * u64::from(limits.rate) / 1000 + 1
            };
            for from in 0..begun.len() {
                assert!((begun.len() - from) as u64 <= most(&begun[from..]), "{begun:?}");
            }
        }
    }

    /// Everybody goes in who can, in the right order; nobody who could is left.
    fn pump(&mut self, queue: &mut FairQueue, now: Timestamp) {
        while let Some((flow, ticket)) = queue.expired(now) {
            let at = self.waits.iter().position(|(_, waits, _)| *waits == ticket).expect("it waited");
            assert_eq!(self.waits.remove(at).0, flow);
        }
        while let Some((flow, ticket)) = queue.next(now) {
            let first = self.waits.iter().position(|(of, ..)| *of == flow).expect("it waited");
            assert_eq!(self.waits.remove(first).1, ticket, "first come, first served within a flow");
            self.begin(&flow, now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_and_nobody_is_forgotten(acts in acts(), rate in prop_oneof![Just(0u32), Just(20)]) {
        let limits = FairLimits { rate, burst: 3, ..small() };
        let (mut queue, mut queue_states, mut now) = (FairQueue::new(limits), Books::default(), Timestamp(1_000));
        for act in acts {
            match act {
                Act::Arrive(number) => match queue.arrive(&flow(number), now) {
                    Verdict::Admit => queue_states.begin(&flow(number), now),
                    Verdict::Wait(ticket) => queue_states.waits.push((flow(number), ticket, now)),
                    Verdict::Reject { .. } => {
                        let own = queue_states.waits.iter().filter(|(of, ..)| *of == flow(number)).count();
                        prop_assert!(own >= limits.flow_queue || queue_states.waits.len() >= limits.queue);
                    }
                },
                Act::Leave(number) => {
                    if let Some(seats) = queue_states.seats.get_mut(&flow(number)).filter(|seats| **seats > 0) {
                        *seats -= 1;
                        queue.leave(&flow(number), now);
                    }
                }
                Act::GiveUp(at) => {
                    if at < queue_states.waits.len() {
                        let (of, ticket, _) = queue_states.waits.remove(at);
                        queue.give_up(&of, ticket, now);
                    }
                }
                Act::Pass(ms) => now = Timestamp(now.0 + ms),
            }
            queue_states.pump(&mut queue, now);
            queue_states.check(&limits);
            prop_assert_eq!(queue.waiting(), queue_states.waits.len());
            prop_assert!(queue.due().is_none_or(|due| due > now), "{:?} at {:?}", queue.due(), now);
            // Whoever waits, waits for a seat, for its own seats, or for its rate.
            let taken: usize = queue_states.seats.values().sum();
            for (of, ..) in &queue_states.waits {
                let own = queue_states.seats.get(of).copied().unwrap_or_default();
                prop_assert!(taken == limits.seats || own == limits.flow_seats || rate > 0);
            }
        }
        // All end: everybody who waits comes to an end too, let in or told.
        while !queue_states.waits.is_empty() {
            let busy: Vec<Flow> = queue_states.seats.iter().filter(|(_, seats)| **seats > 0).map(|(of, _)| of.clone()).collect();
            for of in busy {
                *queue_states.seats.entry(of.clone()).or_default() -= 1;
                queue.leave(&of, now);
            }
            now = queue.due().unwrap_or(now).max(now);
            queue_states.pump(&mut queue, now);
        }
    }

    /// With one seat for all, a flow that is asked for rarely waits for at most one call of each other flow.
    #[test]
    fn a_rare_caller_waits_for_one_call_of_each_other(greedy in 1u32..6, queued in 1usize..5) {
        let limits = FairLimits { seats: 1, flow_seats: 1, queue: 1000, ..small() };
        let mut queue = FairQueue::new(limits);
        let now = Timestamp(0);
        let rare = flow(99);
        for _ in 0..queued {
            for number in 0..greedy {
                queue.arrive(&flow(number), now);
            }
        }
        let mut holder = flow(0);
        queue.arrive(&rare, now);
        let mut before = 0;
        loop {
            queue.leave(&holder, now);
            let Some((next, _)) = queue.next(now) else { panic!("the rare one still waits") };
            if next == rare {
                break;
            }
            before += 1;
            holder = next;
        }
        prop_assert!(before <= greedy, "{} calls of {} flows went before", before, greedy);
    }
}
