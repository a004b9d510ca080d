//! Random programs of NCCL's, told to the profiler by each version of its interface: what is drawn is what a model says, and the same for all.

use std::path::Path;

use proto_random::Random;

use super::calls::{ALGORITHMS, Calls, Communicator, FUNCTIONS, PROTOCOLS, What};
use super::proxy::{Call, Operation};

/// One operation of a call: where its messages go, how big they are, and how many steps NCCL 2.23 counts for each.
#[derive(Debug, Clone)]
struct Plan {
    channel: u8,
    peer: i32,
    sends: bool,
    slice: i32,
    sizes: Vec<usize>,
    /// Most of its messages that are under way at a time.
    depth: usize,
}

/// One call in a communicator.
#[derive(Debug, Clone)]
struct Action {
    communicator: usize,
    what: What,
    operations: Vec<Plan>,
    /// The order in which operations go on, and how often each is asked again.
    seed: u64,
}

fn plan(random: &mut Random) -> Plan {
    let messages = 1 + random.index(5);
    Plan {
        channel: random.below(3) as u8,
        peer: random.below(4) as i32,
        sends: random.below(2) == 0,
        slice: [1, 2, 4][random.index(3)],
        sizes: (0..messages).map(|_| 1 + random.index(1 << 20)).collect(),
        depth: 1 + random.index(2),
    }
}

fn program(seed: u64) -> Vec<Action> {
    let mut random = Random::new(seed);
    let turn = |sequence| {
        let function = random.index(FUNCTIONS.len());
        let count = random.index(1000);
        let what = if function < 5 {
            let (algorithm, protocol) = (random.index(ALGORITHMS.len()), random.index(PROTOCOLS.len()));
            What::Coll { sequence, function, algorithm, protocol, count }
        } else {
            What::P2p { function, peer: random.below(4) as i32, count }
        };
        let operations = (0..random.index(4)).map(|_| plan(&mut random)).collect();
        Action { communicator: random.index(2), what, operations, seed: random.word() }
    };
    (0..6).map(turn).collect()
}

/// How far an operation is: messages that were posted, have moved, were handed over and are over.
struct Under<'a> {
    plan: Plan,
    operation: Operation<'a>,
    done: [usize; 4],
}

/// Spans as lines, in the order in which they end.
type Lines = Vec<String>;

fn line(communicator: &Communicator, text: &str, rest: &str) -> String {
    format!("{:x} {} {text} {rest}", communicator.hash, communicator.rank)
}

impl Under<'_> {
    fn is_over(&self) -> bool {
        self.done[3] == self.plan.sizes.len()
    }

    /// One thing that happens to it, and what the model has to say of the message that is over by that.
    fn go_on(&mut self, random: &mut Random) -> Option<usize> {
        let (posted, moved, handed, over) = (self.done[0], self.done[1], self.done[2], self.done[3]);
        let can_post = posted < self.plan.sizes.len() && posted - over < self.plan.depth;
        let mut choices = Vec::new();
        choices.extend(can_post.then_some(0));
        choices.extend((moved < posted).then_some(1));
        choices.extend((handed < moved).then_some(2));
        choices.extend((over < handed).then_some(3));
        let choice = choices[random.index(choices.len())];
        let again = 1 + random.below(3);
        let operation = &mut self.operation;
        match choice {
            0 => {
                // A send's steps begin once; a receive is tried until the network takes it.
                (0..if self.plan.sends { 1 } else { again }).for_each(|_| operation.start(posted as i32));
                operation.posted(posted as i32);
            }
            1 if self.plan.sends => {
                (0..again).for_each(|_| operation.ready(moved as i32));
                operation.sent(moved as i32, self.plan.sizes[moved]);
            }
            1 => operation.received(moved as i32, self.plan.sizes[moved]),
            2 if !self.plan.sends => operation.handed(handed as i32),
            2 => {}
            _ => operation.done(over as i32),
        }
        self.done[choice] += 1;
        (choice == 3).then_some(over)
    }
}

