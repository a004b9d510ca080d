//! What the tests share: a folder of pretended things that packages are made of, and tools of the system.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use integration_packages::{Folders, Linked, Package, Release, deb, gather, rpm};

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders with a file for everything that is built.
pub fn folders(room: &Path) -> Folders {
    let at = |name: &str| room.join(name);
    let folders = Folders {
        programs: at("bin"),
        libraries: at("lib"),
        man: at("man"),
        completions: at("completions"),
        repository: repository(),
    };
    for (folder, names) in [
        (
            &folders.programs,
            &[
                "rail-controller",
                "rail-node-agent",
                "rail-engine",
                "rail-rank",
                "railctl",
                "rail-switch-agent",
                "rail-operator",
                "rail-dra-driver",
            ][..],
        ),
        (&folders.libraries, &["librail.so", "librail_nccl_net.so"]),
        (&folders.completions, &["bash", "zsh", "fish"]),
        (
            &folders.man,
            &[
                "rail-controller.8",
                "rail-controller-run.8",
                "rail-node-agent.8",
                "rail-engine.8",
                "rail-rank.8",
                "railctl.1",
                "rail-switch-agent.8",
            ],
        ),
    ] {
        fs::create_dir_all(folder).unwrap();
        for name in names {
            fs::write(folder.join(name), format!("#!/bin/sh\necho {name}\n")).unwrap();
        }
    }
    folders
}

/// A release of some day.
pub fn release(revision: u32) -> Release {
    Release { version: "0.1.0".to_owned(), revision, date: 1_700_000_000 }
}

/// A package in both forms, each with the name of its file.
pub fn written(package: &Package, folders: &Folders, release: &Release) -> [(String, Vec<u8>); 2] {
    let files = gather(package, folders).unwrap();
    let mut linked = Linked::default();
    linked.add("  NEEDED               libc.so.6\n  required from libc.so.6:\n    0x0 0x00 02 GLIBC_2.34\n");
    [
        (deb::file_name(package, release), deb::write(package, &files, &linked, release).unwrap()),
        (rpm::file_name(package, release), rpm::write(package, &files, &linked, release).unwrap()),
    ]
}

/// What a tool of the system prints, with all that it says of errors; `None`, with a line that says so: it is not here.
pub fn tool(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            Some((output.status.success(), text))
        }
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            None
        }
    }
}
