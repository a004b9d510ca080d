//! The fabric for the pages' map, as few bytes as it takes: a head of JSON, and columns behind it. Only the pages of the same release
//! read it, so that it may change with any.
//!
//! ```text
//! "RMAP"                  4 bytes
//! version, length of head 4 bytes each, as all whole numbers the lowest byte first
//! head                    JSON: rails, nodes, pods [name, nodes], leaves, runs, findings, findingsLeftOut; blanks fill it to a multiple of 4
//! leaves of ports         runs of two numbers of 4 bytes: the leaf's place in `leaves` from 1 on (0: none), and of how many ports;
//!                         ports in the order of rails, then nodes
//! ports                   a byte each, in the order of nodes, then rails: 1 usable, 2 drained, 3 out of use
//! GPUs, free GPUs, flags  a byte of each node, one column after the other; flag 1: it takes new jobs
//! names of nodes          UTF-8, each with a line feed behind it
//! ```

use controller_core::{MapPort, MapView};
use serde_json::json;

use crate::views;

/// What stands first, and changes with the form.
const MAGIC: [u8; 4] = *b"RMAP";
const VERSION: u32 = 1;
/// The most bytes that a map has, far beyond any fabric that is scheduled.
const MOST: usize = 64 * 1024 * 1024;

/// The fabric has more than a map can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the map of the fabric has {bytes} bytes, and at most {MOST} are sent; ask for /v1/topology")]
pub(crate) struct MapTooLarge {
    bytes: usize,
}

/// Runs of equal leaves, in the order of rails, then nodes.
fn runs(view: &MapView) -> Vec<(u32, u32)> {
    let rails = view.rails as usize;
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rail in 0..rails {
        for leaf in view.leaf.iter().skip(rail).step_by(rails) {
            let leaf = leaf.map_or(0, |leaf| leaf.saturating_add(1));
            match runs.last_mut() {
                Some((last, count)) if *last == leaf => *count += 1,
                _ => runs.push((leaf, 1)),
            }
        }
    }
    runs
}

fn head(view: &MapView, runs: usize) -> Vec<u8> {
    let findings: Vec<_> = views::reasons(&view.findings)
        .into_iter()
        .map(|one| json!({"code": one.code, "message": one.message, "count": one.count, "scope": one.scope}))
        .collect();
    let head = json!({
        "rails": view.rails,
        "nodes": view.names.len(),
        "pods": view.pods,
        "leaves": view.leaves,
        "runs": runs,
        "findings": findings,
        "findingsLeftOut": view.findings_left_out,
    });
    let mut head = head.to_string().into_bytes();
    head.resize(head.len().next_multiple_of(4), b' ');
    head
}

