//! Scripts that run when packages come and go: a shell reads them, and what stays and what goes is as Debian's policy wants it.

use std::{fs, path::Path};

use integration_packages::{Package, catalog};

use crate::tools::{folders, release, tool, written};

fn script(package: &Package, name: &str, room: &Path) -> Option<String> {
    let [(file, bytes), _] = written(package, &folders(room), &release(1));
    let path = room.join(file);
    fs::write(&path, bytes).unwrap();
    let folder = room.join(format!("control-{}", package.name));
    let (path, to) = (path.display().to_string(), folder.display().to_string());
    let _ = fs::remove_dir_all(&folder);
    let (unpacked, said) = tool("dpkg-deb", &["--control", &path, &to])?;
    assert!(unpacked, "{said}");
    fs::read_to_string(folder.join(name)).ok()
}

#[test]
fn a_shell_reads_every_script() {
    let room = tempfile::tempdir().unwrap();
    for package in catalog::ALL.iter().filter(|package| package.service.is_some()) {
        for name in ["postinst", "prerm", "postrm"] {
            let Some(text) = script(package, name, room.path()) else { return };
            assert!(text.starts_with("#!/bin/sh\nset -e\n") && !text.contains("RESTART"), "{text}");
            let path = room.path().join("script");
            fs::write(&path, &text).unwrap();
            let (read, said) = tool("sh", &["-n", &path.display().to_string()]).unwrap();
            assert!(read, "{name} of {}: {said}\n{text}", package.name);
        }
    }
}

#[test]
fn state_goes_with_a_purge_and_with_nothing_else() {
    let room = tempfile::tempdir().unwrap();
    for package in &catalog::ALL {
        let Some(state) = package.service.and_then(|service| service.state) else { continue };
        let Some(text) = script(package, "postrm", room.path()) else { return };
        let (before, after) = text.split_once("if [ \"$1\" = purge ]; then\n").unwrap();
        assert!(!before.contains("rm -rf") && after.contains(&format!("rm -rf {state} || true\n")), "{text}");
        let removed = script(package, "prerm", room.path()).unwrap();
        assert!(!removed.contains("rm -rf") && !removed.contains("userdel"), "{removed}");
    }
}

#[test]
fn every_unit_of_a_service_is_in_its_package() {
    for package in &catalog::ALL {
        let units = package.service.map_or(&[][..], |service| service.units);
        for unit in units {
            let path = format!("/usr/lib/systemd/system/{unit}");
            assert!(package.items.iter().any(|item| item.to == path), "{path}");
        }
    }
}
