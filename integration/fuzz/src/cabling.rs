//! Cabling lists: every row is a cable or left out, and what is made is free of faults.

use controller_fabric::{import, verify};
use controller_topology::check;
use proto_model::Fabric;
use proto_wire::v1;

/// Reads the text as a list; the document is sound, survives the wire, and is what is there if it is what is there.
pub fn run(data: &[u8]) {
    let made = match import(data, "fuzzed") {
        Ok(made) => made,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(made.rows, made.links + made.left_out);
    assert_eq!(made.links, made.fabric.cable_count());
    assert_eq!(check(&made.fabric), [], "{:?}", made.faults);
    assert!(made.left_out <= made.faults.len(), "a row that is left out has a fault");
    let back = Fabric::try_from(v1::Fabric::from(&made.fabric));
    assert_eq!(back.as_ref(), Ok(&made.fabric));
    assert_eq!(Fabric::try_from(proto_wire::convert::compact_fabric(&made.fabric)), back);
    let heard: Vec<_> = made
        .fabric
        .each_link()
        .map(|link| controller_fabric::lldp::Neighbor {
            node: link.node,
            nic: link.nic,
            switch: link.leaf,
            port: link.port,
        })
        .collect();
    let verdict = verify(&made.fabric, &heard, true);
    assert!(verdict.is_right() && verdict.moves.is_empty(), "{verdict:?}");
    let picture = controller_fabric::draw::Picture::of(&made.fabric);
    assert!(controller_fabric::draw::svg(&picture).ends_with("</svg>\n"));
    assert!(!controller_fabric::draw::text(&picture).is_empty());
}
