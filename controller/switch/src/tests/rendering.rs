//! What is rendered, as texts that a network engineer would sign. Set `RAILYARD_BLESS=1` to write them anew.

use std::{fs, io::Write, path::PathBuf};

use proto_profile::{
    Class, ProfileSpec, Purpose, QosProfile,
    words::{Dscp, Priority},
};

use crate::{
    bgp, buffer, desired,
    explain::explain,
    model::Nos,
    render::{
        dialect::{self, Block, CUMULUS, EOS, NX_OS, VALUES},
        frr, sonic,
        tables::Field,
    },
    sample::Shape,
    state::{BufferModel, SwitchState},
};

/// Both ends of a small fabric of this operating system.
pub fn small(nos: Nos) -> Shape {
    Shape { servers: 2, rails: 2, servers_per_pod: 2, spines: 2, nos, ..Shape::default() }
}

/// RDMA data, storage and management apart, tenants in VXLAN.
pub fn rich() -> QosProfile {
    let class = |name: &str, purpose, dscp, priority| Class {
        name: name.into(),
        purpose,
        dscps: vec![Dscp::of(dscp)],
        priority: Priority::of(priority),
        lossless: false,
    };
    let mut spec = ProfileSpec {
        classes: vec![class("nvme", Purpose::Storage, 34, 4), class("mgmt", Purpose::Management, 56, 7)],
        prio_tc: [0, 0, 0, 3, 4, 0, 6, 7],
        bandwidth: [20, 0, 0, 50, 25, 0, 0, 5],
        ..ProfileSpec::default()
    };
    spec.switch.vxlan = true;
    QosProfile::new(spec).unwrap()
}

fn leaf(shape: &Shape, profile: &QosProfile, model: BufferModel) -> SwitchState {
    let switches = shape.switches().unwrap();
    desired::plan(profile, &switches, model).unwrap().remove(&switches[0].name).unwrap()
}

fn signed(file: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(file);
    if std::env::var_os("RAILYARD_BLESS").is_some() {
        fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{file} differs; look at it with RAILYARD_BLESS=1:\n{text}");
}

#[test]
fn sonic_is_as_signed() {
    let (simple, rich, shape) = (QosProfile::default(), rich(), small(Nos::Sonic));
    for (file, profile, model) in [
        ("leaf-dynamic.config_db.json", &simple, BufferModel::Dynamic),
        ("leaf-static.config_db.json", &simple, BufferModel::Static),
        ("leaf-classes.config_db.json", &rich, BufferModel::Static),
    ] {
        let state = leaf(&shape, profile, model);
        signed(file, &sonic::config_db(&state).to_json().unwrap());
    }
    signed("leaf.frr.conf", &frr::text(&leaf(&shape, &simple, BufferModel::Dynamic)));
    signed("leaf-vxlan.frr.conf", &frr::text(&leaf(&shape, &rich, BufferModel::Dynamic)));
}

#[test]
fn texts_to_paste_are_as_signed() {
    for (file, dialect) in [("leaf.nvue.txt", CUMULUS), ("leaf.eos.txt", EOS), ("leaf.nxos.txt", NX_OS)] {
        let state = leaf(&small(dialect.nos), &rich(), BufferModel::Static);
        signed(file, &dialect::text(&dialect, &state));
    }
}

#[test]
fn every_value_is_explained() {
    let switches = small(Nos::Sonic).switches().unwrap();
    let (profile, leaf) = (rich(), &switches[0]);
    let plan = buffer::plan(leaf, &profile).unwrap();
    let routing = bgp::plan(&switches).unwrap();
    let lines = explain(&profile, leaf, &plan, &routing[&leaf.name]);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    signed("leaf.explained.txt", &text);
}

/// A value that nothing gives would leave its line out of every text.
#[test]
fn dialects_use_values_that_there_are() {
    fn lines(blocks: &[Block], all: &mut Vec<&'static str>) {
        for block in blocks {
            match block {
                Block::Line(line) => all.push(line),
                Block::Of(_, inner) => lines(inner, all),
            }
        }
    }
    for dialect in [CUMULUS, EOS, NX_OS] {
        let mut all = Vec::new();
        lines(dialect.blocks, &mut all);
        for line in all {
            for part in line.split('{').skip(1) {
                let value = part.split_once('}').map_or("", |(value, _)| value);
                assert!(VALUES.contains(&value), "{}: {line}", dialect.nos);
            }
        }
    }
}

#[test]
fn all_dscps_are_listed_and_all_values_are_texts() {
    let state = leaf(&small(Nos::Sonic), &QosProfile::default(), BufferModel::Static);
    let db = sonic::config_db(&state);
    let map = &db.0["DSCP_TO_TC_MAP"]["RAIL"];
    assert_eq!(map.len(), 64);
    let class = |dscp: &str| map.get(dscp).and_then(Field::text);
    assert_eq!((class("26"), class("48"), class("0")), (Some("3"), Some("6"), Some("0")));
    let json: serde_json::Value = serde_json::from_str(&db.to_json().unwrap()).unwrap();
    let rows = json.as_object().unwrap().values().flat_map(|table| table.as_object().unwrap().values());
    assert!(rows.flat_map(|row| row.as_object().unwrap().values()).all(serde_json::Value::is_string));
}
