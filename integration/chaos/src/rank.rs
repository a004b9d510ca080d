//! What jobs of the run do: a rank says what it was given, holds it for a while, and says when it ends.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::history::{Point, Rank};

/// How often a rank says that it is still there.
const BEAT: Duration = Duration::from_millis(250);

/// `rank`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where ranks write and keep their locks.
    #[arg(long)]
    dir: PathBuf,
    /// How long it holds what it was given, in milliseconds.
    #[arg(long)]
    ms: u64,
}

/// The file that ranks write, in their folder.
pub fn log(dir: &Path) -> PathBuf {
    dir.join("ranks.jsonl")
}

/// Runs one rank until its time is over.
pub fn run(args: &Args) -> ExitCode {
    match hold(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rank: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hold(args: &Args) -> Result<(), String> {
    let text = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
    let number = |name: &str| text(name)?.parse::<u32>().map_err(|_| format!("{name} is no number"));
    let mut me = Rank {
        uid: text("RAIL_JOB_UID")?,
        attempt: number("RAIL_ATTEMPT")?,
        rank: number("RANK")?,
        pid: std::process::id(),
        ns: 0,
        things: things(&text("RAIL_NODE")?, number("RANK")?),
        point: Point::Start,
    };
    let open = File::options().create(true).append(true).open(log(&args.dir));
    let mut file = open.map_err(|error| format!("no log: {error}"))?;
    let mut say = |point: Point| -> Result<(), String> {
        me.ns = crate::clock::monotonic_ns();
        me.point = point;
        let line = serde_json::to_string(&me).map_err(|error| error.to_string())? + "\n";
        file.write_all(line.as_bytes()).map_err(|error| error.to_string())
    };
    // The kernel lets go of them when this process ends, however it does.
    let Ok(_locks) = locks(&args.dir, &things(&text("RAIL_NODE")?, number("RANK")?)) else {
        return say(Point::Clash);
    };
    let end = Instant::now() + Duration::from_millis(args.ms);
    say(Point::Start)?;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left.min(BEAT));
        say(Point::Beat)?;
    }
    say(Point::End)
}

/// Its GPUs, and its NIC where it has one.
fn things(node: &str, rank: u32) -> Vec<String> {
    let gpus = env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let mut all: Vec<_> =
        gpus.split(',').filter(|gpu| !gpu.is_empty()).map(|gpu| format!("{node}/gpu/{gpu}")).collect();
    let map = env::var("RAIL_RANK_MAP").ok().and_then(|path| fs::read_to_string(path).ok());
    let map: Value = map.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let mine = map.as_array().into_iter().flatten().find(|place| place["rank"] == rank);
    let nic = mine.and_then(|place| place["nic"].as_str()).filter(|nic| !nic.is_empty());
    all.extend(nic.map(|nic| format!("{node}/nic/{nic}")));
    all
}

fn locks(dir: &Path, things: &[String]) -> io::Result<Vec<File>> {
    let lock = |thing: &String| {
        let file = File::create(dir.join("locks").join(thing.replace('/', ".")))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    };
    things.iter().map(lock).collect()
}
