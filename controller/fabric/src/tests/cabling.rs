//! Cabling lists: what they say, and what is wrong in them.

use controller_topology::check;

use crate::{FindingCode, Imported, import};

/// Two pods of `size` servers with four NICs; the second kind of server names them otherwise.
fn list(size: usize) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for pod in 0..2 {
        for at in 0..size {
            let other = (pod == 1) != (at % 4 == 3);
            let nics = if other {
                ["ens24", "ens25", "ens30", "ens31"]
            } else {
                ["ens11", "ens10", "ens19", "ens18"]
            };
            for (rail, nic) in nics.iter().enumerate() {
                let leaf = format!("ROOM-Leaf-{}", pod * 4 + rail + 1);
                let port = format!("TwoHundredGigE1/0/{}:{}", at / 2 + 1, at % 2 + 1);
                rows.push([format!("DC-A{pod}-GPU-{}", pod * size + at), (*nic).to_owned(), leaf, port]);
            }
        }
    }
    rows
}

fn read(rows: &[[String; 4]]) -> Imported {
    let mut text = "sysname,nicname,switchname,accessport\r\n".to_owned();
    for row in rows {
        text.push_str(&row.join(","));
        text.push_str("\r\n");
    }
    let made = import(text.as_bytes(), "site").unwrap();
    assert_eq!(made.rows, rows.len());
    assert_eq!(made.rows, made.links + made.left_out, "every row is a cable or left out");
    assert_eq!(check(&made.fabric), [], "{:?}", made.faults);
    made
}

fn codes(made: &Imported) -> Vec<(usize, &str)> {
    made.faults.iter().map(|fault| (fault.line, fault.code.as_str())).collect()
}

#[test]
fn pods_and_rails_are_told_from_the_list() {
    let made = read(&list(12));
    assert_eq!(codes(&made), []);
    let fabric = &made.fabric;
    assert_eq!((fabric.rails.len(), fabric.leaves.len(), made.links), (4, 8, 96));
    for (at, leaf) in fabric.leaves.iter().enumerate() {
        assert_eq!(leaf.name, format!("ROOM-Leaf-{}", at + 1));
        assert_eq!((leaf.rail as usize, leaf.pod.as_str()), (at % 4, if at < 4 { "pod1" } else { "pod2" }));
    }
    // The first pod has nine servers of the one kind and three of the other, whose NICs are called otherwise.
    assert_eq!((fabric.links.len(), fabric.link_groups.len()), (0, 16));
    let group =
        fabric.link_groups.iter().find(|group| group.leaf == "ROOM-Leaf-1" && group.nic == "ens11").unwrap();
    assert_eq!((group.nodes.to_string().as_str(), group.speed_mbps), ("dc-a0-gpu-[0-2,4-6,8-10]", 200_000));
    assert_eq!(made.notes.iter().map(|note| note.code.as_str()).collect::<Vec<_>>(), ["LowerCase"]);
}

#[test]
fn faults_are_reported_with_their_rows_and_not_guessed_away() {
    let mut rows = list(24);
    rows[4][1].clear(); // line 6: no NIC
    rows[9][3] = "FourHundredGigE1/0/64".into(); // line 11
    rows[16][2] = "ROOM-Leaf-5".into(); // line 18: to the other pod
    rows[16][3] = "TwoHundredGigE1/0/40:1".into();
    let same = rows[20].clone();
    rows[24][2] = same[2].clone(); // line 26 on the port of line 22
    rows[24][3] = same[3].clone();
    rows[28][0] = "under_score".into(); // line 30
    rows.push(rows[40].clone()); // the last line says what line 42 says
    let last = rows.len() + 1;
    let made = read(&rows);
    let found = codes(&made);
    for fault in [
        (6, "Missing"),
        (11, "PortKind"),
        (18, "OtherPod"),
        (22, "DuplicatePort"),
        (26, "DuplicatePort"),
        (30, "NodeName"),
        (last, "DuplicateRow"),
    ] {
        assert!(found.contains(&fault), "{fault:?} is missing in {:#?}", made.faults);
    }
    assert_eq!(made.left_out, found.len() - 1, "all but the port of another kind: {found:?}");
    let kept = made.fabric.each_link().find(|link| link.port == "FourHundredGigE1/0/64").unwrap();
    assert_eq!(kept.speed_mbps, 0, "the port is as written, the speed in doubt");
    let missing = &made.faults[0].message;
    assert!(missing.contains("ens11 (") && missing.contains("ens24 ("), "{missing}");
    assert!(made.notes.iter().any(|note| note.code == FindingCode::PartialRails));
}

