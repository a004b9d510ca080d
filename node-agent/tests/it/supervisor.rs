//! One attempt of one job under its supervisor: its life, its end, its output, and what it must not see.

mod limits;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use node_agent_attempt::{
    layout::JobDir,
    logs::{LogReader, Stream},
    saved::{SavedOrder, SavedSnapshot},
    state_files::{self, SupervisorState},
    supervisor_config::{self, GpuSummary, SupervisorConfig, key_to_hex},
};
use node_agent_core::{Order, Snapshot};
use node_agent_ipc::ShortPath;
use node_agent_os::{files, process::Identity};
use node_agent_qos::DataClass;
use node_agent_rank::privileges::RankLimits;
use node_agent_supervisor::control::{self, Request};
use proto_model::{
    Algorithm, Assignment, DesiredState, EngineOptions, NodeEndpoints, NodeName, Observed, RailProtection,
    Work,
};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{
    AGENT, LIMIT, NODE, assignment, clean, collective, engine, eventually, gang, gone, isolation, process_in,
    shell,
};

/// Below the time after which an engine's operations end by themselves.
const IN_TIME: Duration = Duration::from_secs(30);

struct Supervised {
    room: TempDir,
    dir: JobDir,
    process: Child,
    id: Identity,
    words: BufReader<UnixStream>,
    seen: Snapshot,
}

fn supervisor_config() -> SupervisorConfig {
    SupervisorConfig {
        starter: Some(env!("CARGO_BIN_EXE_rail-rank").into()),
        node: NODE.into(),
        engine: engine(),
        library: None,
        environment: [("NCCL_IB_DISABLE".to_owned(), "1".to_owned())].into(),
        log_bytes: 1 << 20,
        cgroups: true,
        limits: node_agent_rank::cgroup::limits::Limits::default(),
        own_cpus: false,
        rank_user: None,
        own_uid: false,
        rank_limits: RankLimits::default(),
        isolation: isolation(),
        data: std::path::PathBuf::new(),
        gpu_files: Vec::new(),
        engine_memory: None,
        // The engine takes it as it is written.
        gpus: vec![GpuSummary { gpu: "0000:1b:00.0".into(), dma_buf: false, why: "too far".into() }],
        gpu_names: BTreeMap::new(),
        drained: Vec::new(),
        data_classes: [(0, DataClass { traffic_class: 98, ..DataClass::default() })].into(),
    }
}

