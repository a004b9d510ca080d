//! Machines of several ranks against a model of notifications and of the engine: whatever happens in which order, each message lands where it
//! belongs, and nothing waits for ever.

mod net;
mod random;

use proptest::prelude::*;

use super::handle::{self, HANDLE_BYTES};
use super::wire::{MAX_CREDITS, Message, Tags};
use super::{ConnectionError, Handle, HandleError, MAX_RECEIVES, MAX_REQUESTS, MAX_WAITING, Outcome};
use net::Net;

proptest! {
    #[test]
    fn messages_are_read_as_written(
        kind in 0..8, numbers: (u32, u32), tag: i32, words: (u64, u64), more in prop::collection::vec(any::<i32>(), 0..MAX_CREDITS),
    ) {
        let (listener, cookie) = (numbers.1, words.0);
        let (sender, receiver) = numbers;
        let message = match kind {
            0 => Message::Connect { listener, cookie, sender },
            1 => Message::Accept { sender, receiver },
            2 => Message::Refuse { sender },
            3 => {
                let mut tags = Tags::one(tag);
                prop_assert!(more.iter().all(|tag| tags.push(*tag)));
                prop_assert_eq!(tags.iter().skip(1).collect::<Vec<_>>(), more);
                Message::Credit { sender, tags }
            }
            4 => Message::Send { receiver, tag, bytes: words.1 },
            5 => Message::SenderClosed { receiver },
            6 => Message::ReceiverClosed { sender },
            _ => Message::Gone { receiver },
        };
        prop_assert_eq!(Message::read(message.words()), Some(message));
    }

    #[test]
    fn any_words_are_a_message_or_none(words: [u64; 3], kind in 0_u64..10) {
        let count = (words[1] & 7) << 8;
        for words in [words, [kind | words[0] << 32, words[1], words[2]], [kind | words[0] << 32, words[1] >> 32, 0], [kind | count | words[0] << 32, words[1], 0]] {
            if let Some(message) = Message::read(words) {
                prop_assert_eq!(message.words(), words);
            }
        }
    }

    /// Whatever another rank says, this one goes on, and a connection that does not concern it is as before.
    #[test]
    fn no_notification_hurts_others(words in prop::collection::vec((1_u64..9, 0_u64..8, any::<(u64, u64)>()), 1..60)) {
        let mut net = Net::new(3, 4);
        let (send, receive) = net.connect(0, 1);
        let request = net.machines[1].receive(receive, &[(10, 0)]).unwrap().unwrap();
        for (kind, number, (second, third)) in words {
            // A rank that announces what never comes holds up who waits for it, until the engine fails the job: it is of the same job.
            let third = if kind == 5 { 0 } else { third % 16 };
            // Numbers of listeners and connections that are there, and others near them.
            let number = (u64::from(receive.0) + number).saturating_sub(4);
            net.machines[1].on_notification(2, [kind | number << 32, second % 16, third]);
        }
        let sent = net.machines[0].send(send, 0, 7).unwrap().unwrap();
        net.settle();
        prop_assert_eq!(net.machines[0].test(sent), Ok(Outcome::Done(vec![7])));
        prop_assert_eq!(net.machines[1].test(request), Ok(Outcome::Done(vec![7])));
    }

    #[test]
    fn handles_are_read_as_written(job: u64, attempt: u32, rank: u32, listener: u32, cookie: u64, note: u64, change: (usize, u8)) {
        let made = Handle { job, attempt, rank, listener, cookie };
        let mut bytes = made.encode();
        handle::set_note(&mut bytes, note);
        prop_assert_eq!((Handle::decode(&bytes), handle::note(&bytes)), (Ok(made), note));
        let at = change.0 % 56;
        if !(10..16).contains(&at) {
            bytes[at] ^= change.1.max(1);
            prop_assert!(Handle::decode(&bytes).is_err(), "byte {}", at);
        }
    }
}

#[test]
fn handles_of_others_are_told_from_ones_own() {
    let mut net = Net::new(2, 4);
    let none = [0; HANDLE_BYTES];
    assert_eq!(net.machines[0].connect(&none), Err(ConnectionError::Handle(HandleError::Magic)));
    let good = Handle { job: 1, attempt: 1, rank: 1, listener: 1, cookie: 0 };
    let other = Handle { attempt: 2, ..good }.encode();
    let error = net.machines[0].connect(&other).unwrap_err();
    assert!(matches!(error, ConnectionError::OtherJob { rank: 1, .. }), "{error}");
    let error = net.machines[0].connect(&Handle { rank: 2, ..good }.encode()).unwrap_err();
    assert_eq!(error, ConnectionError::NoSuchRank { rank: 2, world: 2 });
    // A listener that is not there, or was another one.
    let id = net.machines[0].connect(&good.encode()).unwrap();
    net.settle();
    assert_eq!(net.machines[0].is_connected(id), Err(ConnectionError::Refused { rank: 1 }));
}

