//! F9, the other half: what it costs to look at what all ports of a large fabric count, once a second.

use std::time::Instant;

use controller_switch::{
    cluster::Cluster,
    live::{Live, Lossless, NicReports, Sample as Reading},
};
use proto_model::SwitchConfig;
use serde_json::json;

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Seconds of reports.
const SECONDS: u64 = 5;

/// Ports made ready, a second's reports taken in, and all of them judged.
pub fn lines(row: &Row, quick: bool) -> Result<(), String> {
    let shape = controller_fabric::Shape {
        nodes: if quick { 2_048 } else { 16_384 },
        rails: 8,
        radix: 256,
        ..controller_fabric::Shape::default()
    };
    let fabric = controller_fabric::generate(&shape).map_err(|why| why.to_string())?.fabric;
    let cluster = Cluster::new(&fabric, std::iter::empty::<&SwitchConfig>());
    let named = |name: &str| {
        let ports = cluster.ports(name).into_iter().map(|port| port.name.to_string());
        (name.to_owned(), ports.collect::<Vec<_>>())
    };
    let switches: Vec<(String, Vec<String>)> = cluster.names().map(named).collect();
    let ports: usize = switches.iter().map(|(_, ports)| ports.len()).sum();
    let cpu = Cpu::start();
    let begin = Instant::now();
    let mut live = Live::new(&cluster);
    let ready = begin.elapsed().as_secs_f64();
    let (mut taken, mut judged) = (Vec::new(), Vec::new());
    for second in 0..SECONDS {
        let now = 1_000_000 + second * 1_000;
        let begin = Instant::now();
        for (switch, ports) in &switches {
            let lossless = Lossless {
                paused_us: second * 10_000,
                sent_bytes: 1 + second * 1_000_000,
                waiting_bytes: 1,
                ..Lossless::default()
            };
            let reading = |port| Reading {
                port,
                is_up: true,
                mbps: 400_000,
                lossless: Some(lossless),
                ..Reading::default()
            };
            live.take(switch, now, now, ports.iter().map(|port| reading(port.as_str())));
        }
        taken.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let found = live.findings(now, &NicReports::new()).len() + live.storms(now).len();
        if found > 0 {
            return Err(format!("{found} switches of a fabric that works are found wrong"));
        }
        judged.push(begin.elapsed().as_secs_f64());
    }
    let cpu = cpu.cores();
    let peers = json!({"switches": switches.len(), "ports": ports});
    let line = |case, sample: Sample, goal| {
        let value = sample.median();
        row.line(&Line { case, value, unit: "s", goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line(
        "counters: all ports made ready after a change of the fabric",
        Sample::new(vec![ready]),
        Goal::AtMost(5.0),
    );
    line("counters: a second's reports of all switches taken in", Sample::new(taken), Goal::AtMost(0.2));
    line("counters: all ports judged", Sample::new(judged), Goal::AtMost(0.2));
    Ok(())
}
