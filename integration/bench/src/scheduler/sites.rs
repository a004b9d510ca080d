//! Real traces on fabrics of their size, for the rows that replay them: Philly, Alibaba's openb, and jobs drawn by the
//! statistics of Acme's Kalos. The data are not part of the repository; what is not there is reported.

use std::{fs, path::Path};

use controller_fabric::Shape;
use controller_simulator::{
    Settings, Site, Workload,
    trace::{self, Format, acme},
};

use super::{Bench, philly::TRACE};

/// Alibaba's pods with GPUs, `cluster-trace-gpu-v2023` of its cluster data.
const OPENB: &str = "openb_pod_list_default.csv";

/// Statistics of clusters, of which jobs are drawn.
const ACME: &str = "acme_cluster_summary.csv";

/// A trace, and how it is put on a cluster.
struct Kind {
    name: &'static str,
    file: &'static str,
    /// Which cluster of statistics.
    cluster: Option<&'static str>,
    /// Servers of eight GPUs; so many a pod.
    nodes: u32,
    pod: u32,
    /// The most jobs that are taken from the trace.
    jobs: usize,
}

/// Sizes at which jobs wait for each other: as loaded as all of them, Philly's and openb's real clusters let hardly a job wait.
const KINDS: [Kind; 3] = [
    Kind { name: "Philly", file: TRACE, cluster: None, nodes: 64, pod: 32, jobs: 4000 },
    Kind { name: "openb", file: OPENB, cluster: None, nodes: 16, pod: 16, jobs: 8000 },
    Kind {
        name: "Kalos, drawn by its statistics",
        file: ACME,
        cluster: Some("Kalos"),
        nodes: 38,
        pod: 19,
        jobs: 3000,
    },
];

/// Jobs on a cluster.
pub struct Replay {
    pub site: Site,
    pub workload: Workload,
}

/// Each trace, or why it cannot be had.
pub fn all(bench: &Bench) -> Vec<(&'static str, Result<Replay, String>)> {
    KINDS.iter().map(|kind| (kind.name, replay(kind, bench))).collect()
}

fn replay(kind: &Kind, bench: &Bench) -> Result<Replay, String> {
    let path = bench.traces.join(kind.file);
    let text = |error: &dyn ToString| error.to_string();
    let bytes = read(&path)?;
    let read = trace::read(&bytes).map_err(|error| text(&error))?;
    // Of jobs and servers alike, so that as many wait for each other.
    let one_of = if bench.quick { 4 } else { 1 };
    let jobs = kind.jobs / one_of as usize;
    let pod = kind.pod.min(kind.nodes / one_of);
    let nodes = kind.nodes / one_of / pod * pod;
    let list = match read.format {
        Format::Acme => {
            let of = read.statistics.iter().find(|of| Some(of.name.as_str()) == kind.cluster);
            let of = of.ok_or_else(|| format!("{}: no such cluster as {:?}", kind.file, kind.cluster))?;
            acme::draw(of, jobs, 1)
        }
        _ => read.jobs,
    };
    let shape = Shape { nodes, rails: 8, pod: Some(pod), ..Shape::default() };
    let fabric = controller_fabric::generate(&shape).map_err(|error| text(&error))?.fabric;
    let site = Site::new(fabric, 8).map_err(|error| text(&error))?;
    let settings = Settings { jobs: Some(jobs), ..Settings::default() };
    let workload = Workload::new(&list, &site, &settings).map_err(|error| text(&error))?;
    Ok(Replay { site, workload })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("give the data with --traces: {}: {error}", path.display()))
}
