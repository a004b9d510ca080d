//! The Python package: from the source folder, installed from its wheel, and as PyTorch's backend.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::world::{World, here, library, said};

/// Whether this machine has the program; if not, a line says why a test is skipped.
fn has(program: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let has = command.status().is_ok_and(|status| status.success());
    if !has {
        println!("skipped: {} {} does not run here", program.display(), arguments.join(" "));
    }
    has
}

fn python3() -> Option<PathBuf> {
    let python = PathBuf::from("python3");
    has(&python, &["--version"]).then_some(python)
}

/// Runs one of our scripts as every rank.
fn run(
    world: &World,
    python: &Path,
    script: &str,
    what: &[&str],
    change: impl Fn(&mut Command),
) -> Vec<Output> {
    let script = here("python").join(script);
    world.all(|rank| {
        let mut command = world.rank(rank, python);
        // Python writes no caches next to its sources here.
        command.args(["-B", "-W", "ignore"]).arg(&script).args(what).env("OMP_NUM_THREADS", "1");
        command.env("PYTHONPATH", here("python"));
        change(&mut command);
        command
    })
}

fn expect_all(outputs: &[Output], text: &str) {
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success() && said(output).contains(text), "rank {rank}: {}", said(output));
    }
}

#[test]
fn python_does_every_operation() {
    let Some(python) = python3() else { return };
    for (ranks, rails) in [(&[0, 0][..], 0), (&[0, 1, 1], 2)] {
        let world = World::new(ranks, rails);
        expect_all(&run(&world, &python, "tests/ranks.py", &[], |_| {}), "all calls right");
    }
}

#[test]
fn python_is_told_of_a_lost_rank() {
    let Some(python) = python3() else { return };
    let outputs = run(&World::new(&[0, 0], 0), &python, "tests/ranks.py", &["lost"], |_| {});
    expect_all(&outputs[..1], "all calls right");
    assert_eq!(outputs[1].status.code(), Some(3), "{}", said(&outputs[1]));
}

/// The wheel of this build.
fn wheel(python: &Path, room: &Path) -> PathBuf {
    let mut build = Command::new(python);
    build.arg("-B").arg(here("python/backend/railyard_build.py"));
    let output = build.arg("--library").arg(library()).arg("--out").arg(room).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    PathBuf::from(said(&output).trim())
}

fn pip(python: &Path, arguments: &[&str], wheel: &Path) {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]);
    let output = pip.args(arguments).arg(wheel).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// As a user gets it: a wheel, installed in an environment of its own, with the library in it.
#[test]
fn the_wheel_brings_all_it_needs() {
    let Some(python) = python3() else { return };
    let room = tempfile::tempdir().unwrap();
    let venv = room.path().join("venv");
    if !has(&python, &["-m", "venv", &venv.to_string_lossy()]) {
        return;
    }
    let python = venv.join("bin/python");
    let wheel = wheel(&python, room.path());
    pip(&python, &[], &wheel);
    let world = World::new(&[0, 0], 0);
    let outputs = run(&world, &python, "tests/ranks.py", &[], |command| {
        command.env_remove("PYTHONPATH").env_remove("RAIL_LIBRARY").env_remove("LD_LIBRARY_PATH");
    });
    expect_all(&outputs, "all calls right");
    let again = self::wheel(&python, &room.path().join("again"));
    assert_eq!(std::fs::read(&wheel).unwrap(), std::fs::read(again).unwrap(), "the wheel is reproducible");
}

/// The Python with PyTorch that `cargo xtask test` names, or that it left in the target folder.
fn torch() -> Option<PathBuf> {
    let named = std::env::var_os("RAIL_TEST_TORCH").map(PathBuf::from);
    let found = || {
        let tools = library()
            .ancestors()
            .map(|folder| folder.join("tools/torch-venv/bin/python"))
            .find(|p| p.exists());
        if tools.is_none() {
            println!(
                "skipped: no PyTorch: RAIL_TEST_TORCH is not set; cargo xtask test installs it and sets it"
            );
        }
        tools
    };
    named.or_else(found)
}

/// Runs the PyTorch test `what` with the installed wheel, whose backend PyTorch has to find by itself.
fn with_torch(ranks: &[usize], what: &str) -> Option<Vec<Output>> {
    started(ranks, what, |_, _| {})
}

/// The same, where `launch` puts what starts the script before it.
fn started(ranks: &[usize], what: &str, launch: impl Fn(usize, &mut Command)) -> Option<Vec<Output>> {
    scripted(ranks, "tests/torch_ranks.py", &[what], launch)
}