#[test]
fn columns_may_say_rail_pod_plane_and_speed() {
    let text = "node,nic,leaf,port,rail,pod,plane,speed,colour\n\
                a,n0,l0,1,0,p,0,400G,red\na,n0,l1,1,0,p,1,400000,red\nb,n0,l0,2,0,p,0,,red\nb,n0,l1,2,9999,p,1,fast,red\n\
                b,n1,l2,2,1,p,0,400G\nc,n1,l2,1,0,q,0,400G,red\n";
    let made = import(text.as_bytes(), "x").unwrap();
    assert_eq!(check(&made.fabric), []);
    assert_eq!((made.links, made.left_out), (4, 2), "{:#?}", made.faults);
    assert_eq!(codes(&made), [(5, "Number"), (5, "Speed"), (6, "FieldCount")]);
    let planes: Vec<_> =
        made.fabric.leaves.iter().map(|leaf| (leaf.rail, leaf.plane, leaf.pod.as_str())).collect();
    assert_eq!(planes, [(0, 0, "p"), (0, 1, "p"), (0, 0, "q")]);
    assert!(made.notes.iter().any(|note| note.message.contains("colour")));
}

/// Two racks of eight servers, all four NICs of a server on the switch of its rack.
fn one_switch_a_rack() -> Vec<[String; 4]> {
    let nic = |server: usize, nic: usize| {
        let port = format!("Ethernet{}", server % 8 * 4 + nic + 1);
        [format!("gpu{server:02}"), format!("mlx5_{}", nic + 8), format!("tor{}", server / 8), port]
    };
    (0..16).flat_map(|server| (0..4).map(move |at| nic(server, at))).collect()
}

