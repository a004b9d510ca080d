//! Whatever is done to an export is found.

use std::sync::Arc;

use aws_lc_rs::digest;
use proptest::prelude::*;

use crate::{Actor, Broken, Change, Claim, Content, Denial, Fault, Head, Log, Object, Record, START, verify};

/// Stands for the authority's key.
fn sign(message: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, &[b"a secret", message].concat()).as_ref().to_vec()
}

fn check<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<(), Broken> {
    verify(records, |message, signature| sign(message) == signature).map(|_| ())
}

/// What goes into a log. Records of both kinds may be in that of changes: older releases had only that one.
fn content() -> impl Strategy<Value = Content> {
    let text = || "[a-z/:0-9]{0,12}";
    let vouched = prop_oneof![Just(String::new()), "https://[a-z]{1,8} [a-z0-9]{1,8}"];
    let actor =
        (text(), text(), text(), text(), vouched).prop_map(|(who, tenant, source, rpc, oidc_subject)| {
            let (roles, request, trace) = ("admin".to_owned(), String::new(), source.clone());
            Arc::new(Actor { who, roles, tenant, source, rpc, request, trace, oidc_subject })
        });
    let change = (actor.clone(), text(), text(), any::<u64>()).prop_map(|(actor, kind, name, version)| {
        Content::Change(Change { actor, object: Object { kind, name, tenant: String::new(), version } })
    });
    let denial = (actor, text(), text(), 1..1000_u64)
        .prop_map(|(actor, reason, detail, count)| Content::Denial(Denial { actor, reason, detail, count }));
    prop_oneof![change, denial]
}

/// A chain of these contents, a checkpoint after every so many and at the end, all before `kept` dropped.
fn chain(
    log: Log,
    contents: Vec<Content>,
    every: usize,
    dropped: usize,
    beside: Option<Head>,
) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let head = |records: &[Record]| records.last().map_or((1, START), |last| (last.seq + 1, last.hash));
    let count = contents.len();
    for (at, content) in contents.into_iter().enumerate() {
        let (seq, previous) = head(&records);
        records.push(Record::new(log, seq, 1000 + seq, previous, content));
        if at % every == every - 1 || at == count - 1 {
            let (seq, head) = head(&records);
            let first = if at == count - 1 { dropped } else { 0 };
            let (oldest, anchor) = (records[first].seq, records[first].previous);
            let claim = Claim { log, seq, time_ms: 1000 + seq, head, epoch: 7, oldest, anchor, beside };
            records.push(claim.record(sign(&claim.message())));
        }
    }
    records.drain(..dropped);
    records
}

/// One log of changes, as before there were two.
fn export(contents: Vec<Content>, every: usize, dropped: usize) -> Vec<Record> {
    chain(Log::Changes, contents, every, dropped, None)
}

/// Both logs, as an export has them: that of changes first, and its last checkpoint tells of the last denial.
fn pair(changes: Vec<Content>, denials: Vec<Content>, every: usize, dropped: usize) -> Vec<Record> {
    let seen = Some(Head { seq: 1, hash: chain(Log::Changes, changes.clone(), every, 0, None)[0].hash });
    let denials = chain(Log::Denials, denials, every, 0, seen.filter(|_| dropped > 0));
    let last = denials.last().unwrap();
    let beside = Some(Head { seq: last.seq, hash: last.hash });
    let changes = chain(Log::Changes, changes, every, dropped, beside);
    [changes, denials].concat()
}

/// What a hash is made of is part of what is stored: each text with its length before it, numbers in eight bytes.
#[test]
fn a_hash_is_what_it_was_in_every_release() {
    let text = str::to_owned;
    let actor = Actor {
        who: text("user/ada"),
        roles: text("submitter"),
        tenant: text("red"),
        source: text("192.0.2.1"),
        rpc: text("CreateJob"),
        request: text("r1"),
        trace: String::new(),
        oidc_subject: String::new(),
    };
    let object = Object { kind: text("job"), name: text("train"), tenant: text("red"), version: 7 };
    let content = Content::Change(Change { actor: Arc::new(actor), object });
    let hex: String = Record::new(Log::Changes, 1, 1000, START, content)
        .hash
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(hex, "68e8909f4d24e03f00926d8c989c07f76a83acde939a54c1caf0e4161add38c6");
}

fn exports() -> impl Strategy<Value = Vec<Record>> {
    let contents = || prop::collection::vec(content(), 2..24);
    (contents(), contents(), 2..6_usize, 0..24_usize, any::<bool>()).prop_map(
        |(contents, denials, every, dropped, both)| {
            let dropped = dropped % contents.len();
            if both { pair(contents, denials, every, dropped) } else { export(contents, every, dropped) }
        },
    )
}

/// One changed field of a record; as good as any hash that was made to fit.
fn changed(record: &mut Record, which: usize, rehash: bool) {
    match (&mut record.content, which % 4) {
        (_, 0) => record.time_ms += 1,
        (_, 1) if !rehash => record.hash[0] ^= 1,
        (Content::Change(change), 2) => change.object.version ^= 1,
        (Content::Change(change), 3) => Arc::make_mut(&mut change.actor).oidc_subject.push('x'),
        (Content::Change(change), _) => change.object.name.push('x'),
        (Content::Denial(denial), 2) => denial.count += 1,
        (Content::Denial(denial), _) => denial.reason.push('x'),
        (Content::Checkpoint(checkpoint), 2) => checkpoint.oldest += 1,
        (Content::Checkpoint(checkpoint), _) => checkpoint.anchor[5] ^= 4,
        (Content::Resumed { cause }, _) => cause.push('x'),
    }
    if rehash {
        record.hash = record.computed();
    }
}

