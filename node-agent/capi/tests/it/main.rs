//! librail.so as foreign programs use it: a C program and a Python script, with a real engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so and end"
)]

mod python;
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use world::{World, here, library, said};

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

#[test]
fn a_c_program_does_every_operation() {
    let world = World::new(&[0, 0], 0);
    let Some(program) = compiled(world.room.path()) else { return };
    for (rank, output) in world.all(|rank| world.rank(rank, &program)).iter().enumerate() {
        assert!(output.status.success(), "rank {rank}: {}", said(output));
        assert!(said(output).contains("all calls right"), "rank {rank}: {}", said(output));
    }
}

/// A program that ends without rail_finalize leaves cleanly; one that crashes is a lost rank.
#[test]
fn exit_is_a_clean_leave_and_a_crash_is_not() {
    let world = World::new(&[0, 0], 0);
    let Some(program) = compiled(world.room.path()) else { return };
    let with = |world: &World, rank: usize, what: &str| {
        let mut command = world.rank(rank, &program);
        command.arg(what);
        command
    };
    let outputs = world.all(|rank| with(&world, rank, "exit"));
    assert!(outputs.iter().all(|output| output.status.code() == Some(0)), "{}", said(&outputs[0]));
    let world = World::new(&[0, 0], 0);
    let outputs = world.all(|rank| with(&world, rank, if rank == 0 { "wait" } else { "crash" }));
    assert!(said(&outputs[0]).contains("status -6 a rank of the job ended"), "{}", said(&outputs[0]));
    assert!(said(&outputs[0]).contains("rank 1"), "{}", said(&outputs[0]));
}

#[test]
fn a_call_without_waiting_has_its_limit_too() {
    let world = World::new(&[0, 0], 0);
    let Some(program) = compiled(world.room.path()) else { return };
    let outputs = world.all(|rank| {
        let mut command = world.rank(rank, &program);
        command.arg("late");
        command
    });
    assert!(outputs.iter().all(|output| output.status.success()), "{}", said(&outputs[1]));
    assert!(said(&outputs[0]).contains("late: recv failed"), "{}", said(&outputs[0]));
}

#[test]
fn ranks_notify_each_other() {
    let world = World::new(&[0, 1], 1);
    let Some(program) = compiled(world.room.path()) else { return };
    let outputs = world.all(|rank| {
        let mut command = world.rank(rank, &program);
        command.arg("notify");
        command
    });
    for (rank, output) in outputs.iter().enumerate() {
        assert!(said(output).contains("all notified"), "rank {rank}: {}", said(output));
    }
}

#[test]
fn the_python_job_runs() {
    let script = here("../../deploy/jobs/barrier.py");
    let python = Path::new("python3");
    if Command::new(python).arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let world = World::new(&[0, 0], 0);
    let outputs = world.all(|rank| {
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
    let output: Output = command.output().unwrap();
    assert!(said(&output).contains("RAIL_ENGINE_SOCKET is not set"), "{}", said(&output));
    command.env("RAIL_ENGINE_SOCKET", "/nonexistent/socket").env("RANK", "0");
    let output = command.output().unwrap();
    assert!(said(&output).contains("/nonexistent/socket"), "{}", said(&output));
}

/// The header is plain C99 and C++, and names exactly the functions that the library has.
#[test]
fn the_header_is_for_any_compiler_and_complete() {
    for (compiler, language) in [("gcc", &["-std=c99", "-x", "c"][..]), ("g++", &["-std=c++11", "-x", "c++"])]
    {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]).args(language);
        match command.arg(here("rail.h")).output() {
            Err(_) => println!("skipped: no {compiler}"),
            Ok(output) => assert!(output.status.success(), "{compiler}: {}", said(&output)),
        }
    }
    let header = std::fs::read_to_string(here("rail.h")).unwrap();
    let code: String = header.split("*/").map(|part| part.split("/*").next().unwrap()).collect();
    let declared: BTreeSet<&str> = code
        .split('(')
        .filter_map(|before| before.split(|c: char| !c.is_alphanumeric() && c != '_').next_back())
        .filter(|name| name.starts_with("rail_"))
        .collect();
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() else {
        println!("skipped: no nm");
        return;
    };
    let symbols = String::from_utf8(output.stdout).unwrap();
    let exported = symbols.lines().filter_map(|line| line.split_whitespace().next_back());
    let exported = exported.filter(|name| name.starts_with("rail_") && *name != "rail_debug_panic");
    assert_eq!(declared, exported.collect());
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