#[test]
fn leaves_that_all_nics_of_a_server_share_serve_all_rails() {
    let made = read(&one_switch_a_rack());
    assert_eq!((codes(&made), made.links, made.fabric.rails.len()), (vec![], 64, 4));
    let rails: Vec<Vec<u32>> = made.fabric.leaves.iter().map(|leaf| leaf.rails().collect()).collect();
    assert_eq!(rails, [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
    let note = made.notes.iter().find(|note| note.code == FindingCode::RailsByOrder).unwrap();
    assert!(note.message.ends_with("mlx5_8, mlx5_9, mlx5_10, mlx5_11 (16 servers)"), "{}", note.message);
    let link = made.fabric.each_link().find(|link| link.nic == "mlx5_10").unwrap();
    assert_eq!(link.rail, Some(2), "ten after nine");
    let mut topology = controller_topology::Topology::new(Some(&made.fabric));
    topology.furnish(8);
    let all: Vec<_> = topology.servers().map(|(ix, _)| ix).collect();
    assert_eq!(topology.distance(all[0], all[7], 3), Some(1));
    assert!(topology.aligned(&all, controller_topology::RailSet::first(4)));
}

#[test]
fn a_server_that_lacks_a_nic_does_not_move_the_rails_of_the_others() {
    let mut rows = one_switch_a_rack();
    rows.remove(4); // gpu01 has no mlx5_8
    rows[11][2] = "tor1".into(); // a cable of gpu03 to the other rack, on a port of its own
    rows[11][3] = "Ethernet99".into();
    let made = read(&rows);
    assert_eq!(codes(&made), [(13, "OtherPod")]);
    let rails: Vec<Option<u32>> =
        made.fabric.each_link().filter(|link| link.node.as_str() == "gpu01").map(|link| link.rail).collect();
    assert_eq!(rails, [Some(1), Some(2), Some(3)]);
}

#[test]
fn a_leaf_for_a_group_of_rails_is_told_by_the_column() {
    let mut text = "node,nic,leaf,port,rail,pod\n".to_owned();
    for (server, nic) in (0..6).flat_map(|server| (0..8).map(move |nic| (server, nic))) {
        let (pod, leaf) = (server / 3, nic / 4);
        text.push_str(&format!(
            "n{server},eth{nic},leaf{pod}{leaf},{},{},p{pod}\n",
            server % 3 * 4 + nic % 4,
            7 - nic
        ));
    }
    let made = import(text.as_bytes(), "x").unwrap();
    assert_eq!((check(&made.fabric), codes(&made), made.links), (vec![], vec![], 48));
    let rails: Vec<Vec<u32>> = made.fabric.leaves.iter().map(|leaf| leaf.rails().collect()).collect();
    assert_eq!(rails, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    // One row says another rail, one says none.
    let text = text.replacen(",7,p0", ",1,p0", 1).replacen(",6,p0", ",,p0", 1);
    let made = import(text.as_bytes(), "x").unwrap();
    assert_eq!((check(&made.fabric), codes(&made)), (vec![], vec![(2, "LeafRail"), (3, "LeafRail")]));
}

/// What was refused: a list of 1,200 servers with eight NICs, one by one, is more than any document may hold.
#[test]
fn the_cables_of_a_list_are_written_as_lists() {
    let mut rows = Vec::new();
    for (server, rail) in (0..1200).flat_map(|server| (0..8).map(move |rail| (server, rail))) {
        let port = format!("Ethernet{}", server % 64 + 1);
        rows.push([
            format!("gpu{server:04}"),
            format!("mlx5_{rail}"),
            format!("r{rail}-leaf{:02}", server / 64),
            port,
        ]);
    }
    let made = read(&rows);
    assert_eq!((made.links, made.fabric.links.len(), made.fabric.link_groups.len()), (9600, 0, 19 * 8));
    assert_eq!(made.fabric.cable_count(), 9600);
    // The order of the rows says nothing.
    rows.reverse();
    assert_eq!(read(&rows).fabric, made.fabric);
}

#[test]
fn text_that_no_document_takes_is_a_fault() {
    let long = "x".repeat(129);
    for row in
        ["a,n\u{1},l,1,p", "a,n,l\u{7f},1,p", "a,n,l,1\u{2},p", "a,n,l,1,p\u{0}q", &format!("a,n,l,1,{long}")]
    {
        let made = import(format!("node,nic,leaf,port,pod\n{row}\n").as_bytes(), "x").unwrap();
        assert_eq!((codes(&made), made.links), (vec![(2, "Text")], 0), "{row:?}");
    }
}

#[test]
fn a_nic_on_two_ports_needs_its_planes() {
    let made = import(b"node,nic,leaf,port\na,n0,l0,1\na,n0,l1,1\n", "x").unwrap();
    assert_eq!(codes(&made), [(2, "NicTwice"), (3, "NicTwice")]);
    assert!(made.faults[0].message.contains("'plane'"));
}

proptest::proptest! {
    #[test]
    fn whatever_is_in_a_list_every_row_is_accounted_for(
        rows in proptest::collection::vec(("[ab]?[0-9]{0,2}", "n[0-3]?", "l[0-5]?", "(TwoHundredGigE)?[0-9]?"), 0..40),
    ) {
        let rows: Vec<[String; 4]> = rows.into_iter().map(|(a, b, c, d)| [a, b, c, d]).filter(|row| row.iter().any(|field| !field.is_empty())).collect();
        let made = read(&rows);
        let lines: std::collections::BTreeSet<usize> = made.faults.iter().map(|fault| fault.line).collect();
        assert!(made.left_out <= lines.len(), "a row left out has a fault");
        assert_eq!(made, read(&rows));
    }

    #[test]
    fn a_list_with_slips_of_the_pen_is_read_or_refused(
        slips in proptest::collection::vec((proptest::num::usize::ANY, "[,\"\n\r:é 0-9a-zA-Z]?", 0usize..4), 0..12),
    ) {
        let rows: Vec<String> = list(6).iter().map(|row| row.join(",")).collect();
        let mut text: Vec<char> = format!("sysname,nicname,switchname,accessport\n{}\n", rows.join("\n")).chars().collect();
        for (at, put, gone) in slips {
            let at = at % text.len();
            let end = (at + gone).min(text.len());
            text.splice(at..end, put.chars());
        }
        let text: String = text.into_iter().collect();
        match import(text.as_bytes(), "x") {
            Ok(made) => {
                proptest::prop_assert_eq!(made.rows, made.links + made.left_out);
                proptest::prop_assert!(made.left_out <= made.faults.len());
                proptest::prop_assert_eq!(check(&made.fabric), []);
            }
            Err(error) => proptest::prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        if let Ok(made) = import(&bytes, "x") {
            assert_eq!(check(&made.fabric), []);
        }
        let _ = crate::lldp::read(&bytes);
        let lines = [&b"n: lldp."[..], &bytes, b".chassis.name=x"].concat();
        if let Ok(heard) = crate::lldp::read(&lines) {
            assert_eq!(heard.facts, heard.neighbors.len() + heard.left_out);
        }
    }
}
