//! The programs of the newest release before this one, built from its commit beside what is built here: both have to work together while a cluster is
//! upgraded. `cargo xtask bench faces --row P2` and `cargo xtask lab upgrade` run them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::{
    process::{self, Result},
    tools,
};

/// What users run of it.
const PROGRAMS: [&str; 5] = ["rail-controller", "rail-node-agent", "rail-engine", "rail-rank", "railctl"];
/// So many digits of a commit name its folder.
const DIGITS: usize = 12;

/// A version that was released.
#[derive(Debug, PartialEq, Eq)]
struct Released {
    name: String,
    commit: String,
}

/// The newest of a list as `proto/released/commits` is.
fn newest(list: &str) -> Option<Released> {
    let line = list.lines().rfind(|line| !line.starts_with('#') && !line.trim().is_empty())?;
    let mut words = line.split(' ');
    let (name, _rows, commit) = (words.next()?, words.next()?, words.next()?);
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| Released { name: name.to_owned(), commit: commit.to_owned() })
}

/// Builds its programs with a profile, `dev` or `release`, and says where they are. Its third-party crates are those of this build, as far as both take
/// the same: only its own are built, and kept for the next time.
///
/// # Errors
/// Its source cannot be had from git, or the build fails.
pub fn build(profile: &str) -> Result<PathBuf> {
    let list = fs::read_to_string(process::root().join("proto/released/commits"))?;
    let released = newest(&list).ok_or("proto/released/commits names no commit")?;
    let (target, short) = (process::target_dir()?, &released.commit[..DIGITS]);
    let folder = target.join("released").join(short);
    let source = folder.join("source");
    if !folder.join("unpacked").exists() {
        unpack(&released.commit, &source)?;
        fs::write(folder.join("unpacked"), "")?;
    }
    // Cargo tells crates of ours apart from those of the same names here by the wrapper's path, and by nothing else.
    let wrapper = folder.join("rustc");
    fs::write(&wrapper, "#!/bin/sh\nexec \"$@\"\n")?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    eprintln!("building the release of {} ({short})", released.name);
    let mut cargo = process::cargo(["build", "--quiet", "--profile", profile, "--manifest-path"]);
    cargo.arg(source.join("Cargo.toml"));
    match profile {
        // The features of what `cargo xtask test` builds, and of what benches do.
        "dev" => _ = cargo.arg("--workspace"),
        _ => _ = cargo.args(process::with_defaults(&source, &["integration-bench"])?),
    }
    cargo.args(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
    cargo.env("CARGO_BUILD_BUILD_DIR", &target).env("CARGO_TARGET_DIR", &folder);
    cargo.env("RUSTC_WORKSPACE_WRAPPER", &wrapper);
    process::run(cargo)?;
    Ok(folder.join(process::profile_folder(profile)))
}

/// The tree of a commit, as files.
fn unpack(commit: &str, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    let archive = to.with_extension("tar");
    let mut git = Command::new("git");
    git.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(commit).current_dir(process::root());
    process::run_quiet(&mut git)
        .map_err(|error| format!("the released commit cannot be had from git: {error}"))?;
    let mut tar = Command::new("tar");
    process::run_quiet(tar.arg("xf").arg(&archive).arg("-C").arg(to))?;
    Ok(fs::remove_file(archive)?)
}

/// Builds it for a bench, finds etcd, and says where both are.
///
/// # Errors
/// The build fails, or there is no etcd.
pub fn lend(bench: &mut Command, profile: &str) -> Result<()> {
    let folder = build(profile).map_err(|error| format!("the release before: {error}"))?;
    let etcd = tools::etcd().map_err(|error| format!("etcd: {error}"))?;
    bench.env("RAIL_BENCH_RELEASED", folder).env("RAIL_TEST_ETCD", etcd);
    Ok(())
}

/// `cargo xtask lab upgrade`: row P2, smaller, with programs that are not optimised.
///
/// # Errors
/// What is here or the release before cannot be built, there is no etcd, or a line of the row does not hold.
pub fn lab() -> Result<ExitCode> {
    let bin = process::build_with("dev", &["integration-bench"])?;
    let mut bench = Command::new(bin.join("rail-bench"));
    bench.args(["faces", "--row", "P2", "--quick", "--json"]);
    bench.env("RAIL_BIN_DIR", &bin).current_dir(process::root()).stdout(Stdio::piped());
    lend(&mut bench, "dev")?;
    let mut child = bench.spawn().map_err(|error| format!("cannot start {bench:?}: {error}"))?;
    let (mut lines, mut unread) = (Vec::new(), None);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            match line {
                Ok(line) => {
                    println!("{line}");
                    lines.push(line);
                }
                Err(error) => {
                    unread = Some(error);
                    break;
                }
            }
        }
    }
    let status = child.wait()?;
    if let Some(error) = unread {
        return Err(format!("what {bench:?} prints cannot be read: {error}").into());
    }
    if !status.success() {
        return Err(format!("{bench:?} ended with {status}").into());
    }
    all_hold(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether there are lines, and each says that its goal holds: none falls short, is void, or is no line of a bench.
fn all_hold(lines: &[String]) -> std::result::Result<(), String> {
    if lines.is_empty() {
        return Err("nothing was measured".to_owned());
    }
    let bad: Vec<&str> = lines.iter().filter(|line| !holds(line)).map(String::as_str).collect();
    if bad.is_empty() { Ok(()) } else { Err(format!("does not hold:\n{}", bad.join("\n"))) }
}

fn holds(line: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["holds"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_newest() {
        let commit = "6752913c".repeat(5);
        let list = format!("# Names.\n0.1.0 2 {}\n0.2.0 3 {commit}\n\n", "0".repeat(40));
        assert_eq!(newest(&list), Some(Released { name: "0.2.0".into(), commit }));
        for bad in ["", "# nothing\n", "0.1.0 2 6752913c\n", "0.1.0 2\n"] {
            assert_eq!(newest(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_list_in_the_tree_names_one() {
        let list = fs::read_to_string(process::root().join("proto/released/commits")).unwrap();
        assert!(newest(&list).is_some());
    }

    #[test]
    fn what_falls_short_is_void_or_absent_fails() {
        let line = |holds: &str| format!("{{\"case\": \"c\", \"holds\": {holds}}}");
        assert_eq!(all_hold(&[line("true"), line("true")]), Ok(()));
        for bad in [line("false"), line("\"void\""), line("null"), "P2 holds".to_owned()] {
            assert!(all_hold(&[line("true"), bad.clone()]).is_err(), "{bad}");
        }
        assert!(all_hold(&[]).is_err());
    }
}