/// All of a map.
///
/// # Errors
/// [`MapTooLarge`].
pub(crate) fn encode(view: &MapView) -> Result<Vec<u8>, MapTooLarge> {
    let runs = runs(view);
    let head = head(view, runs.len());
    let names: usize = view.names.iter().map(|name| name.as_str().len() + 1).sum();
    let bytes = 12 + head.len() + 8 * runs.len() + view.ports.len() + 3 * view.nodes.len() + names;
    let length = u32::try_from(head.len()).ok().filter(|_| bytes <= MOST).ok_or(MapTooLarge { bytes })?;
    let mut map = Vec::with_capacity(bytes);
    map.extend(MAGIC);
    map.extend(VERSION.to_le_bytes());
    map.extend(length.to_le_bytes());
    map.extend(head);
    for (leaf, count) in runs {
        map.extend(leaf.to_le_bytes());
        map.extend(count.to_le_bytes());
    }
    map.extend(view.ports.iter().map(|port| match port {
        MapPort::Usable => 1,
        MapPort::Drained => 2,
        MapPort::Down => 3,
    }));
    map.extend(view.nodes.iter().map(|node| node.gpus));
    map.extend(view.nodes.iter().map(|node| node.gpus_free));
    map.extend(view.nodes.iter().map(|node| u8::from(node.schedulable)));
    for name in &view.names {
        map.extend(name.as_str().as_bytes());
        map.push(b'\n');
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_core::MapNode;
    use proptest::prelude::*;
    use proto_model::{NodeName, Reason, ReasonCode};
    use serde_json::Value;

    fn number(bytes: &mut &[u8]) -> u32 {
        let (first, rest) = bytes.split_first_chunk::<4>().unwrap();
        *bytes = rest;
        u32::from_le_bytes(*first)
    }

    fn column<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (column, rest) = bytes.split_at(length);
        *bytes = rest;
        column
    }

    /// What a page makes of it.
    fn decode(mut bytes: &[u8]) -> (MapView, Value) {
        assert_eq!(column(&mut bytes, 4), b"RMAP");
        assert_eq!(number(&mut bytes), 1);
        let length = number(&mut bytes) as usize;
        assert_eq!(length % 4, 0);
        let head: Value = serde_json::from_slice(column(&mut bytes, length)).unwrap();
        let count = |name: &str| usize::try_from(head[name].as_u64().unwrap()).unwrap();
        let (rails, nodes) = (count("rails"), count("nodes"));
        let mut by_rail = Vec::new();
        for _ in 0..count("runs") {
            let (leaf, times) = (number(&mut bytes), number(&mut bytes));
            by_rail.extend((0..times).map(|_| leaf.checked_sub(1)));
        }
        let leaf = (0..nodes).flat_map(|node| (0..rails).map(move |rail| rail * nodes + node));
        let port = |kind: &u8| [MapPort::Usable, MapPort::Drained, MapPort::Down][usize::from(*kind) - 1];
        let ports = column(&mut bytes, nodes * rails).iter().map(port).collect();
        let [gpus, free, flags] = [(); 3].map(|()| column(&mut bytes, nodes));
        let node = |at: usize| MapNode { gpus: gpus[at], gpus_free: free[at], schedulable: flags[at] == 1 };
        let view = MapView {
            rails: u32::try_from(rails).unwrap(),
            pods: serde_json::from_value(head["pods"].clone()).unwrap(),
            names: std::str::from_utf8(bytes)
                .unwrap()
                .lines()
                .map(|name| NodeName::new(name).unwrap())
                .collect(),
            nodes: (0..nodes).map(node).collect(),
            ports,
            leaf: leaf.map(|at| by_rail[at]).collect(),
            leaves: serde_json::from_value(head["leaves"].clone()).unwrap(),
            findings: Vec::new(),
            findings_left_out: count("findingsLeftOut"),
        };
        (view, head)
    }

    fn any_view() -> impl Strategy<Value = MapView> {
        (0u32..5, proptest::collection::vec(0u32..5, 0..5), 0u32..4, any::<u64>()).prop_map(
            |(rails, pods, leaves, seed)| {
                let nodes = pods.iter().sum::<u32>();
                let at = |place: u32, most: u32| {
                    let mixed = (seed ^ u64::from(place)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                    u32::try_from(mixed).unwrap() % most
                };
                let small = |place: u32| u8::try_from(at(place, 65)).unwrap();
                let kinds = [MapPort::Usable, MapPort::Drained, MapPort::Down];
                MapView {
                    rails,
                    pods: (0..).zip(&pods).map(|(pod, nodes)| (format!("p \"{pod}\"\n"), *nodes)).collect(),
                    names: (0..nodes).map(|node| NodeName::new(format!("n{node}")).unwrap()).collect(),
                    nodes: (0..nodes)
                        .map(|node| MapNode {
                            gpus: small(node),
                            gpus_free: small(node + 1),
                            schedulable: at(node, 2) == 1,
                        })
                        .collect(),
                    ports: (0..nodes * rails).map(|port| kinds[at(port, 3) as usize]).collect(),
                    leaf: (0..nodes * rails).map(|port| at(port, leaves + 1).checked_sub(1)).collect(),
                    leaves: (0..leaves).map(|leaf| format!("leaf-{leaf}")).collect(),
                    findings: Vec::new(),
                    findings_left_out: small(7).into(),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(view in any_view()) {
            let bytes = encode(&view).unwrap();
            prop_assert_eq!(decode(&bytes).0, view);
        }
    }

    #[test]
    fn findings_go_along_and_name_nobody() {
        let mut finding = Reason::new(ReasonCode::NodeNotReady, "a job is there").scope("node/n1");
        finding.named = Some(Box::new(proto_model::Named {
            to: Vec::new(),
            message: "nlp's job train is there".into(),
            scope: "job/train".into(),
        }));
        let bytes = encode(&MapView { findings: vec![finding], ..MapView::default() }).unwrap();
        let (_, head) = decode(&bytes);
        assert_eq!(
            (&head["findings"][0]["message"], &head["findings"][0]["scope"]),
            (&json!("a job is there"), &json!("node/n1"))
        );
        assert!(!String::from_utf8_lossy(&bytes).contains("nlp"));
    }

    /// 125,000 servers of 8 rails, with names as people give them.
    fn large() -> MapView {
        let (pods, nodes, rails) = (3907u32, 32u32, 8u32);
        let all = pods * nodes;
        MapView {
            rails,
            pods: (0..pods).map(|pod| (format!("pod-{pod}"), nodes)).collect(),
            names: (0..all)
                .map(|node| NodeName::new(format!("rack{:04}-gpu{:02}", node / 32, node % 32)).unwrap())
                .collect(),
            nodes: vec![MapNode { gpus: 8, gpus_free: 3, schedulable: true }; all as usize],
            ports: vec![MapPort::Usable; (all * rails) as usize],
            leaf: (0..all)
                .flat_map(|node| (0..rails).map(move |rail| Some(node / 32 * rails + rail)))
                .collect(),
            leaves: (0..pods * rails)
                .map(|leaf| format!("pod-{}-leaf-{}", leaf / rails, leaf % rails))
                .collect(),
            ..MapView::default()
        }
    }

    #[test]
    fn a_large_fabric_takes_a_few_bytes_and_little_time() {
        let view = large();
        let begun = std::time::Instant::now();
        let bytes = encode(&view).unwrap();
        println!("{} bytes in {:?}", bytes.len(), begun.elapsed());
        // 65 MiB as JSON.
        assert!(bytes.len() < 5 * 1024 * 1024, "{}", bytes.len());
        assert_eq!(decode(&bytes).0, view);
    }

    #[test]
    fn more_than_may_be_sent_is_refused() {
        let view = MapView { ports: vec![MapPort::Down; MOST], ..MapView::default() };
        assert!(matches!(encode(&view), Err(MapTooLarge { bytes }) if bytes > MOST));
    }
}