/// Makes hashes and links fit from a record on, as somebody without the key could.
fn relink(records: &mut [Record], from: usize) {
    for at in from.max(1)..records.len() {
        if records[at].log != records[at - 1].log {
            return;
        }
        records[at].previous = records[at - 1].hash;
        records[at].seq = records[at - 1].seq + 1;
        records[at].hash = records[at].computed();
    }
}

proptest! {
    #[test]
    fn what_was_exported_is_sound(records in exports()) {
        prop_assert_eq!(check(&records), Ok(()));
    }

    #[test]
    fn a_change_is_found(mut records in exports(), at: prop::sample::Index, which: usize, rehash: bool, all: bool) {
        let at = at.index(records.len());
        changed(&mut records[at], which, rehash);
        if all {
            relink(&mut records, at + 1);
        }
        prop_assert!(check(&records).is_err());
    }

    #[test]
    fn a_drop_is_found(mut records in exports(), at: prop::sample::Index, all: bool) {
        let at = at.index(records.len());
        records.remove(at);
        if all {
            relink(&mut records, at);
        }
        prop_assert!(check(&records).is_err());
    }

    #[test]
    fn a_swap_is_found(mut records in exports(), a: prop::sample::Index, b: prop::sample::Index, all: bool) {
        let (a, b) = (a.index(records.len()), b.index(records.len()));
        // Between the logs there is no order.
        prop_assume!(a != b && records[a].log == records[b].log);
        records.swap(a, b);
        if all {
            relink(&mut records, a.min(b));
        }
        prop_assert!(check(&records).is_err());
    }

    #[test]
    fn an_insertion_is_found(mut records in exports(), at: prop::sample::Index, new in content(), all: bool) {
        let at = at.index(records.len());
        let (seq, previous) = (records[at].seq, records[at].previous);
        let log = records[at].log;
        records.insert(at, Record::new(log, seq, 1, previous, new));
        if all {
            relink(&mut records, at + 1);
        }
        prop_assert!(check(&records).is_err());
    }

    #[test]
    fn a_record_that_is_moved_into_the_other_log_is_found(mut records in exports(), at: prop::sample::Index, rehash: bool) {
        let at = at.index(records.len());
        records[at].log = records[at].log.other();
        if rehash {
            records[at].hash = records[at].computed();
        }
        prop_assert!(check(&records).is_err());
    }
}

#[test]
fn neither_log_can_be_left_out_cut_or_exchanged() {
    let denial = |n: u64| {
        Content::Denial(Denial {
            actor: Arc::new(Actor::default()),
            reason: "R".into(),
            detail: String::new(),
            count: n,
        })
    };
    let change = |n: u64| {
        let object = Object { version: n, ..Object::default() };
        Content::Change(Change { actor: Arc::new(Actor::default()), object })
    };
    let both = |from: u64| pair((0..6).map(change).collect(), (from..from + 6).map(denial).collect(), 3, 1);
    let records = both(1);
    let of = |log: Log, records: &[Record]| -> Vec<Record> {
        records.iter().filter(|record| record.log == log).cloned().collect()
    };
    let fault = |records: &[Record]| check(records).map_err(|broken| (broken.log, broken.fault));
    assert_eq!(fault(&records), Ok(()));
    let (changes, denials) = (of(Log::Changes, &records), of(Log::Denials, &records));
    assert_eq!(fault(&[denials.clone(), changes.clone()].concat()), Ok(()), "in any order");
    assert_eq!(fault(&changes), Err((Log::Denials, Fault::CutOff { signed: 8 })));
    assert_eq!(fault(&denials), Err((Log::Changes, Fault::CutOff { signed: 1 })));
    // Cut at an older checkpoint, which is signed.
    let cut = [changes.clone(), denials[..4].to_vec()].concat();
    assert_eq!(fault(&cut), Err((Log::Denials, Fault::CutOff { signed: 8 })));
    let other = of(Log::Denials, &both(50));
    assert_eq!(fault(&[changes.clone(), other.clone()].concat()), Err((Log::Denials, Fault::Exchanged)));
    assert_eq!(fault(&[other, changes].concat()), Err((Log::Denials, Fault::Exchanged)));
}

#[test]
fn the_first_that_is_wrong_is_named() {
    let actor = Arc::new(Actor::default());
    let one = |n: u64| {
        let object = Object { version: n, ..Object::default() };
        Content::Change(Change { actor: Arc::clone(&actor), object })
    };
    let records = export((0..9).map(one).collect(), 3, 0);
    let fault = |change: fn(&mut Vec<Record>)| {
        let mut records = records.clone();
        change(&mut records);
        let broken = check(&records).unwrap_err();
        (broken.seq, broken.fault)
    };
    assert_eq!(fault(|records| records[4].time_ms += 1), (5, Fault::Changed));
    assert_eq!(fault(|records| drop(records.remove(4))), (6, Fault::Missing { expected: 5 }));
    assert_eq!(
        fault(|records| records.insert(4, records[1].clone())),
        (2, Fault::OutOfOrder { expected: 5 })
    );
    assert_eq!(fault(|records| drop(records.drain(..4))), (5, Fault::NotAnchored));
    assert_eq!(fault(|records| drop(records.pop())), (9, Fault::Unsigned));
    assert_eq!(fault(|records| relink_from(records, 1)), (4, Fault::Forged));
    let resumed = |records: &mut Vec<Record>| {
        let cause = "record 5 is missing".to_owned();
        records[5] = Record::new(Log::Changes, 6, 1, START, Content::Resumed { cause });
    };
    assert!(matches!(fault(resumed), (6, Fault::Resumed { .. })));
}

fn relink_from(records: &mut [Record], at: usize) {
    changed(&mut records[at], 2, true);
    relink(records, at + 1);
}
