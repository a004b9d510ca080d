//! Tests of the recorder.

use super::*;
use proptest::prelude::*;

const WHO: Member = (7, 3);

fn operation() -> Beginning {
    Beginning::Whole(Event::Operation { channel: 2, peer: 5, sends: true })
}

fn step(operation: u64, step: i32) -> Beginning {
    Beginning::Step { operation, step }
}

/// State and size of each message's span.
fn waits(recorder: &mut Recorder) -> Vec<(State, u64)> {
    let of = |span: Span| match span.event {
        Event::Step { state, bytes, .. } => Some((state, bytes)),
        _ => None,
    };
    recorder.take().0.into_iter().filter_map(of).collect()
}

#[test]
fn a_message_is_one_span_for_each_state() {
    let mut recorder = Recorder::new(10);
    let op = recorder.start(WHO, operation(), 100).unwrap();
    let message = recorder.start(WHO, step(op, 0), 110).unwrap();
    // The size of an earlier one, and the same again and again.
    recorder.state(message, State::SendGpu, 9999, 120);
    recorder.state(message, State::SendPeer, 9999, 150);
    recorder.state(message, State::SendPeer, 9999, 160);
    recorder.state(message, State::Send, 4096, 170);
    recorder.stop(message, 200);
    recorder.stop(op, 210);
    let (spans, lost) = recorder.take();
    assert_eq!(lost, 0);
    let times: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
    assert_eq!(times, [(120, 150), (150, 170), (170, 200), (100, 210)]);
    assert_eq!(spans[2].event, Event::Step { channel: 2, peer: 5, state: State::Send, bytes: 4096 });
    assert!(spans[..3].iter().all(|span| matches!(span.event, Event::Step { bytes: 4096, .. })));
    assert!(spans.iter().all(|span| (span.communicator, span.rank) == WHO));
}

#[test]
fn what_is_over_is_not_taken_for_what_comes_later() {
    let mut recorder = Recorder::new(10);
    let first = recorder.start(WHO, operation(), 1).unwrap();
    recorder.stop(first, 2);
    let second = recorder.start(WHO, operation(), 3).unwrap();
    assert_ne!(first, second);
    recorder.stop(first, 4);
    assert_eq!(recorder.start(WHO, step(first, 0), 4), None);
    recorder.stop(second, 5);
    assert_eq!(recorder.take().0.len(), 2);
}

#[test]
fn a_clock_that_was_set_back_makes_no_negative_span() {
    let mut recorder = Recorder::new(10);
    let one = recorder.start(WHO, operation(), 100).unwrap();
    recorder.stop(one, 50);
    let (spans, _) = recorder.take();
    assert_eq!((spans[0].start, spans[0].end), (100, 100));
}

proptest! {
    /// Whatever NCCL says in whichever order: no more is remembered than may be, and all of the rest is counted.
    #[test]
    fn its_size_is_bounded(steps in prop::collection::vec((0..5, any::<prop::sample::Index>(), any::<u64>()), 0..400), most in 1_usize..50) {
        let mut recorder = Recorder::new(most);
        let mut numbers = Vec::new();
        let states = [State::SendGpu, State::Send, State::Flush];
        let progress = [Progress::Ready, Progress::Moved, Progress::Other];
        for (now, (kind, which, any)) in steps.into_iter().enumerate() {
            let now = now as u64;
            let number = if numbers.is_empty() { any } else { numbers[which.index(numbers.len())] };
            match kind {
                0 => numbers.extend(recorder.start(WHO, operation(), now)),
                1 => numbers.extend(recorder.start(WHO, step(number, any as i32 % 9), now)),
                2 => recorder.state(number, states[any as usize % 3], any, now),
                3 => recorder.progress(number, progress[any as usize % 3], (any as i32 % 9, any / 7), now),
                _ => recorder.stop(number, now),
            }
            prop_assert!(recorder.spans.len() <= most && recorder.open.len() <= MOST_OPEN);
        }
        let (spans, _) = recorder.take();
        prop_assert!(spans.iter().all(|span| span.start <= span.end));
    }
}

/// Up to v3 operations say what messages do not: NCCL 2.23 adds a message's size to that of all after it was sent, later ones before.
#[test]
fn an_operation_says_what_its_messages_do_not() {
    for late in [true, false] {
        let mut recorder = Recorder::new(100);
        let op = recorder.start(WHO, operation(), 1).unwrap();
        let mut total = 1000;
        for number in 0..3 {
            // Two steps each, and both begin twice.
            let begun = [0, 1, 0, 1].map(|at| recorder.start(WHO, step(op, 2 * number + at), 2).unwrap());
            let message = begun[0];
            assert_eq!(begun, [message; 4]);
            let steps = 2 * number + 2;
            recorder.progress(op, Progress::Other, (steps, total), 3);
            (0..2).for_each(|_| recorder.state(message, State::SendGpu, 0, 3));
            (0..3).for_each(|_| recorder.progress(op, Progress::Ready, (steps, total), 4));
            let size = 10 + number as u64;
            total += if late { 0 } else { size };
            recorder.progress(op, Progress::Moved, (steps, total), 5);
            (0..2).for_each(|_| recorder.state(message, State::Send, 0, 5));
            total += if late { size } else { 0 };
            (0..2).for_each(|_| recorder.stop(message, 6));
            recorder.progress(op, Progress::Other, (steps, total), 6);
        }
        recorder.stop(op, 7);
        let wanted = (10..13)
            .flat_map(|size| [State::SendGpu, State::SendPeer, State::Send].map(|state| (state, size)));
        assert_eq!(waits(&mut recorder), wanted.collect::<Vec<_>>(), "late: {late}");
    }
}

#[test]
fn messages_that_nothing_happened_to_end_with_their_operation() {
    let mut recorder = Recorder::new(100);
    for number in 0..3 * MOST_OPEN {
        let op = recorder.start(WHO, operation(), 1).unwrap();
        let message = recorder.start(WHO, step(op, number as i32), 1).unwrap();
        recorder.stop(op, 2);
        recorder.stop(message, 3);
    }
    assert_eq!(waits(&mut recorder), []);
}

#[test]
fn what_an_aborted_communicator_had_begun_leaves_its_room() {
    let mut recorder = Recorder::new(10);
    let other = recorder.start((8, 3), operation(), 1).unwrap();
    let first = recorder.start(WHO, operation(), 1).unwrap();
    while recorder.start(WHO, operation(), 1).is_some() {}
    recorder.abandon(WHO);
    recorder.stop(first, 2);
    assert!(recorder.take().0.is_empty(), "it is over");
    let begun = (1..MOST_OPEN).filter(|_| recorder.start(WHO, operation(), 3).is_some()).count();
    assert_eq!(begun, MOST_OPEN - 1);
    recorder.stop(other, 4);
    assert_eq!(recorder.take().0.len(), 1);
}

#[test]
fn more_at_once_than_can_be_is_counted() {
    let mut recorder = Recorder::new(10);
    for _ in 0..MOST_OPEN {
        assert!(recorder.start(WHO, operation(), 1).is_some());
    }
    assert_eq!(recorder.start(WHO, operation(), 1), None);
    assert_eq!(recorder.take().1, 1);
}
