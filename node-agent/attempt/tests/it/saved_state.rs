//! Records and states come back from their files; what release 0.1.0 left is read; what cannot be read says why.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use node_agent_attempt::{
    layout::JobDir,
    places::{Flaw, StateFileError, VERSION},
    saved::FirstCollective,
    state_files::{SupervisorState, decode, decode_record, encode_record, read_record, read_state, schema},
};
use node_agent_core::{Goal, Key, Life, Record, Snapshot};
use node_agent_os::{files::Durability, process::Identity};
use proptest::{collection::vec, option, prelude::*};
use prost::Message as _;
use proto_model::{
    AlgorithmChoice, Certify, JobId, JobName, JobUid, Measured, Named, NodeEndpoints, NodeName, Observed,
    PairReport, PathMeasurement, PortGid, PortReport, PriorityBytes, RailBytes, RailEndpoint, RailReport,
    RailState, RankExit, RankUsage, Reason, ReasonCode, RoundPart, RunResult, TenantName, Timestamp,
};

fn key() -> Key {
    Key { uid: JobUid::from_random([3; 16]), attempt: 2 }
}

fn recorded(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn peers() -> Vec<NodeEndpoints> {
    let endpoints = vec![RailEndpoint { rail: 1, address: "10.0.0.1:4".parse().unwrap() }];
    vec![NodeEndpoints { node: NodeName::new("n1").unwrap(), endpoints }]
}

fn measured() -> Measured {
    let way =
        PathMeasurement { sent: 8, lost: 1, mtu: Some(9000), dscp: None, mbps: Some(7), at_least: true };
    let back = PathMeasurement::default();
    let pair = PairReport { round: 1, peer: 2, rail: 0, there: way, back, rtt_us: Some(3), crossed: Some(1) };
    let gid = PortGid::Found { index: 3, gid: "::ffff:10.0.0.1".parse().unwrap() };
    let priority_bytes = Some(PriorityBytes { right: 1, wrong: 2 });
    let port = PortReport { rail: 0, mtu: Some(9000), dscp: Some(24), gid: Some(gid), priority_bytes };
    Measured { series: 1, pairs: vec![pair], ports: vec![port], unable: "late".into() }
}

/// What the recorded files are of.
fn snapshot() -> Snapshot {
    Snapshot {
        state: Observed::Running,
        endpoints: peers()[0].endpoints.clone(),
        exits: vec![RankExit {
            rank: 2,
            code: 0,
            signal: 9,
            time: Timestamp(5),
            usage: RankUsage::default(),
        }],
        cause: Some(Reason::new(ReasonCode::EngineLost, "gone").scope("node/n1")),
        result: Some(RunResult { ranks: 4, verified: true, ..RunResult::default() }),
        rails: vec![RailBytes { rail: 1, tx_bytes: 2, rx_bytes: 3 }],
        drained: Some([1, 5].into()),
        reports: vec![RailReport {
            rail: 1,
            state: Some(RailState::Proving),
            since: Timestamp(7),
            tx_bytes: 1,
            rx_bytes: 2,
            tx_rate: 3,
            rx_rate: 4,
            flaps: 5,
            cause: "reset".into(),
            peers: 6,
            peers_up: 5,
        }],
        choices: vec![AlgorithmChoice {
            operation: "broadcast".into(),
            bytes: 8,
            algorithm: "direct".into(),
            reasons: vec!["two nodes".into()],
        }],
        measured: Some(measured()),
    }
}

fn state() -> SupervisorState {
    let id = |pid: i32| Identity { pid, start: u64::from(pid.unsigned_abs()) * 10 };
    SupervisorState {
        snapshot: snapshot(),
        supervisor: Some(id(5)),
        engine: Some(id(6)),
        holder: Some(id(7)),
        ranks: [(0, id(8)), (1, id(9))].into(),
        cgroups: vec!["/sys/fs/cgroup/railyard/n1.u.1/rank-0".into()],
        first_collective: Some(FirstCollective {
            operation: "all-reduce".into(),
            started_unix_ns: 11,
            ended_unix_ns: 12,
        }),
    }
}

fn record(goal: Goal) -> Record {
    let id = JobId { tenant: TenantName::new("t").unwrap(), name: JobName::new("j").unwrap() };
    Record { key: key(), id, goal, life: Life::None, seen: snapshot(), trace_parent: "00-a".into() }
}

fn goals() -> [(&'static str, Goal); 4] {
    let certify = Certify {
        series: 1,
        turns: vec![RoundPart { round: 0, peer: 1, first: true }],
        limit: Duration::from_millis(1500),
    };
    let stopped = Goal::Stopped { grace: Duration::from_millis(1500), signal: 10, reason: "x".into() };
    [
        ("prepared", Goal::Prepared),
        ("measuring", Goal::Running { peers: peers(), certify: Some(certify) }),
        ("running", Goal::Running { peers: peers(), certify: None }),
        ("stopped", stopped),
    ]
}

#[test]
fn files_of_release_0_1_0_are_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let dir = JobDir::at(folder.path());
    assert!(!dir.record().exist().unwrap() && read_record(&dir, key()).unwrap().is_none());
    for (name, goal) in goals() {
        fs::copy(recorded(&format!("record-{name}.json")), dir.record().old).unwrap();
        assert!(dir.record().exist().unwrap());
        assert_eq!(read_record(&dir, key()).unwrap(), Some(record(goal)), "{name}");
    }
    fs::copy(recorded("state.json"), dir.state().old).unwrap();
    assert_eq!(read_state(&dir).unwrap(), Some(state()));
    // What is written then is of today's form, and the only one.
    let stopped = record(goals()[3].1.clone());
    dir.record().write(&encode_record(&stopped), Durability::Process).unwrap();
    assert!(!dir.record().old.exists());
    assert_eq!(read_record(&dir, key()).unwrap(), Some(stopped));
    fs::write(dir.state().old, "{").unwrap();
    let error = read_state(&dir).unwrap_err().to_string();
    assert!(error.contains("state.json") && error.contains("remove the folder"), "{error}");
}

/// The recorded file is read by the tests of others, too.
#[test]
fn the_recorded_file_is_what_is_written() {
    if std::env::var_os("RAIL_RECORD").is_some() {
        fs::write(recorded("state.pb"), state().encode()).unwrap();
    }
    assert_eq!(fs::read(recorded("state.pb")).unwrap(), state().encode());
}

#[test]
fn a_later_version_and_a_broken_file_say_where_what_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let dir = JobDir::at(folder.path());
    let mut wire: schema::SupervisorState = decode(&state().encode()).unwrap();
    wire.version = VERSION + 1;
    fs::write(dir.state().now, wire.encode_to_vec()).unwrap();
    let error = read_state(&dir).unwrap_err();
    assert!(matches!(error, StateFileError::Newer { version: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("state.pb") && text.contains("run the rail-node-agent that wrote it"), "{text}");
    wire.version = VERSION;
    wire.snapshot.as_mut().unwrap().state = 77;
    fs::write(dir.state().now, wire.encode_to_vec()).unwrap();
    let text = read_state(&dir).unwrap_err().to_string();
    assert!(text.contains("state.pb: the state of an attempt is 77; end what still runs"), "{text}");
}

#[test]
fn fields_that_could_not_have_been_written_are_refused() {
    let good: schema::AttemptRecord = decode(&encode_record(&record(goals()[1].1.clone()))).unwrap();
    let refused = |change: &dyn Fn(&mut schema::AttemptRecord)| {
        let mut wire = good.clone();
        change(&mut wire);
        match decode_record(&wire.encode_to_vec(), key()) {
            Err(Flaw::Broken(detail)) => detail,
            other => panic!("{other:?}"),
        }
    };
    fn seen(wire: &mut schema::AttemptRecord) -> &mut schema::Snapshot {
        wire.seen.as_mut().unwrap()
    }
    assert_eq!(refused(&|wire| wire.goal = None), "the goal is missing");
    assert_eq!(refused(&|wire| wire.seen = None), "the snapshot is missing");
    assert_eq!(refused(&|wire| seen(wire).state = 0), "the state of an attempt is 0");
    assert_eq!(refused(&|wire| seen(wire).reports[0].state = 9), "the state of a rail is 9");
    let address = refused(&|wire| seen(wire).endpoints[0].address = "n1".into());
    assert_eq!(address, "an endpoint's address is \"n1\"");
    let ports = |wire: &mut schema::AttemptRecord, change: &dyn Fn(&mut schema::Port)| {
        change(&mut seen(wire).measured.as_mut().unwrap().ports[0]);
    };
    assert_eq!(refused(&|wire| ports(wire, &|port| port.dscp = Some(256))), "a DSCP is 256");
    let short = refused(&|wire| {
        ports(wire, &|port| port.gid.as_mut().unwrap().found.as_mut().unwrap().gid.truncate(4));
    });
    assert_eq!(short, "a GID is 4 bytes long");
    refused(&|wire| wire.tenant = "NO NAME".into());
    refused(&|wire| wire.job.clear());
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[ -~äλ\n]{0,12}").unwrap()
}

fn number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("a number equals itself", |number| number.is_finite())
}

fn nanos() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn some_endpoints() -> impl Strategy<Value = Vec<RailEndpoint>> {
    let address = (any::<std::net::IpAddr>(), any::<u16>()).prop_map(Into::into);
    vec((any::<u32>(), address).prop_map(|(rail, address)| RailEndpoint { rail, address }), 0..3)
}

fn some_reason() -> impl Strategy<Value = Reason> {
    let code = prop_oneof![Just("EngineLost".to_owned()), text()];
    let named = option::of((vec(0_u8..9, 0..3), text(), text()));
    (code, text(), any::<u32>(), text(), option::of(any::<u64>()), named).prop_map(
        |(code, message, count, scope, since, named)| Reason {
            code: ReasonCode::from_text(&code),
            message,
            count,
            scope,
            since: since.map(Timestamp),
            named: named.map(|(to, message, scope)| {
                let to = to.iter().map(|name| TenantName::new(format!("t{name}")).unwrap()).collect();
                Box::new(Named { to, message, scope })
            }),
        },
    )
}

fn some_bytes() -> impl Strategy<Value = Vec<RailBytes>> {
    let one = any::<(u32, u64, u64)>();
    vec(one.prop_map(|(rail, tx_bytes, rx_bytes)| RailBytes { rail, tx_bytes, rx_bytes }), 0..3)
}

fn some_result() -> impl Strategy<Value = RunResult> {
    (any::<(u32, u64, u32, bool, u64)>(), [number(), number(), number(), number(), number()], some_bytes())
        .prop_map(|((ranks, bytes, iterations, verified, mismatches), times, rails)| RunResult {
            ranks,
            bytes,
            iterations,
            time_us_min: times[0],
            time_us_median: times[1],
            time_us_max: times[2],
            alg_bw_gbps: times[3],
            bus_bw_gbps: times[4],
            verified,
            mismatches,
            rails,
        })
}

fn some_report() -> impl Strategy<Value = RailReport> {
    let states: Vec<_> =
        std::iter::once(None).chain(RailState::WORDS.map(|(state, _)| Some(state))).collect();
    (proptest::sample::select(states), any::<([u32; 4], [u64; 5])>(), text()).prop_map(
        |(state, ([rail, flaps, peers, peers_up], numbers), cause)| RailReport {
            rail,
            state,
            since: Timestamp(numbers[0]),
            tx_bytes: numbers[1],
            rx_bytes: numbers[2],
            tx_rate: numbers[3],
            rx_rate: numbers[4],
            flaps,
            cause,
            peers,
            peers_up,
        },
    )
}

fn some_way() -> impl Strategy<Value = PathMeasurement> {
    any::<(u32, u32, Option<u32>, Option<u8>, Option<u32>, bool)>().prop_map(
        |(sent, lost, mtu, dscp, mbps, at_least)| PathMeasurement { sent, lost, mtu, dscp, mbps, at_least },
    )
}

fn some_measured() -> impl Strategy<Value = Measured> {
    let pair = (any::<[u32; 3]>(), some_way(), some_way(), any::<(Option<u32>, Option<u32>)>()).prop_map(
        |([round, peer, rail], there, back, (rtt_us, crossed))| PairReport {
            round,
            peer,
            rail,
            there,
            back,
            rtt_us,
            crossed,
        },
    );
    let gid = any::<Option<(u32, [u8; 16])>>().prop_map(|found| match found {
        None => PortGid::Missing,
        Some((index, gid)) => PortGid::Found { index, gid: gid.into() },
    });
    let port = (any::<(u32, Option<u32>, Option<u8>, Option<(u64, u64)>)>(), option::of(gid)).prop_map(
        |((rail, mtu, dscp, bytes), gid)| PortReport {
            rail,
            mtu,
            dscp,
            gid,
            priority_bytes: bytes.map(|(right, wrong)| PriorityBytes { right, wrong }),
        },
    );
    (any::<u32>(), vec(pair, 0..3), vec(port, 0..3), text())
        .prop_map(|(series, pairs, ports, unable)| Measured { series, pairs, ports, unable })
}

fn some_snapshot() -> impl Strategy<Value = Snapshot> {
    let states = [
        Observed::Preparing,
        Observed::Prepared,
        Observed::Starting,
        Observed::Running,
        Observed::Stopping,
        Observed::Ended,
    ];
    let exit = (any::<(u32, i32, i32, u64, u64)>(), option::of(nanos())).prop_map(
        |((rank, code, signal, time, memory_peak), cpu)| RankExit {
            rank,
            code,
            signal,
            time: Timestamp(time),
            usage: RankUsage { cpu, memory_peak },
        },
    );
    let choice = (text(), any::<u64>(), text(), vec(text(), 0..3)).prop_map(
        |(operation, bytes, algorithm, reasons)| AlgorithmChoice { operation, bytes, algorithm, reasons },
    );
    let facts = (
        proptest::sample::select(states.to_vec()),
        some_endpoints(),
        vec(exit, 0..3),
        option::of(some_reason()),
        option::of(some_result()),
    );
    let shown = (
        some_bytes(),
        option::of(proptest::collection::btree_set(any::<u32>(), 0..4)),
        vec(some_report(), 0..3),
        vec(choice, 0..3),
        option::of(some_measured()),
    );
    (facts, shown).prop_map(|((state, endpoints, exits, cause, result), shown)| {
        let (rails, drained, reports, choices, measured) = shown;
        Snapshot { state, endpoints, exits, cause, result, rails, drained, reports, choices, measured }
    })
}

fn some_goal() -> impl Strategy<Value = Goal> {
    let turn = any::<(u32, u32, bool)>().prop_map(|(round, peer, first)| RoundPart { round, peer, first });
    let certify = (any::<u32>(), vec(turn, 0..3), nanos()).prop_map(|(series, turns, limit)| Certify {
        series,
        turns,
        limit,
    });
    let peer = (0_u8..9, some_endpoints()).prop_map(|(node, endpoints)| NodeEndpoints {
        node: NodeName::new(format!("n{node}")).unwrap(),
        endpoints,
    });
    prop_oneof![
        Just(Goal::Prepared),
        (vec(peer, 0..3), option::of(certify)).prop_map(|(peers, certify)| Goal::Running { peers, certify }),
        (nanos(), any::<i32>(), text()).prop_map(|(grace, signal, reason)| Goal::Stopped {
            grace,
            signal,
            reason
        }),
    ]
}

fn some_state() -> impl Strategy<Value = SupervisorState> {
    let id = || any::<(i32, u64)>().prop_map(|(pid, start)| Identity { pid, start });
    let ids = [option::of(id()), option::of(id()), option::of(id())];
    let ranks = proptest::collection::btree_map(any::<u32>(), id(), 0..3);
    let first = option::of((text(), any::<u64>(), any::<u64>()));
    (some_snapshot(), ids, ranks, vec(text(), 0..3), first).prop_map(
        |(snapshot, [supervisor, engine, holder], ranks, cgroups, first): (_, _, BTreeMap<_, _>, _, _)| {
            SupervisorState {
                snapshot,
                supervisor,
                engine,
                holder,
                ranks,
                cgroups: cgroups.into_iter().map(Into::into).collect(),
                first_collective: first.map(|(operation, started_unix_ns, ended_unix_ns)| FirstCollective {
                    operation,
                    started_unix_ns,
                    ended_unix_ns,
                }),
            }
        },
    )
}

proptest! {
    #[test]
    fn records_come_back(goal in some_goal(), seen in some_snapshot(), trace_parent in text()) {
        let record = Record { seen, trace_parent, ..record(goal) };
        prop_assert_eq!(decode_record(&encode_record(&record), key()), Ok(record));
    }

    #[test]
    fn states_come_back(state in some_state()) {
        prop_assert_eq!(SupervisorState::decode(&state.encode()), Ok(state));
    }

    #[test]
    fn nothing_panics_on_bytes(bytes in vec(any::<u8>(), 0..200), at in any::<proptest::sample::Index>()) {
        let _ = (decode_record(&bytes, key()), SupervisorState::decode(&bytes));
        // And on a good file in which some bytes are others.
        for mut good in [encode_record(&record(goals()[1].1.clone())), state().encode()] {
            let at = at.index(good.len());
            for (old, new) in good[at..].iter_mut().zip(&bytes[..bytes.len().min(3)]) {
                *old = *new;
            }
            let _ = (decode_record(&good, key()), SupervisorState::decode(&good));
        }
    }
}