fn start(dir: &JobDir, assignment: &Assignment, supervisor_config: &SupervisorConfig) -> Child {
    supervisor_config::write(dir, assignment, supervisor_config).unwrap();
    let mut command = Command::new(AGENT);
    command.arg("supervise").arg("--dir").arg(dir.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
    command.env("RAIL_JOIN_TOKEN", "rail-join-v1.very.secret");
    let mut process = command.spawn().unwrap();
    let DesiredState::Prepared { key, .. } = &assignment.desired else { panic!("a job is prepared first") };
    // A supervisor that refuses at once may not read it.
    let _ = writeln!(process.stdin.take().unwrap(), "{}", key_to_hex(key));
    process
}

impl Supervised {
    fn new(ranks: u32, work: Work) -> Self {
        Self::with(&assignment(ranks, work), &supervisor_config())
    }

    fn with(assignment: &Assignment, supervisor_config: &SupervisorConfig) -> Self {
        let room = tempfile::tempdir().unwrap();
        let dir = JobDir::at(room.path().join("try"));
        let process = start(&dir, assignment, supervisor_config);
        let id = Identity::of(process.id().cast_signed()).unwrap();
        let words = eventually("the supervisor listens, or has ended already", || {
            let listening = ShortPath::of(&dir.socket()).and_then(UnixStream::connect).ok();
            listening.or_else(|| (!id.is_alive()).then(|| UnixStream::pair().unwrap().0))
        });
        words.set_read_timeout(Some(LIMIT)).unwrap();
        Self { room, dir, process, id, words: BufReader::new(words), seen: Snapshot::default() }
    }

    /// Waits until what the supervisor says fits.
    fn until(&mut self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> &Snapshot {
        let deadline = Instant::now() + LIMIT;
        while !fits(&self.seen) {
            let mut line = String::new();
            // A supervisor that ends at once may do so before it greets us: then its durable state speaks.
            let next: Snapshot = match self.words.read_line(&mut line) {
                Ok(1..) => serde_json::from_str::<SavedSnapshot>(&line).unwrap().into(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("{what} did not come: {:?}", self.seen)
                }
                _ => self.saved().snapshot,
            };
            assert!(Instant::now() < deadline, "{what} did not come: {:?}", self.seen);
            assert!(next.state >= self.seen.state, "states only move forward");
            self.seen = next;
        }
        &self.seen
    }

    fn state(&mut self, state: Observed) -> &Snapshot {
        self.until(&format!("{state:?}"), |seen| seen.state >= state)
    }

    fn order(&mut self, order: Order) {
        let mut line = serde_json::to_vec(&SavedOrder::from(&order)).unwrap();
        line.push(b'\n');
        self.words.get_ref().write_all(&line).unwrap();
    }

    fn run(&mut self) {
        self.state(Observed::Prepared);
        self.order(Order::Start { peers: Vec::new(), certify: None });
    }

    fn stop(&mut self, grace: Duration) {
        self.order(Order::Stop { grace, signal: 0, reason: "cancelled by ada".into() });
    }

    /// To the end: everything gone, and the durable state says what was told.
    fn ended(&mut self) -> Snapshot {
        let seen = self.state(Observed::Ended).clone();
        assert!(self.process.wait().unwrap().success());
        let saved = self.saved();
        assert_eq!(saved.snapshot, seen, "what was told is durable");
        for id in saved.engine.iter().chain(&saved.holder).chain(saved.ranks.values()) {
            assert!(!id.is_alive(), "{id:?} outlived the supervisor");
        }
        for group in saved.cgroups {
            assert!(!group.exists(), "{} is left", group.display());
        }
        seen
    }

    fn saved(&self) -> SupervisorState {
        state_files::read_state(&self.dir).unwrap().unwrap()
    }

    fn log(&self, rank: u32, stream: Stream) -> String {
        let mut reader = LogReader::open(&self.dir.rank_log(rank), 0, 0);
        let mut text = Vec::new();
        loop {
            let pieces = reader.next(1 << 20).unwrap();
            if pieces.is_empty() {
                return String::from_utf8(text).unwrap();
            }
            text.extend(
                pieces.into_iter().filter(|piece| piece.stream == stream).flat_map(|piece| piece.data),
            );
        }
    }

    fn work(&self, name: &str) -> std::path::PathBuf {
        self.dir.work().join(name)
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // Ranks and engine are tied to it; what a failed test left ends with it.
        self.id.signal(Signal::KILL);
        let _ = self.process.wait();
        clean(&self.dir);
    }
}

fn codes(seen: &Snapshot) -> Vec<(u32, i32, i32)> {
    seen.exits.iter().map(|exit| (exit.rank, exit.code, exit.signal)).collect()
}

fn cause(seen: &Snapshot) -> (&str, &str) {
    seen.cause.as_ref().map_or(("", ""), |cause| (cause.code.as_str(), cause.message.as_str()))
}

#[test]
fn ranks_run_to_their_end_and_their_output_and_exit_codes_are_kept() {
    let script = "echo \"rank $RANK of $WORLD_SIZE\"; echo oops >&2; test $RANK = 1 && exit 3; \
                  test $RANK = 2 && kill -9 $$; exit 0";
    let mut job = Supervised::new(3, shell(script, &[]));
    assert_eq!(job.state(Observed::Prepared).endpoints.len(), 1);
    job.run();
    let seen = job.ended();
    assert_eq!(codes(&seen), [(0, 0, 0), (1, 3, 0), (2, 0, 9)]);
    assert_eq!(cause(&seen), ("", ""));
    for rank in 0..3 {
        assert_eq!(job.log(rank, Stream::Out), format!("rank {rank} of 3\n"));
        assert_eq!(job.log(rank, Stream::Err), "oops\n");
    }
    assert_eq!(seen.rails.len(), 1, "the engine's bytes were read before it ended");
}

#[test]
fn ranks_are_started_by_the_agents_own_program_where_the_small_one_is_gone() {
    for starter in [None, Some("/nowhere/rail-rank".into())] {
        let supervisor_config = SupervisorConfig { starter, ..supervisor_config() };
        let mut job = Supervised::with(&assignment(1, shell("exit 3", &[])), &supervisor_config);
        job.run();
        assert_eq!(codes(&job.ended()), [(0, 3, 0)]);
    }
}

#[test]
fn a_collective_is_run_by_the_engine_and_its_result_is_told() {
    let mut job = Supervised::new(2, collective());
    job.run();
    let seen = job.ended();
    assert_eq!(codes(&seen), [(0, 0, 0), (1, 0, 0)], "{}", job.log(0, Stream::Err));
    let result = seen.result.as_ref().unwrap();
    assert!(result.verified && result.mismatches == 0 && result.ranks == 2, "{result:?}");
}

/// Two servers of one job, wired to each other.
fn pair(work: Work) -> [Supervised; 2] {
    pair_with(work, EngineOptions::default())
}

fn pair_with(work: Work, options: EngineOptions) -> [Supervised; 2] {
    let nodes = [NODE, "n1"];
    let mut task = gang(&nodes, 2, work);
    if let DesiredState::Prepared { spec, .. } = &mut task.desired {
        Arc::make_mut(spec).engine = options;
    }
    let mut both = nodes
        .map(|node| Supervised::with(&task, &SupervisorConfig { node: node.into(), ..supervisor_config() }));
    let peers: Vec<NodeEndpoints> = nodes
        .iter()
        .zip(&mut both)
        .map(|(node, job)| NodeEndpoints {
            node: NodeName::new(node).unwrap(),
            endpoints: job.state(Observed::Prepared).endpoints.clone(),
        })
        .collect();
    for job in &mut both {
        job.order(Order::Start { peers: peers.clone(), certify: None });
    }
    both
}

#[test]
fn a_gang_of_two_servers_reduces_over_its_rail() {
    let [mut first, mut second] = pair(collective());
    let (one, two) = (first.ended(), second.ended());
    assert_eq!((cause(&one), cause(&two)), (("", ""), ("", "")));
    assert_eq!(codes(&two), [(2, 0, 0), (3, 0, 0)], "{}", second.log(2, Stream::Err));
    let result = one.result.as_ref().unwrap();
    assert!(result.verified && result.ranks == 4 && two.result.is_none(), "{result:?}");
    assert!(
        one.rails[0].tx_bytes > 100_000 && two.rails[0].rx_bytes > 100_000,
        "{:?} {:?}",
        one.rails,
        two.rails
    );
}

#[test]
fn engines_of_a_try_meet_whichever_epochs_their_agents_obeyed() {
    let pair = pair(collective());
    for job in &pair {
        let config: serde_json::Value = files::read_json(&job.dir.engine_config()).unwrap().unwrap();
        assert_eq!((&config["attempt"], &config["epoch"]), (&1.into(), &1.into()));
        let engine = (&config["checksum"], &config["reproducible"], &config["algorithm"]);
        assert_eq!(engine, (&false.into(), &true.into(), &serde_json::Value::Null));
    }
}

#[test]
fn engines_are_told_what_the_job_asks_of_them() {
    let algorithm = Some(Algorithm::OneShot);
    let options = EngineOptions {
        checksum: true,
        reproducible: false,
        algorithm,
        queue_pairs: 2,
        protection: RailProtection::Encrypted,
    };
    let mut pair = pair_with(collective(), options);
    for job in &mut pair {
        let config: serde_json::Value = files::read_json(&job.dir.engine_config()).unwrap().unwrap();
        let engine = (&config["checksum"], &config["reproducible"], &config["algorithm"]);
        assert_eq!(engine, (&true.into(), &false.into(), &"one-shot".into()));
        assert_eq!(config["verbs"]["pairs"], 2);
        assert_eq!(config["protection"], "encrypted");
        assert_eq!(config["verbs"]["traffic_class"], 98, "as the profile on the NICs has it");
        let seen = job.ended();
        assert_eq!(cause(&seen), ("", ""));
        assert!(seen.result.is_none_or(|result| result.verified));
    }
}

/// Rank 1 is in the middle of its collectives when its process is killed; rank 0 hears of it and stays.
#[test]
fn a_rank_that_dies_in_a_collective_is_not_blamed_on_the_engine() {
    let bench = format!(
        "'{}' bench-rank --op all-reduce --bytes 1048576 --dtype f32 --reduce sum",
        engine().display()
    );
    let script = format!(
        "run() {{ exec {bench} --iterations 1000000 --warmup 0; }}
         run & pid=$!
         if test $RANK = 0; then wait $pid; touch heard; exec sleep 600; fi
         while ! test -e go; do sleep 0.02; done
         kill -9 $pid; while ! test -e heard; do sleep 0.02; done
         exit 5"
    );
    let mut job = Supervised::new(2, shell(&script, &[]));
    job.run();
    job.state(Observed::Running);
    eventually("both ranks are in it", || {
        control::ask::<control::Reply>(&job.dir.engine_control(), &Request::Stats {}, LIMIT)
            .unwrap()
            .first_collective
    });
    fs::write(job.work("go"), "").unwrap();
    let seen = job.until("the end of rank 1", |seen| !seen.exits.is_empty() || seen.cause.is_some());
    assert_eq!((codes(seen), cause(seen)), (vec![(1, 5, 0)], ("", "")));
    job.stop(Duration::from_millis(50));
    job.ended();
}

#[test]
fn an_engine_that_is_killed_ends_the_job_on_its_peer_too() {
    let mut work = collective();
    if let Work::Collective(spec) = &mut work {
        (spec.bytes, spec.iterations) = (8 << 20, 1_000_000);
    }
    let [mut first, mut second] = pair(work);
    first.state(Observed::Running);
    second.state(Observed::Running);
    let begun = Instant::now();
    assert!(first.saved().engine.unwrap().signal(Signal::KILL));
    let (one, two) = (first.ended(), second.ended());
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_eq!((cause(&one).0, cause(&two).0), ("EngineLost", "PeerLost"), "{one:?} {two:?}");
    let about = two.cause.as_ref().map(|cause| cause.scope.clone());
    assert_eq!(about.as_deref(), Some("node/n0"), "it names whom it misses: {two:?}");
}

#[test]
fn a_stubborn_tree_with_grandchildren_gets_its_grace_and_is_then_killed() {
    // The grandchild leaves group and session, and its parent.
    let script = "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > far; sleep 600' &) ; \
                  sh -c 'trap \"\" TERM; echo $$ > near; sleep 600' & echo $$ > own; wait; sleep 600";
    let mut job = Supervised::new(1, shell(script, &[]));
    job.run();
    let [own, near, far] = ["own", "near", "far"].map(|name| process_in(&job.work(name)));
    let begun = Instant::now();
    job.stop(Duration::from_millis(400));
    job.state(Observed::Stopping);
    let seen = job.ended();
    assert!(begun.elapsed() >= Duration::from_millis(400), "no grace was given");
    assert_eq!(codes(&seen), [(0, 0, 9)]);
    for id in [own, near, far] {
        assert!(!id.is_alive(), "{id:?}");
    }
    assert_eq!(job.log(0, Stream::Note), "stopping: cancelled by ada\n");
}

#[test]
fn a_polite_tree_ends_on_sigterm_even_if_it_was_stopped() {
    let script = "trap 'echo bye; exit 0' TERM; echo $$ > own; kill -STOP $$; while :; do sleep 0.05; done";
    let mut job = Supervised::new(1, shell(script, &[]));
    job.run();
    process_in(&job.work("own"));
    job.state(Observed::Running);
    job.stop(LIMIT);
    assert_eq!(codes(&job.ended()), [(0, 0, 0)]);
    assert_eq!(job.log(0, Stream::Out), "bye\n");
}

#[test]
fn what_a_rank_leaves_behind_is_swept() {
    let script = "setsid sh -c 'echo $$ > far; sleep 600' > /dev/null 2>&1 & while ! test -e found; do sleep 0.01; done";
    let mut job = Supervised::new(1, shell(script, &[]));
    job.run();
    let far = process_in(&job.work("far"));
    std::fs::write(job.work("found"), "").unwrap();
    assert_eq!(codes(&job.ended()), [(0, 0, 0)]);
    assert!(!far.is_alive());
}

#[test]
fn an_engine_that_is_killed_ends_the_job_at_once_with_a_cause() {
    let mut job =
        Supervised::new(2, shell("trap '' TERM; echo $$ > own-$RANK; while :; do sleep 0.05; done", &[]));
    job.run();
    job.state(Observed::Running);
    let ranks = [0, 1].map(|rank| process_in(&job.work(&format!("own-{rank}"))));
    let engine = job.saved().engine.unwrap();
    let begun = Instant::now();
    assert!(engine.signal(Signal::KILL));
    let seen = job.ended();
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_eq!(cause(&seen).0, "EngineLost");
    assert!(cause(&seen).1.contains("signal 9"), "{:?}", cause(&seen));
    assert!(ranks.iter().all(|id| !id.is_alive()));
}

#[test]
fn ranks_and_engine_end_with_a_supervisor_that_is_killed() {
    let mut job = Supervised::new(1, shell("echo $$ > own; exec sleep 600", &[]));
    job.run();
    let rank = process_in(&job.work("own"));
    let engine = eventually("the engine is recorded", || job.saved().engine);
    assert!(job.id.signal(Signal::KILL));
    gone("the rank", rank);
    gone("the engine", engine);
}

#[test]
fn logs_are_bounded_and_say_what_was_dropped() {
    let mut small = supervisor_config();
    small.log_bytes = 100_000;
    let script = "i=0; while test $i -lt 20000; do echo \"line $i of many, with some text to fill it\"; i=$((i+1)); done";
    let mut job = Supervised::with(&assignment(1, shell(script, &[])), &small);
    job.run();
    job.ended();
    let log = job.dir.rank_log(0);
    let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    let both = size(&log) + size(&log.with_file_name("rank-0.log.1"));
    assert!((100_000..=200_000).contains(&both), "{both}");
    assert!(job.log(0, Stream::Out).ends_with("line 19999 of many, with some text to fill it\n"));
    assert!(job.log(0, Stream::Note).contains("bytes of older output dropped"));
}

#[test]
fn a_rank_finds_its_mig_instance_by_name() {
    let gpu_names = [(0, "MIG-one".to_owned()), (1, "MIG-two".to_owned())].into();
    let mut job = Supervised::with(
        &assignment(2, shell("env", &[])),
        &SupervisorConfig { gpu_names, ..supervisor_config() },
    );
    job.run();
    job.ended();
    for (rank, name) in [(0, "MIG-one"), (1, "MIG-two")] {
        let out = job.log(rank, Stream::Out);
        let line = format!("CUDA_VISIBLE_DEVICES={name}");
        assert!(out.lines().any(|one| one == line), "{line} is missing in\n{out}");
    }
}

#[test]
fn a_rank_sees_its_place_and_no_secret_and_its_user_wins() {
    let set = [("NCCL_IB_DISABLE", "0"), ("MINE", "yes")];
    let mut job = Supervised::new(2, shell("env; cat $RAIL_RANK_MAP", &set));
    job.run();
    job.ended();
    let out = job.log(1, Stream::Out);
    let socket = format!("RAIL_ENGINE_SOCKET={}", job.dir.engine_socket().display());
    for line in [
        "RANK=1",
        "WORLD_SIZE=2",
        "LOCAL_RANK=1",
        "LOCAL_WORLD_SIZE=2",
        "NODE_RANK=0",
        "MASTER_ADDR=127.0.0.1",
        "RAIL_JOB=nlp/train",
        "RAIL_TENANT=nlp",
        "RAIL_ATTEMPT=1",
        "CUDA_VISIBLE_DEVICES=1",
        "MINE=yes",
        "NCCL_IB_DISABLE=0",
        &socket,
    ] {
        assert!(out.lines().any(|one| one == line), "{line} is missing in\n{out}");
    }
    assert!(out.contains("\"localRank\": 1"), "{out}");
    let key: String = (0..32_u8).map(|at| format!("{:02x}", at + 0xa0)).collect();
    assert!(!out.contains("very.secret") && !out.contains(&key), "{out}");
    // Nor does any file of the attempt hold the key.
    for entry in fs::read_dir(job.dir.path()).unwrap().flatten() {
        let content = fs::read(entry.path()).unwrap_or_default();
        assert!(!content.windows(64).any(|part| part == key.as_bytes()), "{:?}", entry.path());
        let raw: [u8; 32] = std::array::from_fn(|at| at as u8 + 0xa0);
        assert!(!content.windows(32).any(|part| part == raw), "{:?}", entry.path());
    }
}

#[test]
fn a_program_that_is_not_there_and_a_working_directory_that_is_not_there_are_told() {
    let mut work = shell("", &[]);
    if let Work::Command(command) = &mut work {
        command.argv = vec!["no-such-program".into()];
    }
    let mut job = Supervised::new(1, work.clone());
    job.run();
    // 126 where a folder of PATH may not be searched, as shells do.
    assert!(matches!(codes(&job.ended())[..], [(0, 126 | 127, 0)]));
    assert!(job.log(0, Stream::Err).contains("cannot run 'no-such-program'"));
    if let Work::Command(command) = &mut work {
        command.working_dir = "/no/such/place".into();
    }
    let mut job = Supervised::new(1, work);
    job.run();
    let seen = job.ended();
    assert_eq!(cause(&seen).0, "RankStartFailed");
    assert!(cause(&seen).1.contains("/no/such/place"), "{seen:?}");
}

#[test]
fn an_engine_that_does_not_come_up_is_a_cause_with_its_last_words() {
    let mut absent = supervisor_config();
    absent.engine = "/no/such/engine".into();
    let seen = Supervised::with(&assignment(1, shell("true", &[])), &absent).ended();
    assert_eq!(cause(&seen).0, "EngineFailed");
    assert!(cause(&seen).1.contains("/no/such/engine"), "{seen:?}");
    let mut other = assignment(1, shell("true", &[]));
    if let DesiredState::Prepared { placement, .. } = &mut other.desired {
        // TEST-NET-1 (RFC 5737): no machine has it.
        Arc::make_mut(placement).nodes[0].nics[0].address = Some([192, 0, 2, 1].into());
    }
    let seen = Supervised::with(&other, &supervisor_config()).ended();
    assert_eq!(cause(&seen).0, "EngineFailed");
    assert!(cause(&seen).1.contains("192.0.2.1"), "{seen:?}");
}

#[test]
fn a_stop_before_the_start_ends_the_engine_and_a_later_start_does_nothing() {
    let mut job = Supervised::new(1, shell("echo started", &[]));
    job.state(Observed::Prepared);
    job.stop(LIMIT);
    job.order(Order::Start { peers: Vec::new(), certify: None });
    let seen = job.ended();
    assert_eq!((codes(&seen), cause(&seen)), (vec![], ("", "")));
    assert_eq!(job.log(0, Stream::Out), "");
}

#[test]
fn an_attempt_has_one_supervisor_and_is_never_run_twice() {
    let task = assignment(1, shell("echo once", &[]));
    let mut job = Supervised::with(&task, &supervisor_config());
    let mut second = start(&job.dir, &task, &supervisor_config());
    assert!(!second.wait().unwrap().success());
    job.run();
    job.ended();
    let mut third = start(&job.dir, &task, &supervisor_config());
    assert!(!third.wait().unwrap().success());
    assert_eq!(job.log(0, Stream::Out), "once\n");
    assert!(job.room.path().exists());
}

#[test]
fn without_a_pid_namespace_ranks_are_ended_by_their_supervisor_all_the_same() {
    let mut half = supervisor_config();
    half.isolation.namespaces.pid = false;
    let script = "setsid sh -c 'echo $$ > far; sleep 600' > /dev/null 2>&1 & while ! test -s far; do sleep 0.01; done; ls /tmp";
    let mut job = Supervised::with(&assignment(1, shell(script, &[])), &half);
    job.run();
    let far = process_in(&job.work("far"));
    let seen = job.ended();
    assert_eq!((codes(&seen), cause(&seen)), (vec![(0, 0, 0)], ("", "")));
    assert!(!far.is_alive());
    let tmp = job.log(0, Stream::Out);
    assert!(
        !isolation().namespaces.mount || tmp.lines().count() <= 1,
        "a private /tmp has the way to the job alone: {tmp}"
    );
}

#[test]
fn where_namespaces_cannot_be_made_no_rank_is_started() {
    if rustix::process::geteuid().is_root() || !isolation().namespaces.pid {
        return;
    }
    let mut refused = supervisor_config();
    // Without a user namespace the kernel refuses the others.
    refused.isolation.user = false;
    let mut job = Supervised::with(&assignment(1, shell("echo started", &[])), &refused);
    job.run();
    let seen = job.ended();
    assert_eq!((cause(&seen).0, codes(&seen)), ("RankStartFailed", vec![]));
    assert!(cause(&seen).1.contains("namespaces"), "{seen:?}");
    assert_eq!(job.log(0, Stream::Out), "");
}

/// A measurement: from the order to start until all ranks have been started and have ended, with and without isolation.
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn how_long_isolation_takes() {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..40 {
        let kind = round % 2;
        let mut supervisor_config = supervisor_config();
        if kind == 0 {
            supervisor_config.isolation = node_agent_rank::isolation::Isolation::default();
        }
        let mut job = Supervised::with(&assignment(4, shell("exec true", &[])), &supervisor_config);
        job.state(Observed::Prepared);
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        job.order(Order::Start { peers: Vec::new(), certify: None });
        job.state(Observed::Running);
        times[kind].push(begun.elapsed());
        job.ended();
    }
    let median = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    eprintln!("p50 of the start of 4 ranks: {:?} without isolation, {:?} with it", median[0], median[1]);
}

#[test]
fn a_rank_that_wants_more_of_its_engines_memory_than_it_may_have_is_told_so() {
    let mut small = supervisor_config();
    small.engine_memory = Some(64 << 10);
    let mut work = collective();
    if let Work::Collective(spec) = &mut work {
        spec.bytes = 1 << 20;
    }
    let mut job = Supervised::with(&assignment(1, work), &small);
    job.run();
    let seen = job.ended();
    assert!(codes(&seen).iter().all(|(_, code, _)| *code != 0), "{seen:?}");
    let said = job.log(0, Stream::Err);
    assert!(said.contains("65536 bytes in") && said.contains("--rank-engine-memory"), "{said}");
}