#[test]
fn a_listener_takes_many_and_has_a_bound() {
    let mut net = Net::new(2, 4);
    let (listener, handle) = net.machines[1].listen().unwrap();
    let ids: Vec<_> = (0..=MAX_WAITING).map(|_| net.machines[0].connect(&handle).unwrap()).collect();
    net.settle();
    assert_eq!(net.machines[0].is_connected(ids[MAX_WAITING]), Err(ConnectionError::Refused { rank: 1 }));
    for id in &ids[..MAX_WAITING / 2] {
        assert_eq!(net.machines[0].is_connected(*id), Ok(false), "nobody has accepted");
        assert!(net.machines[1].accept(listener).unwrap().is_some());
        net.settle();
        assert_eq!(net.machines[0].is_connected(*id), Ok(true));
    }
    net.machines[1].close_listen(listener).unwrap();
    net.settle();
    assert_eq!(net.machines[0].is_connected(ids[MAX_WAITING - 1]), Err(ConnectionError::Refused { rank: 1 }));
    assert_eq!(net.machines[1].accept(listener), Err(ConnectionError::Unknown("listener")));
}

#[test]
fn requests_have_bounds_and_no_request_is_lost_by_them() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let most = MAX_REQUESTS * MAX_RECEIVES;
    let sends: Vec<_> = (0..most).map(|_| net.machines[0].send(send, 0, 8).unwrap().unwrap()).collect();
    assert_eq!(net.machines[0].send(send, 0, 8), Ok(None));
    let group = vec![(8, 0); MAX_RECEIVES];
    let receives: Vec<_> =
        (0..MAX_REQUESTS).map(|_| net.machines[1].receive(receive, &group).unwrap().unwrap()).collect();
    assert_eq!(net.machines[1].receive(receive, &group), Ok(None));
    net.settle();
    assert!(sends.iter().all(|id| net.machines[0].test(*id) == Ok(Outcome::Done(vec![8]))));
    assert!(receives.iter().all(|id| net.machines[1].test(*id) == Ok(Outcome::Done(vec![8; MAX_RECEIVES]))));
    assert!(net.machines[0].send(send, 0, 8).unwrap().is_some());
    let error = net.machines[1].receive(receive, &[(8, 0); MAX_RECEIVES + 1]).unwrap_err();
    assert!(matches!(error, ConnectionError::Argument(_)), "{error}");
    assert!(net.machines[1].receive(receive, &[]).is_err());
    assert_eq!(net.machines[0].test(sends[0]), Err(ConnectionError::Unknown("request")));
}

/// Sizes that do not fit fail the connection at the receiver, which knows; the stream of messages between the ranks goes on.
#[test]
fn what_does_not_fit_fails_its_connection_alone() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let (other, others) = net.connect(0, 1);
    let large = net.machines[1].receive(receive, &[(7, 5)]).unwrap().unwrap();
    let good = net.machines[1].receive(others, &[(9, 0)]).unwrap().unwrap();
    net.machines[0].send(send, 5, 8).unwrap().unwrap();
    let sent = net.machines[0].send(other, 0, 9).unwrap().unwrap();
    net.settle();
    let error = ConnectionError::TooLarge { rank: 0, bytes: 8, tag: 5, room: 7 };
    assert_eq!(net.machines[1].test(large), Err(error));
    assert_eq!(net.machines[1].test(good), Ok(Outcome::Done(vec![9])));
    assert_eq!(net.machines[0].test(sent), Ok(Outcome::Done(vec![9])));
}

/// A single message has its tag as well: one of another pair of ranks is not taken for it.
#[test]
fn tags_count_for_single_messages() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let first = net.machines[1].receive(receive, &[(8, 1)]).unwrap().unwrap();
    let second = net.machines[1].receive(receive, &[(8, 2)]).unwrap().unwrap();
    net.machines[0].send(send, 1, 7).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(first), Ok(Outcome::Done(vec![7])));
    let early = net.machines[0].send(send, 1, 8).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(second), Ok(Outcome::Pending));
    assert_eq!(net.machines[0].test(early), Ok(Outcome::Pending));
    // One behind it has the tag that is wanted.
    net.machines[0].send(send, 2, 6).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(second), Ok(Outcome::Done(vec![6])));
    let third = net.machines[1].receive(receive, &[(8, 1)]).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(third), Ok(Outcome::Done(vec![8])));
    assert_eq!(net.machines[0].test(early), Ok(Outcome::Done(vec![8])));
}