/// Runs a script as every rank, with the installed wheel.
fn scripted(
    ranks: &[usize],
    script: &str,
    arguments: &[&str],
    launch: impl Fn(usize, &mut Command),
) -> Option<Vec<Output>> {
    let python = torch()?;
    let room = tempfile::tempdir().unwrap();
    let (site, wheel) = (room.path().join("site"), wheel(&python, room.path()));
    pip(&python, &["--target", &site.to_string_lossy()], &wheel);
    let world = World::new(ranks, 2);
    let outputs = world.all(|rank| {
        let mut command = world.rank(rank, &python);
        command.args(["-B", "-W", "ignore"]);
        launch(rank, &mut command);
        command.arg(here("python").join(script)).args(arguments).env("OMP_NUM_THREADS", "1");
        command.env("PYTHONPATH", &site).env_remove("RAIL_LIBRARY").env_remove("LD_LIBRARY_PATH");
        command
    });
    // What this version of PyTorch has not.
    said(&outputs[0])
        .lines()
        .filter(|line| line.starts_with("skipped: "))
        .for_each(|line| println!("{line}"));
    Some(outputs)
}

#[test]
fn pytorch_receives_from_any_rank_as_a_model_says() {
    let Some(python) = torch() else { return };
    let mut model = Command::new(python);
    model.args(["-B", "-W", "ignore"]).arg(here("python/tests/inbox.py")).env("PYTHONPATH", here("python"));
    let output = model.output().unwrap();
    println!("{}", said(&output));
    assert!(output.status.success() && said(&output).contains("inbox right"), "{}", said(&output));
}

#[test]
fn pytorch_does_every_operation_in_groups_of_all_and_of_some() {
    let Some(outputs) = with_torch(&[0, 1, 1], "operations") else { return };
    expect_all(&outputs, "operations right");
}

#[test]
fn pytorch_groups_of_all_ranks_are_groups_of_their_own() {
    let Some(outputs) = with_torch(&[0, 0, 0], "apart") else { return };
    expect_all(&outputs, "apart right");
}

#[test]
fn pytorch_ends_at_ctrl_c_in_a_collective_of_some_ranks() {
    let Some(outputs) = with_torch(&[0, 0, 1], "interrupted") else { return };
    expect_all(&outputs, "interrupted right");
}

#[test]
fn pytorch_trains_data_parallel() {
    let Some(outputs) = with_torch(&[0, 1], "ddp") else { return };
    expect_all(&outputs, "ddp right");
}

#[test]
fn pytorch_trains_fully_sharded() {
    let Some(outputs) = with_torch(&[0, 1], "fsdp") else { return };
    expect_all(&outputs, "fsdp right");
}

#[test]
fn pytorch_libraries_work_on_process_groups() {
    let Some(outputs) = with_torch(&[0, 0, 1, 1], "libraries") else { return };
    expect_all(&outputs, "libraries right");
}

#[test]
fn pytorch_is_told_of_a_lost_rank() {
    let Some(outputs) = with_torch(&[0, 1], "lost") else { return };
    expect_all(&outputs[..1], "lost right");
    assert_eq!(outputs[1].status.code(), Some(3), "{}", said(&outputs[1]));
}

#[test]
fn pytorch_says_that_nobody_came_and_ctrl_c_ends_a_wait() {
    let Some(outputs) = with_torch(&[0, 1], "late") else { return };
    expect_all(&outputs, "late right");
}

/// An agent of torchrun for each rank of the job, which keeps the job's numbers.
#[test]
fn pytorch_runs_under_torchrun() {
    let outputs = started(&[0, 1], "torchrun", |rank, command| {
        let node = rank.to_string();
        command.args(["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]);
        let port = command.get_envs().find(|(name, _)| *name == "MASTER_PORT").and_then(|(_, port)| port);
        let port = port.unwrap().to_owned();
        command.args(["--node-rank", &node, "--master-addr", "127.0.0.1", "--master-port"]).arg(port);
    });
    let Some(outputs) = outputs else { return };
    expect_all(&outputs, "torchrun right");
}

/// Examples of libraries over PyTorch: of those that are installed where PyTorch is.
#[test]
fn pytorch_examples_run() {
    let Some(python) = torch() else { return };
    let room = tempfile::tempdir().unwrap();
    let checkpoint = room.path().to_string_lossy().into_owned();
    let arguments = ["--checkpoint", &checkpoint];
    let examples = [
        ("torch.distributed.fsdp", "fsdp2.py", &arguments[..], "the same after a checkpoint: True"),
        ("accelerate", "accelerate_train.py", &[], "ranks on rail"),
        ("lightning", "lightning_train.py", &[], "ranks on rail"),
    ];
    for (package, example, arguments, text) in examples {
        if !has(&python, &["-c", &format!("import {package}")]) {
            continue;
        }
        let Some(outputs) = scripted(&[0, 1], &format!("examples/{example}"), arguments, |_, _| {}) else {
            return;
        };
        assert!(outputs.iter().all(|output| output.status.success()), "{example}: {}", said(&outputs[1]));
        assert!(said(&outputs[0]).contains(text), "{example}: {}", said(&outputs[0]));
    }
}