/// Plays a program, and says what is to be drawn: of each message and of each operation, without the times.
fn play(calls: &Calls, communicators: &[Communicator], program: &[Action]) -> Lines {
    let mut wanted = Lines::new();
    for turn in program {
        let communicator = &communicators[turn.communicator];
        let mut random = Random::new(turn.seed);
        let call = Call::begin(calls, communicator, turn.what);
        assert!(!call.event.is_null(), "{:?}", turn.what);
        let pid = std::process::id() as i32;
        let under = |plan: &Plan| {
            let what = What::Op { pid, channel: plan.channel, peer: plan.peer, sends: plan.sends };
            let operation = Operation::begin(calls, communicator, &call, what, plan.slice);
            assert!(!operation.event.is_null());
            Under { plan: plan.clone(), operation, done: [0; 4] }
        };
        let mut open: Vec<Under> = turn.operations.iter().map(under).collect();
        // NCCL ends a call when the GPU has it, and the proxy goes on.
        call.end(calls);
        wanted.push(line(communicator, &named(turn.what), ""));
        while !open.is_empty() {
            let at = random.index(open.len());
            if let Some(message) = open[at].go_on(&mut random) {
                wanted.extend(of_message(communicator, &open[at].plan, message));
            }
            if open[at].is_over() {
                let over = open.swap_remove(at);
                over.operation.end();
                let what = if over.plan.sends { "sends to" } else { "receives from" };
                wanted.push(line(communicator, &format!("{what} rank {}", over.plan.peer), &tid(&over.plan)));
            }
        }
    }
    wanted.sort();
    wanted
}

fn tid(plan: &Plan) -> String {
    format!("channel {}", plan.channel)
}

fn named(what: What) -> String {
    let text = |text: &std::ffi::CStr| text.to_str().unwrap().to_owned();
    match what {
        What::Coll { sequence, function, algorithm, protocol, .. } => format!(
            "{} #{sequence} ({}, {})",
            text(FUNCTIONS[function]),
            text(ALGORITHMS[algorithm]),
            text(PROTOCOLS[protocol])
        ),
        What::P2p { function, peer, .. } => format!("{}, rank {peer}", text(FUNCTIONS[function])),
        other => panic!("{other:?} is no call"),
    }
}

/// What one message waits for: one span for each, however often NCCL says it.
fn of_message(communicator: &Communicator, plan: &Plan, message: usize) -> Lines {
    let peer = plan.peer;
    let texts = if plan.sends {
        let (room, sent) = ("it has no room yet", "to have what was sent");
        [
            "waits for the GPU".to_owned(),
            format!("waits for rank {peer}: {room}"),
            format!("waits for rank {peer}: {sent}"),
        ]
    } else {
        let gpu = "waits for the GPU".to_owned();
        [format!("waits for rank {peer}: to send"), gpu.clone(), gpu]
    };
    let rest = format!("channel {} peer {peer} bytes {}", plan.channel, plan.sizes[message]);
    texts.map(|text| line(communicator, &text, &rest)).to_vec()
}

/// What follows `before` in a line, to the next mark.
fn after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let rest = &line[line.find(before)? + before.len()..];
    rest.split([',', '"', '}']).next()
}

/// What is drawn, without the times: as lines of the model.
fn drawn(picture: &str) -> Lines {
    let of = |text: &str| {
        let name = text.split("\"name\":\"").nth(1)?.split('"').next()?;
        let hash = u64::from_str_radix(after(text, "\"communicator\":\"")?, 16).ok()?;
        let rank = after(text, "\"rank\":").filter(|rank| !rank.is_empty())?;
        let tid: i32 = after(text, "\"tid\":")?.parse().ok()?;
        let mut rest = if tid == 0 { String::new() } else { format!("channel {}", tid - 1) };
        if let (Some(peer), Some(bytes)) = (after(text, "\"peer\":"), after(text, "\"bytes\":")) {
            rest += &format!(" peer {peer} bytes {bytes}");
        }
        Some(format!("{hash:x} {rank} {name} {rest}"))
    };
    let mut lines: Lines = picture.lines().filter_map(of).collect();
    lines.sort();
    lines
}

/// Plays the programs of these seeds in all versions, in a process that the profiler takes for a rank of a job without rails.
pub fn play_all(path: &Path, folder: &Path, seeds: std::ops::Range<u64>) {
    let mut files = 0;
    for seed in seeds {
        println!("seed {seed}");
        let program = program(seed);
        for version in 1..=6 {
            let calls = Calls::load(path, version);
            let communicators = [calls.begin(100 + seed, 3, 9), calls.begin(7, 1, 2)];
            assert!(communicators.iter().all(|each| each.mask == 30 && !each.context.is_null()));
            let wanted = play(&calls, &communicators, &program);
            communicators.iter().for_each(|each| calls.end(each));
            let again = if files == 0 { String::new() } else { format!(".{files}") };
            let picture =
                std::fs::read_to_string(folder.join(format!("nccl-rank0{again}.trace.json"))).unwrap();
            files += 1;
            assert!(picture.contains("\"lost\":\"0\""), "v{version}");
            assert_eq!(drawn(&picture), wanted, "v{version}, seed {seed}: {program:?}\n{picture}");
        }
    }
}