/// Pairs of ranks share a connection: the next message of one may come before the first of another.
#[test]
fn a_tag_does_not_wait_for_another() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let group = [(8, 1), (8, 2)];
    let first = net.machines[1].receive(receive, &group).unwrap().unwrap();
    let second = net.machines[1].receive(receive, &group).unwrap().unwrap();
    for bytes in [3, 4] {
        net.machines[0].send(send, 1, bytes).unwrap().unwrap();
    }
    net.settle();
    for request in [first, second] {
        assert_eq!(net.machines[1].test(request), Ok(Outcome::Pending));
    }
    for bytes in [5, 6] {
        net.machines[0].send(send, 2, bytes).unwrap().unwrap();
    }
    net.settle();
    assert_eq!(net.machines[1].test(first), Ok(Outcome::Done(vec![3, 5])));
    assert_eq!(net.machines[1].test(second), Ok(Outcome::Done(vec![4, 6])));
}

/// However many messages wait with a tag that nobody wants, one that is wanted gets through; and what it may add has a bound.
#[test]
fn a_full_queue_does_not_keep_out_what_is_wanted() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let most = MAX_REQUESTS * MAX_RECEIVES;
    for _ in 0..most {
        net.machines[0].send(send, 1, 8).unwrap().unwrap();
    }
    assert_eq!(net.machines[0].send(send, 2, 8), Ok(None));
    let wanted = net.machines[1].receive(receive, &[(8, 2)]).unwrap().unwrap();
    net.settle();
    let sent = net.machines[0].send(send, 2, 7).unwrap().unwrap();
    assert_eq!(net.machines[0].send(send, 2, 8), Ok(None), "it is the only one");
    net.settle();
    assert_eq!(net.machines[1].test(wanted), Ok(Outcome::Done(vec![7])));
    assert_eq!(net.machines[0].test(sent), Ok(Outcome::Done(vec![7])));
}

/// A sender that is given more room than there can be fails that connection alone.
#[test]
fn more_credit_than_can_be_fails_its_connection() {
    let mut net = Net::new(2, 4);
    let (send, _) = net.connect(0, 1);
    let (other, others) = net.connect(0, 1);
    let credit = Message::Credit { sender: send.0, tags: Tags::one(1) };
    for _ in 0..=MAX_REQUESTS * MAX_RECEIVES {
        net.machines[0].on_notification(1, credit.words());
    }
    let error = net.machines[0].send(send, 1, 8).unwrap_err();
    assert!(matches!(error, ConnectionError::Protocol { rank: 1, .. }), "{error}");
    let good = net.machines[1].receive(others, &[(9, 0)]).unwrap().unwrap();
    net.machines[0].send(other, 0, 9).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(good), Ok(Outcome::Done(vec![9])));
}

/// Messages whose memory is gone are not sent, and end their connection alone; those that have begun arrive.
#[test]
fn what_is_withdrawn_is_not_sent() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let (other, others) = net.connect(0, 1);
    let came = net.machines[1].receive(receive, &[(8, 0)]).unwrap().unwrap();
    let begun = net.machines[0].send(send, 0, 8).unwrap().unwrap();
    net.settle();
    let empty = net.machines[0].send(send, 0, 0).unwrap().unwrap();
    net.machines[0].withdraw(begun);
    net.machines[0].withdraw(empty);
    assert_eq!(net.machines[0].test(begun), Ok(Outcome::Done(vec![8])));
    assert_eq!(net.machines[1].test(came), Ok(Outcome::Done(vec![8])));
    let came = net.machines[1].receive(receive, &[(8, 0)]).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[0].test(empty), Ok(Outcome::Done(vec![0])));
    assert_eq!(net.machines[1].test(came), Ok(Outcome::Done(vec![0])));
    let queued = net.machines[0].send(send, 0, 8).unwrap().unwrap();
    let behind = net.machines[0].send(send, 0, 8).unwrap().unwrap();
    net.machines[0].withdraw(queued);
    let waits = net.machines[1].receive(receive, &[(8, 0)]).unwrap().unwrap();
    let good = net.machines[1].receive(others, &[(9, 0)]).unwrap().unwrap();
    let sent = net.machines[0].send(other, 0, 9).unwrap().unwrap();
    net.settle();
    for request in [queued, behind] {
        assert_eq!(net.machines[0].test(request), Err(ConnectionError::Withdrawn { rank: 1 }));
    }
    assert_eq!(net.machines[0].send(send, 0, 8), Err(ConnectionError::Withdrawn { rank: 1 }));
    assert_eq!(net.machines[1].test(waits), Ok(Outcome::Pending));
    assert_eq!(net.machines[1].test(good), Ok(Outcome::Done(vec![9])));
    assert_eq!(net.machines[0].test(sent), Ok(Outcome::Done(vec![9])));
    net.machines[0].close_send(send).unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(waits), Err(ConnectionError::Closed { rank: 0 }));
    net.machines[1].close_receive(receive).unwrap();
    net.machines[1].close_receive(others).unwrap();
    net.machines[0].close_send(other).unwrap();
    net.settle();
    assert!(net.is_quiet() && net.machines.iter().all(super::Machine::is_idle));
}

