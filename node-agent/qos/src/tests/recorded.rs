//! Recorded servers, and the plans for them, which a network engineer would sign. Set `RAILYARD_BLESS=1` to write the plans
//! anew.

use std::{fs, io::Write, path::PathBuf};

use crate::{
    Observed, QosProfile,
    diff::diff,
    document, model,
    plan::{Options, plan},
    render, vendor,
};

pub const HOSTS: [(&str, &str); 5] = [
    ("hgx-h100", "mlx5"),
    ("hgx-h100-ofed", "mlx5-ofed"),
    ("mi300x-bnxt", "bnxt_re"),
    ("e810-ice", "ice"),
    ("soft-roce", "rxe"),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded").join(name)
}

pub fn ports(host: &str) -> Vec<Observed> {
    document::from_json(&fs::read_to_string(path(&format!("{host}.json"))).unwrap()).unwrap()
}

#[test]
fn plans_of_recorded_servers_are_as_signed() {
    for (host, driver) in HOSTS {
        let mut text = String::new();
        for port in ports(host) {
            let vendor = vendor::of(&port);
            assert_eq!(vendor.name, driver, "{host} {}", port.device.netdev);
            text.push_str(&match plan(&QosProfile::default(), &port, vendor, Options::default()) {
                Ok(plan) => render::plan(&plan),
                Err(refusal) => format!("refused: {refusal}\n"),
            });
            text.push('\n');
        }
        let file = path(&format!("{host}.plan.txt"));
        if std::env::var_os("RAILYARD_BLESS").is_some() {
            fs::File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
        }
        let signed = fs::read_to_string(&file).unwrap();
        assert!(signed == text, "{} differs; look at it with RAILYARD_BLESS=1:\n{text}", file.display());
    }
}

#[test]
fn recorded_servers_are_mended_where_the_driver_can() {
    let profile = QosProfile::default();
    let any = Options { force: true, take_dcbx: true };
    for (host, _) in HOSTS {
        for port in ports(host) {
            let vendor = vendor::of(&port);
            let plan = plan(&profile, &port, vendor, any).unwrap();
            let after =
                plan.edits.iter().fold(port.clone(), |at, edit| model::apply(&at, &edit.change, vendor));
            let left = diff(&profile, &after, vendor).deviations;
            // One of the MI300X's NICs has its DCBX in firmware for good: told, not mended.
            let reported = plan.withheld.iter().all(|held| held.reason.contains("nvm -setoption"));
            assert!(
                left.is_empty() || (reported && !plan.withheld.is_empty()),
                "{host} {}: {left:?}",
                port.device.netdev
            );
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<crate::Plan>(&json).unwrap(), plan);
            assert_eq!(serde_json::to_string(&plan).unwrap(), json);
        }
    }
}

#[test]
fn bad_recordings_are_refused() {
    let good = fs::read_to_string(path("soft-roce.json")).unwrap();
    for (from, to, wanted) in [
        ("\"mtu\": {\"known\": 1500}", "\"mtu\": 1500", "line "),
        ("\"mtu\": {\"known\": 1500},", "", "missing field `mtu`"),
        ("\"mtu\":", "\"mut\":", "unknown field `mut`"),
        ("rail1", "rail0", "[1].device.netdev: 'rail0' is there twice"),
        ("{\"known\": \"RoCE v2\"}", "{\"known\": \"RoCE v3\"}", "unknown variant `RoCE v3`"),
        ("\n]", "", "EOF"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = document::from_json(&good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(wanted), "'{error}' does not contain '{wanted}'");
    }
    assert!(document::from_json(&" ".repeat(5 << 20)).unwrap_err().to_string().contains("larger than"));
}
