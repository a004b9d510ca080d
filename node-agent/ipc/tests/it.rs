//! Properties of the messages: what is written is read back, and no packet at all makes a reader panic.

use node_agent_collective::{Call, Dtype, Operation, ReduceOp};
use node_agent_ipc::{
    Failure, FailureCode, Lent, MAX_MESSAGE, MAX_RAILS, MAX_TEXT, Post, RailBytes, RailModel, RailSpeed,
    Reply, Request, Span, Welcome,
};
use proptest::prelude::*;

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::AllReduce),
        Just(Operation::ReduceScatter),
        Just(Operation::AllGather),
        any::<u32>().prop_map(|root| Operation::Broadcast { root }),
        Just(Operation::AllToAll),
        Just(Operation::Barrier),
        any::<(u32, u32)>().prop_map(|(to, tag)| Operation::Send { to, tag }),
        any::<(u32, u32)>().prop_map(|(from, tag)| Operation::Recv { from, tag }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let dtype = proptest::sample::select(Dtype::ALL);
    let reduce = proptest::sample::select(ReduceOp::ALL);
    (operation(), dtype, reduce, any::<u64>()).prop_map(|(operation, dtype, reduce, count)| Call {
        operation,
        dtype,
        reduce,
        count,
    })
}

fn span() -> impl Strategy<Value = Span> {
    any::<(u32, u64)>().prop_map(|(buffer, offset)| Span { buffer, offset })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<(u32, u32)>(), "\\PC{0,100}").prop_map(|((rank, pid), job_uid)| Request::Hello {
            rank,
            pid,
            job_uid
        }),
        any::<u64>().prop_map(|bytes| Request::Alloc { bytes }),
        any::<u32>().prop_map(|buffer| Request::Free { buffer }),
        (call(), span(), span(), any::<u32>()).prop_map(|(call, input, output, timeout_ms)| Request::Post(
            Post { call, input, output, timeout_ms }
        )),
        Just(Request::Counters),
        Just(Request::Detach),
        Just(Request::Board),
        any::<(u32, u32)>().prop_map(|(rank, buffer)| Request::Map { rank, buffer }),
        failure().prop_map(Request::Report),
        Just(Request::Cause),
        Just(Request::Queues),
        Just(Request::Doorbell),
        Just(Request::Subscribe),
        any::<(u32, [u64; 3])>().prop_map(|(to, words)| Request::Notify { to, words }),
        any::<u64>().prop_map(|key| Request::Agree { key }),
        (any::<(u64, u64)>(), "[0-9a-f:.]{0,32}").prop_map(|((offset, bytes), gpu)| Request::Lend {
            offset,
            bytes,
            gpu
        }),
    ]
}

fn optional() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(0..u32::MAX)
}

fn failure() -> impl Strategy<Value = Failure> {
    let code = proptest::sample::select(FailureCode::ALL.to_vec());
    (code, optional(), optional(), optional(), "\\PC{0,120}")
        .prop_map(|(code, rank, node, rail, text)| Failure { code, rank, node, rail, text })
}

fn reply() -> impl Strategy<Value = Reply> {
    let rail = any::<(u16, u64, u64, u64)>().prop_map(|(rail, tx_bytes, rx_bytes, chunks)| RailBytes {
        rail,
        tx_bytes,
        rx_bytes,
        chunks,
    });
    prop_oneof![
        (any::<[u32; 8]>(), any::<u64>()).prop_map(|(v, max_bytes)| Reply::Welcome(Welcome {
            size: v[0],
            local_rank: v[1],
            local_size: v[2],
            node: v[3],
            nodes: v[4],
            max_buffers: v[5],
            max_bytes,
            max_outstanding: v[6],
            op_timeout_ms: v[7],
        })),
        any::<(u32, u64)>().prop_map(|(buffer, bytes)| Reply::Buffer { buffer, bytes }),
        Just(Reply::Done),
        Just(Reply::Queues),
        Just(Reply::Doorbell),
        any::<([u16; 2], [u32; 2])>().prop_map(|([rails, capacity], [alpha_ns, beta_ps])| {
            Reply::Agreed(RailModel { rails, capacity, alpha_ns, beta_ps })
        }),
        any::<(u32, [u64; 3])>().prop_map(|(from, words)| Reply::Notification { from, words }),
        (any::<u32>(), proptest::collection::vec(any::<(u16, u32)>(), 0..=MAX_RAILS)).prop_map(
            |(attempt, rails)| {
                let rails = rails.into_iter().map(|(rail, mbit)| RailSpeed { rail, mbit }).collect();
                Reply::Subscribed { attempt, rails }
            }
        ),
        (any::<u32>(), "\\PC{0,100}", proptest::collection::vec(any::<u32>(), 0..256), any::<bool>())
            .prop_map(|(buffer, why, here, apart)| Reply::Lent(Lent { buffer, why, here, apart })),
        failure().prop_map(Reply::Failed),
        any::<u32>().prop_map(|ranks| Reply::Board { ranks }),
        (proptest::collection::vec(rail, 0..=MAX_RAILS), any::<u64>())
            .prop_map(|(rails, operations)| Reply::Counters { rails, operations }),
    ]
}

proptest! {
    #[test]
    fn requests_are_read_as_written(request in request(), id: u64) {
        let packet = request.encode(id);
        prop_assert!(packet.len() <= MAX_MESSAGE);
        prop_assert_eq!(Request::decode(&packet), Ok((id, request)));
        for end in 0..packet.len() {
            prop_assert!(Request::decode(&packet[..end]).is_err(), "cut at {}", end);
        }
    }

    #[test]
    fn replies_are_read_as_written(reply in reply(), id: u64) {
        let packet = reply.encode(id);
        prop_assert!(packet.len() <= MAX_MESSAGE);
        prop_assert_eq!(Reply::decode(&packet), Ok((id, reply)));
    }

    #[test]
    fn garbage_is_refused_without_harm(packet in proptest::collection::vec(any::<u8>(), 0..MAX_MESSAGE)) {
        prop_assert!(Request::decode(&packet).is_err());
        prop_assert!(Reply::decode(&packet).is_err());
    }

    /// Garbage behind a good header reaches the fields; it may be valid by chance but must not panic.
    #[test]
    fn damaged_messages_do_no_harm(request in request(), at: prop::sample::Index, bit in 0..8_u8) {
        let mut packet = request.encode(1);
        let at = at.index(packet.len());
        packet[at] ^= 1 << bit;
        let _ = Request::decode(&packet);
    }
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let text = "é".repeat(1000);
    let failure = Failure { code: FailureCode::Internal, rank: None, node: None, rail: None, text };
    let packet = Reply::Failed(failure).encode(1);
    assert!(packet.len() <= MAX_MESSAGE);
    let Ok((1, Reply::Failed(failure))) = Reply::decode(&packet) else { panic!("not a failure") };
    assert_eq!(failure.text.len(), MAX_TEXT);
}

#[test]
fn another_version_is_named() {
    let mut packet = Request::Detach.encode(1);
    packet[4] = 99;
    let error = Request::decode(&packet).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

proptest! {
    #[test]
    fn posts_fit_in_the_words_of_a_board(call in call(), input in span(), output in span(), timeout_ms: u32, extra: u64) {
        let post = Post { call, input, output, timeout_ms };
        prop_assert_eq!(Post::from_words(&post.to_words(extra)), Ok((post, extra)));
    }
}