/// A listener is of one life of its rank: a handle of the one before is not taken for it, whatever numbers both have.
#[test]
fn a_handle_of_an_earlier_life_is_refused() {
    let mut net = Net::new(2, 4);
    let (_, old) = net.machines[1].listen().unwrap();
    net.replace(1);
    let (listener, new) = net.machines[1].listen().unwrap();
    let [old_handle, new_handle] = [old, new].map(|handle| Handle::decode(&handle).unwrap());
    assert_ne!(old_handle.cookie, new_handle.cookie);
    assert_ne!(old_handle.listener, new_handle.listener);
    // Even if it had the same number.
    let forged = Handle { listener: new_handle.listener, ..old_handle }.encode();
    for handle in [old, forged] {
        let id = net.machines[0].connect(&handle).unwrap();
        net.settle();
        assert_eq!(net.machines[1].accept(listener), Ok(None));
        assert_eq!(net.machines[0].is_connected(id), Err(ConnectionError::Refused { rank: 1 }));
    }
    let id = net.machines[0].connect(&new).unwrap();
    net.settle();
    assert!(net.machines[1].accept(listener).unwrap().is_some());
    net.settle();
    assert_eq!(net.machines[0].is_connected(id), Ok(true));
}

/// What is late for a connection of an earlier life reaches none of this one.
#[test]
fn what_is_late_reaches_no_other_life() {
    let mut net = Net::new(2, 4);
    let (_, receive) = net.connect(0, 1);
    net.machines[1].receive(receive, &[(8, 0); 8]).unwrap().unwrap();
    net.replace(0);
    let (send, waits) = net.connect(0, 1);
    net.settle();
    let sent = net.machines[0].send(send, 0, 8).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[0].test(sent), Ok(Outcome::Pending), "nobody has room for it yet");
    let came = net.machines[1].receive(waits, &[(8, 0)]).unwrap().unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(came), Ok(Outcome::Done(vec![8])));
}

/// A sender whose process ends closes on its way; one that ends without a word is not waited for.
#[test]
fn a_closed_receiver_does_not_wait_for_a_sender_that_has_ended() {
    let mut net = Net::new(2, 4);
    let (_, receive) = net.connect(0, 1);
    net.machines[0].close_all_sends();
    net.settle();
    net.machines[1].close_receive(receive).unwrap();
    net.settle();
    assert!(net.machines.iter().all(super::Machine::is_idle));
    let (_, receive) = net.connect(0, 1);
    net.machines[1].abandon(receive);
    assert!(!net.machines[1].is_idle(), "it is not closed");
    net.replace(0);
    net.machines[1].close_receive(receive).unwrap();
    net.settle();
    assert!(net.machines[1].is_draining());
    net.machines[1].abandon(receive);
    assert!(net.machines.iter().all(super::Machine::is_idle));
    // What comes all the same is received, and goes nowhere.
    let late = Message::Send { receiver: receive.0, tag: 0, bytes: 8 };
    net.machines[1].on_notification(0, late.words());
    assert!(net.machines[1].is_draining());
}

#[test]
fn a_closed_end_is_noticed_at_the_other_one() {
    let mut net = Net::new(2, 4);
    let (send, receive) = net.connect(0, 1);
    let waits = net.machines[1].receive(receive, &[(8, 0)]).unwrap().unwrap();
    net.machines[0].close_send(send).unwrap();
    net.settle();
    assert_eq!(net.machines[1].test(waits), Err(ConnectionError::Closed { rank: 0 }));
    net.machines[1].close_receive(receive).unwrap();
    let (send, receive) = net.connect(0, 1);
    let waits = net.machines[0].send(send, 0, 8).unwrap().unwrap();
    net.machines[1].close_receive(receive).unwrap();
    assert!(net.machines[1].is_draining());
    net.settle();
    assert_eq!(net.machines[0].test(waits), Err(ConnectionError::Closed { rank: 1 }));
    net.machines[0].close_send(send).unwrap();
    net.settle();
    assert!(net.machines.iter().all(|machine| machine.senders.is_empty() && machine.receivers.is_empty()));
    assert!(!net.machines[1].is_draining());
}
