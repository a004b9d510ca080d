//! Servers that differ.

use super::{as_is, fabric, outcome, trace};
use crate::{
    Policy, Site, SiteError, TraceJob, Workload,
    servers::{Kind, Listed},
    trace::Asks,
};

fn server(name: &str, gpus: u32, model: &str, cpus: u32, gib: u64) -> Listed {
    let kind = Kind { gpus, model: model.to_owned(), cpus, memory: gib << 30 };
    Listed { name: name.to_owned(), kind }
}

/// Two large servers of one model in the first pod, a large one of another and two small ones in the second.
fn list() -> Vec<Listed> {
    vec![
        server("a", 8, "V100M32", 96, 768),
        server("b", 8, "V100M32", 96, 768),
        server("c", 8, "A100", 64, 512),
        server("d", 2, "P100", 16, 64),
        server("e", 2, "T4", 16, 64),
    ]
}

fn asking(job: &TraceJob, cpus: u32, gib: u64, models: &[&str]) -> TraceJob {
    let models = models.iter().map(|model| proto_model::GpuModel::new(*model).unwrap()).collect();
    TraceJob { asks: Asks { cpus, memory: gib << 30, models }, ..job.clone() }
}

#[test]
fn a_list_belongs_to_the_servers_of_its_fabric() {
    let site = Site::of(fabric(&[2, 3]), &list()).unwrap();
    assert_eq!((site.gpus(), site.gpus_per_node, site.kinds.len()), (28, 8, 4));
    assert!(site.listed);
    // By the names of the fabric, if it has them all; else in its order.
    let named: Vec<Listed> = list()
        .into_iter()
        .zip((0..5).rev())
        .map(|(one, at)| Listed { name: format!("gpu{at:03}"), ..one })
        .collect();
    let named = Site::of(fabric(&[2, 3]), &named).unwrap();
    let gpus = |site: &Site| -> Vec<u32> {
        let mut spots: Vec<_> = site.spots.iter().collect();
        spots.sort_by_key(|spot| spot.node.index());
        spots.into_iter().map(|spot| site.gpus_of(spot)).collect()
    };
    assert_eq!((gpus(&site), gpus(&named)), (vec![8, 8, 8, 2, 2], vec![2, 2, 8, 8, 8]));
    assert_eq!(Site::of(fabric(&[2]), &list()).unwrap_err(), SiteError::Others { listed: 5, fabric: 2 });
    let many: Vec<Listed> = (0..65).map(|at| server("x", 1, "", at, 1)).collect();
    assert_eq!(Site::of(fabric(&[65]), &many).unwrap_err(), SiteError::Kinds);
    let alike = Site::new(fabric(&[2]), 4).unwrap();
    assert_eq!((alike.kinds.len(), alike.listed, alike.gpus()), (1, false, 8));
}

#[test]
fn jobs_go_to_servers_that_have_what_they_ask_for_under_every_scheduler() {
    let site = Site::of(fabric(&[2, 3]), &list()).unwrap();
    let plain =
        trace(&[(0, 100, 16), (1, 50, 1), (2, 50, 2), (3, 50, 8), (4, 50, 1), (5, 50, 1), (6, 50, 8)]);
    let jobs = [
        asking(&plain[0], 8, 64, &["V100M32"]),
        // The only server of the model, whose CPUs one job takes.
        asking(&plain[1], 60, 16, &["A100"]),
        asking(&plain[2], 16, 32, &["P100", "T4"]),
        // Of no other than the two that the first has.
        asking(&plain[3], 1, 1, &["V100M32"]),
        asking(&plain[4], 5, 16, &["A100"]),
        // Nothing but memory: more than the small ones have.
        asking(&plain[5], 1, 100, &[]),
        // No server has so many CPUs.
        asking(&plain[6], 100, 1, &[]),
    ];
    let workload = Workload::new(&jobs, &site, &as_is()).unwrap();
    assert_eq!((workload.jobs.len(), workload.too_large_count), (6, 1), "{:?}", workload.too_large);
    for policy in Policy::ALL {
        let outcome = outcome(&site, &workload, policy);
        let starts: Vec<u64> = outcome.rows.iter().map(|row| row.start.unwrap().0 / 1000).collect();
        assert_eq!(starts[..4], [0, 1, 2, 100], "{policy:?}");
        assert!(starts[4] >= 51, "{policy:?}: 4 CPUs were left, it asks for 5: {starts:?}");
    }
    // What no list says is not asked for: the same jobs on servers of which only GPUs are known.
    let alike = Site::new(fabric(&[2, 3]), 8).unwrap();
    let workload = Workload::new(&jobs, &alike, &as_is()).unwrap();
    assert_eq!((workload.jobs.len(), workload.too_large_count), (7, 0));
    assert!(workload.jobs.iter().all(|job| job.need.host == controller_scheduler::Host::NONE));
}
