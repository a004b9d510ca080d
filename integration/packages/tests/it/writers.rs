//! Both forms of every package: the same bytes again, and as dpkg and rpm read them.

use std::fs;

use integration_packages::{Error, catalog, gather};

use crate::tools::{folders, release, tool, written};

#[test]
fn the_same_files_give_the_same_bytes_and_another_revision_others() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (folders(one.path()), folders(other.path()));
    for package in &catalog::ALL {
        let packed = written(package, &first, &release(1));
        assert!(packed == written(package, &second, &release(1)), "{}: the folder shows", package.name);
        for (here, there) in packed.iter().zip(written(package, &first, &release(2))) {
            assert!(here.0 != there.0 && here.1 != there.1, "{}: revisions are alike", here.0);
        }
    }
}

#[test]
fn dpkg_reads_what_is_written() {
    let room = tempfile::tempdir().unwrap();
    let folders = folders(room.path());
    for package in &catalog::ALL {
        let [(name, bytes), _] = written(package, &folders, &release(1));
        let path = room.path().join(&name);
        fs::write(&path, bytes).unwrap();
        let path = path.display().to_string();
        let Some((read, fields)) = tool("dpkg-deb", &["--field", &path]) else { return };
        assert!(
            read && fields.contains(&format!("Package: {}\nVersion: 0.1.0-1\n", package.name)),
            "{fields}"
        );
        assert_eq!(
            fields.contains("Recommends: railyard-agent\n"),
            package.name == "railyard-slurm",
            "{fields}"
        );
        assert!(package.is_for_all() || fields.contains("Depends: libc6 (>= 2.34)"), "{fields}");
        let (_, listed) = tool("dpkg-deb", &["--contents", &path]).unwrap();
        for file in gather(package, &folders).unwrap() {
            assert!(listed.contains(&format!(" .{}", file.path)), "{}: {listed}", file.path);
        }
        assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
        let control = room.path().join(package.name);
        let (unpacked, said) =
            tool("dpkg-deb", &["--control", &path, &control.display().to_string()]).unwrap();
        assert!(unpacked, "{said}");
        if package.service.is_some() {
            let configs = fs::read_to_string(control.join("conffiles")).unwrap();
            assert!(configs.lines().all(|line| line.starts_with("/etc/railyard/")), "{configs}");
        }
    }
}

#[test]
fn rpm_reads_what_is_written_and_finds_it_whole() {
    let room = tempfile::tempdir().unwrap();
    let folders = folders(room.path());
    for package in &catalog::ALL {
        let [_, (name, mut bytes)] = written(package, &folders, &release(1));
        let path = room.path().join(&name);
        fs::write(&path, &bytes).unwrap();
        let shown = path.display().to_string();
        let query = [
            "-qp",
            "--qf",
            "%{NAME} %{VERSION} %{RELEASE} %{ARCH}\n",
            "-l",
            "--requires",
            "--recommends",
            "--scripts",
            &shown,
        ];
        let Some((read, said)) = tool("rpm", &query) else { return };
        assert!(read && said.contains(&format!("{} 0.1.0 1 ", package.name)), "{said}");
        for file in gather(package, &folders).unwrap() {
            assert!(said.lines().any(|line| line == file.path), "{}: {said}", file.path);
        }
        let recommended = said.lines().any(|line| line == "railyard-agent");
        assert_eq!(recommended, package.name == "railyard-slurm", "{said}");
        assert!(
            said.lines().any(|line| line == format!("/usr/share/doc/{}", package.name)),
            "folders: {said}"
        );
        assert_eq!(said.contains("postinstall scriptlet"), package.service.is_some(), "{said}");
        let (whole, said) = tool("rpm", &["-Kv", &shown]).unwrap();
        assert!(
            whole && said.contains("Header SHA256 digest: OK") && said.contains("Payload SHA256 digest: OK"),
            "{said}"
        );
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (whole, said) = tool("rpm", &["-Kv", &shown]).unwrap();
        assert!(!whole, "one bit of it is another: {said}");
    }
}

#[test]
fn what_was_not_built_is_named() {
    let room = tempfile::tempdir().unwrap();
    let folders = folders(room.path());
    fs::remove_file(folders.programs.join("rail-rank")).unwrap();
    let error = gather(&catalog::AGENT, &folders).unwrap_err();
    assert!(matches!(error, Error::Missing { package: "railyard-agent", .. }), "{error}");
    assert!(error.to_string().contains("bin/rail-rank: "), "{error}");
}
