//! librail.so as foreign programs use it: a C program and a Python script, with a real engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so and end"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use node_agent_engine::{Config, Engine, EngineError, JobKey, Limits, Stopper};

/// An engine for two ranks on one node, on a thread.
struct World {
    room: tempfile::TempDir,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), EngineError>>>,
}

impl World {
    fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let config = Config {
            job: "acme/door".into(),
            uid: "uid-1".into(),
            attempt: 1,
            epoch: 1,
            node: 0,
            nodes: vec!["n0".into()],
            ranks: vec![0, 0],
            rails: Vec::new(),
            socket: room.path().join("engine.sock"),
            control: room.path().join("engine.control"),
            connect_timeout_ms: 20_000,
            op_timeout_ms: 30_000,
            checksum: false,
            chunk_bytes: 64 << 10,
            rank_uid: None,
            limits: Limits::default(),
        };
        let engine = Engine::bind(config, JobKey::new([7; 32])).unwrap();
        let stopper = engine.stopper();
        Self { room, stopper, thread: Some(std::thread::spawn(move || engine.run())) }
    }

    fn rank(&self, rank: u32, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("RAIL_ENGINE_SOCKET", self.room.path().join("engine.sock"));
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2").env("RAIL_JOB_UID", "uid-1");
        command.env("LD_LIBRARY_PATH", library().parent().unwrap()).env("RAIL_LIBRARY", library());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs both ranks to their ends.
    fn both(&self, command: impl Fn(u32) -> Command) -> Vec<Output> {
        let children: Vec<Child> = (0..2).map(|rank| command(rank).spawn().unwrap()).collect();
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stopper.stop("the test is over");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The library that cargo built for this test.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let places = program.ancestors().skip(1).take(2).map(|folder| folder.join("librail.so"));
    let newest = places
        .filter(|place| place.exists())
        .max_by_key(|place| place.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds librail.so beside this test")
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The compiled C program, or `None` where there is no compiler.
fn compiled(room: &Path) -> Option<PathBuf> {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: no gcc");
        return None;
    }
    let program = room.join("ranks");
    let library = library();
    let output = Command::new("gcc")
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here(""))
        .arg(here("tests/it/ranks.c"))
        .arg(&library)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_c_program_does_every_operation() {
    let world = World::new();
    let Some(program) = compiled(world.room.path()) else { return };
    for (rank, output) in world.both(|rank| world.rank(rank, &program)).iter().enumerate() {
        assert!(output.status.success(), "rank {rank}: {}", said(output));
        assert!(said(output).contains("all calls right"), "rank {rank}: {}", said(output));
    }
}

/// A program that ends without rail_finalize leaves cleanly; one that crashes is a lost rank.
#[test]
fn exit_is_a_clean_leave_and_a_crash_is_not() {
    let world = World::new();
    let Some(program) = compiled(world.room.path()) else { return };
    let with = |world: &World, rank: u32, what: &str| {
        let mut command = world.rank(rank, &program);
        command.arg(what);
        command
    };
    let outputs = world.both(|rank| with(&world, rank, "exit"));
    assert!(outputs.iter().all(|output| output.status.code() == Some(0)), "{}", said(&outputs[0]));
    let world = World::new();
    let outputs = world.both(|rank| with(&world, rank, if rank == 0 { "wait" } else { "crash" }));
    assert!(said(&outputs[0]).contains("status -6 a rank of the job ended"), "{}", said(&outputs[0]));
    assert!(said(&outputs[0]).contains("rank 1"), "{}", said(&outputs[0]));
}

#[test]
fn a_call_without_waiting_has_its_limit_too() {
    let world = World::new();
    let Some(program) = compiled(world.room.path()) else { return };
    let outputs = world.both(|rank| {
        let mut command = world.rank(rank, &program);
        command.arg("late");
        command
    });
    assert!(outputs.iter().all(|output| output.status.success()), "{}", said(&outputs[1]));
    assert!(said(&outputs[0]).contains("late: recv failed"), "{}", said(&outputs[0]));
}

#[test]
fn the_python_job_runs() {
    let script = here("../../deploy/jobs/barrier.py");
    let python = Path::new("python3");
    if Command::new(python).arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let world = World::new();
    let outputs = world.both(|rank| {
        let mut command = world.rank(rank, python);
        command.arg(&script).env("LOCAL_RANK", rank.to_string());
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        let text = said(output);
        assert!(output.status.success(), "rank {rank}: {text}");
        assert!(text.contains(&format!("RANK={rank}\n")) && text.contains("all-reduce verified"), "{text}");
    }
}

#[test]
fn without_an_engine_the_cause_is_told() {
    let room = tempfile::tempdir().unwrap();
    let Some(program) = compiled(room.path()) else { return };
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library().parent().unwrap());
    command.env_remove("RAIL_ENGINE_SOCKET").env_remove("RANK");
    let output = command.output().unwrap();
    assert!(said(&output).contains("RAIL_ENGINE_SOCKET is not set"), "{}", said(&output));
    command.env("RAIL_ENGINE_SOCKET", "/nonexistent/socket").env("RANK", "0");
    let output = command.output().unwrap();
    assert!(said(&output).contains("/nonexistent/socket"), "{}", said(&output));
}

/// Every name and number of the header is that of the library.
#[test]
fn the_header_tells_the_truth() {
    use node_agent_client::{Dtype, FailureCode, ReduceOp};
    let header = std::fs::read_to_string(here("rail.h")).unwrap();
    let value = |name: &str| -> i32 {
        let at = header.find(&format!("{name} = ")).unwrap_or_else(|| panic!("{name} is not in rail.h"));
        let rest = &header[at + name.len() + 3..];
        let digits: String = rest.chars().take_while(|c| *c == '-' || c.is_ascii_digit()).collect();
        digits.parse().unwrap()
    };
    for dtype in Dtype::ALL {
        assert_eq!(value(&format!("RAIL_{}", dtype.name().to_uppercase())), i32::from(dtype.code()));
    }
    for op in ReduceOp::ALL {
        assert_eq!(value(&format!("RAIL_{}", op.name().to_uppercase())), i32::from(op.code()));
    }
    for code in FailureCode::ALL {
        let name = match format!("{code:?}").as_str() {
            "InvalidArgument" => "INVALID".to_owned(),
            other => {
                let mut name = String::new();
                for (at, letter) in other.char_indices() {
                    if at > 0 && letter.is_uppercase() {
                        name.push('_');
                    }
                    name.extend(letter.to_uppercase());
                }
                name
            }
        };
        assert_eq!(value(&format!("RAIL_E_{name}")), -i32::from(code.number()));
    }
    assert!(header.contains(&format!("RAIL_ABI_VERSION {}", rail::rail_abi_version())));
}
