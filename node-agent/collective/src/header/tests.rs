//! Headers as they travel: there and back, and what is refused.

use super::*;
use proptest::prelude::*;

fn call(kind: u8, dtype: u8, reduce: u8, root: u32, count: u64, key: Key) -> Call {
    let dtype = Dtype::ALL[usize::from(dtype) % Dtype::ALL.len()];
    let reduce = ReduceOp::ALL[usize::from(reduce) % ReduceOp::ALL.len()];
    let operation = match (key, kind % 6) {
        (Key::Pair { to, tag, .. }, _) => Operation::Send { to, tag },
        (_, 0) => Operation::AllReduce,
        (_, 1) => Operation::AllGather,
        (_, 2) => Operation::ReduceScatter,
        (_, 3) => Operation::Broadcast { root },
        (_, 4) => Operation::AllToAll,
        _ => Operation::Barrier,
    };
    Call { operation, dtype, reduce, count }.canonical()
}

prop_compose! {
    fn header()(
        kind in 0u8..15, plan: u8, sent_us: u32, place: (u32, u32, u32), about: (u16, bool, u32), pair: bool, seq: u64, ranks: (u32, u32, u32), codes: (u8, u8, u8, u32, u64),
        epoch: u32, shape: u32, value: u64, acked: u64, length in 0..=MAX_CHUNK as u32,
        chunk: (u8, u32, u64), cause in 1u8..=10, node: Option<u16>, rail: Option<u16>,
    ) -> Header {
        let operation = if pair {
            Key::Pair { from: ranks.0, to: ranks.1, tag: ranks.2, seq }
        } else {
            Key::Collective { seq }
        };
        let blame = |v: Option<u16>| v.filter(|&v| v < u16::MAX);
        let (kind, key) = match kind {
            0 => (Kind::Ready, operation),
            1 => (Kind::Data { step: chunk.0, block: chunk.1, offset: chunk.2 }, operation),
            2 => (Kind::Grant, operation),
            3 => (Kind::Ack, Key::Link),
            4 => (Kind::Bye, Key::Link),
            5 => (Kind::Fence { rail: about.0 % 64, generation: chunk.1, frames: about.2, asks: about.1 }, Key::Link),
            6 => (Kind::Probe { number: seq }, Key::Link),
            7 => (Kind::Echo { number: seq }, Key::Link),
            8 => (Kind::Back { rail: about.0 % 64 }, Key::Link),
            10 => (Kind::Report { capacity: about.0 % 1025, alpha_ns: chunk.1, beta_ps: about.2 }, Key::Link),
            11 => (Kind::PlanTaken { version: about.2 }, Key::Link),
            12 => {
                let (index, of, node) = (ranks.0 as u16, ranks.1 as u16, ranks.2 as u16);
                let (version, alpha_ns, beta_ps) = (place.0, about.2, chunk.1);
                (Kind::PlanPart { version, index, of, node, capacity: about.0 % 1025, alpha_ns, beta_ps }, Key::Link)
            }
            13 => (Kind::Notify { from: ranks.0, to: ranks.1, words: [seq, codes.4, chunk.2] }, Key::Link),
            9 => (Kind::Drain { rail: about.0 % 64, on: about.1 }, Key::Link),
            _ => (Kind::Abort(RemoteCause { node: blame(node), rail: blame(rail), ..unpack(cause, 0, seq) }), Key::Link),
        };
        let carries = matches!(kind, Kind::Data { .. });
        let described = carries || kind == Kind::Ready;
        let call = described.then(|| call(codes.0, codes.1, codes.2, codes.3, codes.4, key));
        let length = if carries { length } else { 0 };
        let (checksum, generation, number) = place;
        let plan = if call.is_some() { plan } else { 0 };
        Header { kind, key, epoch, shape, call, value, acked, length, checksum, generation, number, plan, sent_us }
    }
}

proptest! {
    #[test]
    fn headers_round_trip(header in header()) {
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Header::decode(&bytes);
    }

    /// What decodes after some bytes were changed means what it says: it encodes to a header that decodes to it.
    #[test]
    fn changed_bytes_never_panic(header in header(), changes in prop::collection::vec((0..HEADER_BYTES, any::<u8>()), 1..8)) {
        let mut bytes = header.encode();
        changes.iter().for_each(|&(at, b)| bytes[at] = b);
        if let Ok(decoded) = Header::decode(&bytes) {
            prop_assert_eq!(Header::decode(&decoded.encode()), Ok(decoded));
        }
    }
}

/// A fuzzer that begins with headers of another version finds little.
#[test]
fn the_seeds_of_the_fuzzer_are_headers_of_this_version() {
    macro_rules! seeds {
        ($($name:literal)*) => {
            [$(&include_bytes!(concat!("../../../../integration/fuzz/seeds/frames/", $name))[..]),*]
        };
    }
    for bytes in seeds!("abort" "ack" "bye" "data" "grant" "ready" "send") {
        assert!(Header::decode(bytes).is_ok(), "{:?}", Header::decode(bytes));
    }
}

#[test]
fn refusals_are_typed() {
    let good = Header::control(Kind::Ack, Key::Link, 1, 2).encode();
    let with = |at: usize, b: u8| {
        let mut bytes = good;
        bytes[at] = b;
        Header::decode(&bytes)
    };
    assert_eq!(Header::decode(&good[..103]), Err(FrameError::Short(103)));
    assert!(matches!(with(0, 0), Err(FrameError::Magic(_))));
    assert_eq!(with(4, 9), Err(FrameError::Version(9)));
    assert_eq!(with(12, 1), Err(FrameError::Length(1)));
    assert_eq!(with(5, 77), Err(FrameError::Field { field: "kind", value: 77 }));
    assert_eq!(with(6, 1), Err(FrameError::Field { field: "space", value: 1 }));
}
