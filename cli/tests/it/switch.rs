//! Switches without a cluster: listed, rendered, explained, checked, proved.

use std::fs;

use crate::run;

struct Site {
    home: tempfile::TempDir,
    fabric: String,
}

impl Site {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (code, out, err) =
            run(home.path(), &["fabric", "generate", "--nodes", "16", "--rails", "2", "--radix", "8"]);
        assert_eq!(code, 0, "{err}");
        let file = home.path().join("fabric.yaml");
        fs::write(&file, out).unwrap();
        Site { fabric: file.to_str().unwrap().to_owned(), home }
    }

    fn switch(&self, args: &[&str]) -> (i32, String, String) {
        run(self.home.path(), &[&["switch"], args, &["-f", &self.fabric]].concat())
    }

    fn folder(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn what_is_rendered_is_proved_and_a_fault_is_shown_by_a_packet() {
    let site = Site::new();
    let configs = site.folder("configs");
    let (code, _, err) = site.switch(&["render", "--all", "--out", &configs]);
    assert_eq!((code, err.ends_with("switches written\n")), (0, true), "{err}");
    let (code, out, err) = site.switch(&["check", "--read", &configs]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("all 64 DSCPs travel as the profile says over "), "{out}");

    let file = format!("{configs}/r0-leaf1/config_db.json");
    let text = fs::read_to_string(&file).unwrap();
    let broken = text.replace("\"pfc_enable\": \"3\"", "\"pfc_enable\": \"3,4\"");
    assert_ne!(text, broken);
    fs::write(&file, broken).unwrap();
    let (code, _, err) = site.switch(&["check", "--read", &configs]);
    assert_eq!(code, 1);
    assert!(err.contains("r0-leaf1 ") && err.contains("packet: "), "{err}");

    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let (code, _, err) = site.switch(&["check", "--read", &configs]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("r0-leaf1/config_db.json"), "{err}");
    fs::remove_file(&file).unwrap();
    let (_, _, err) = site.switch(&["check", "--read", &configs]);
    assert!(err.contains("cannot read ") && err.contains("r0-leaf1"), "{err}");
}

#[test]
fn every_operating_system_gets_its_own_words() {
    let site = Site::new();
    for (nos, word) in [
        ("sonic", "\"DSCP_TO_TC_MAP\""),
        ("cumulus", "nv set "),
        ("eos", "priority-flow-control"),
        ("nx-os", "priority-flow-control"),
        ("frr", "router bgp "),
    ] {
        let (code, out, err) = site.switch(&["render", "r0-leaf1", "--nos", nos]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains(word), "{nos}: {out}");
    }
    let (_, out, _) = site.switch(&["render", "r0-leaf1", "--frr"]);
    assert!(out.contains("router bgp "), "{out}");
}

#[test]
fn switches_are_listed_and_their_values_have_sources() {
    let site = Site::new();
    let (code, out, err) = site.switch(&["list", "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(all[0]["name"], "r0-leaf1");
    assert_eq!(all[0]["asn"], 65000);
    let (_, out, _) = site.switch(&["explain", "r0-leaf1"]);
    assert!(out.contains("xoff") && out.contains("SONiC, dynamic buffer model"), "{out}");
    let (code, _, err) = site.switch(&["explain", "leaf2"]);
    assert_eq!(code, 3);
    assert!(err.contains("no switch leaf2; did you mean r0-leaf2?"), "{err}");
}

#[test]
fn deadlocks_are_proved_away_or_shown() {
    let site = Site::new();
    let (code, out, err) = site.switch(&["prove"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("lossless traffic never waits for itself"), "{out}");
    let (code, _, err) = site.switch(&["prove", "--routing", "bounce"]);
    assert_eq!(code, 1);
    assert!(err.contains("buffers wait in a cycle: r"), "{err}");
    let (code, out, _) = site.switch(&["prove", "--routing", "bounce", "--failures", "1"]);
    assert_eq!(code, 0, "{out}");
}
