//! Which CPUs a job's ranks have.

use std::collections::BTreeSet;

use proto_model::{Gpu, NodePlace};

use super::limits::{Server, ranges};

/// The CPUs of a job that has this place, as the kernel writes them; `None`: all. Whoever asks for CPUs has so many that are in no
/// other job's hands (`given`): first its GPUs' own, then those of the same NUMA nodes, then others. The others share what is left.
pub(super) fn of(server: &Server, gpus: &[Gpu], place: &NodePlace, given: &BTreeSet<u32>) -> Option<String> {
    let near = near(server, gpus, &place.gpus);
    let all = || server.cpus.values().flat_map(|cpus| in_turn(cpus));
    if place.cpus > 0 {
        let wanted = place.cpus as usize;
        let numa: BTreeSet<u32> = gpus
            .iter()
            .filter(|gpu| place.gpus.contains(&gpu.index))
            .filter_map(|gpu| gpu.numa_node)
            .collect();
        let beside = numa.iter().filter_map(|numa| server.cpus.get(numa)).flat_map(|cpus| in_turn(cpus));
        let (own, beside): (Vec<u32>, Vec<u32>) =
            beside.partition(|cpu| near.as_ref().is_some_and(|near| near.contains(cpu)));
        let mut taken = BTreeSet::new();
        for cpu in own.into_iter().chain(beside).chain(all()).filter(|cpu| !given.contains(cpu)) {
            if taken.len() < wanted {
                taken.insert(cpu);
            }
        }
        // Where there are not so many nothing is promised: as if it had asked for none.
        if taken.len() == wanted {
            return Some(text(&taken));
        }
    }
    if given.is_empty() {
        return near.map(|near| text(&near));
    }
    let left =
        |cpus: BTreeSet<u32>| cpus.into_iter().filter(|cpu| !given.contains(cpu)).collect::<BTreeSet<u32>>();
    let near = near.map(left).filter(|near| !near.is_empty());
    let rest = near.unwrap_or_else(|| left(all().collect()));
    (!rest.is_empty()).then(|| text(&rest))
}

/// The CPUs of a list that the kernel, or [`of`], has written.
#[must_use]
pub fn listed(list: &str) -> BTreeSet<u32> {
    ranges(list).into_iter().flat_map(|(first, last)| first..=last).collect()
}

/// The CPUs of some ranges, one of each in turn: the ranges of a NUMA node are the threads of the same cores, which stay together.
fn in_turn(ranges: &[(u32, u32)]) -> Vec<u32> {
    let longest = ranges.iter().map(|(first, last)| last - first + 1).max().unwrap_or(0);
    let at = |at: u32| ranges.iter().map(move |(first, last)| (first + at, *last));
    let cpus = (0..longest).flat_map(at).filter(|(cpu, last)| cpu <= last);
    cpus.map(|(cpu, _)| cpu).collect()
}

/// As the kernel writes them: `0-3,8`.
fn text(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// The CPUs near a job's GPUs: each GPU has its part of every range of CPUs of its NUMA node, so that hyperthreads stay with
/// their cores and no two GPUs share any. All (`None`) for all GPUs, and where not every one has CPUs near it.
fn near(server: &Server, gpus: &[Gpu], own: &[u32]) -> Option<BTreeSet<u32>> {
    if own.is_empty() || gpus.iter().all(|gpu| own.contains(&gpu.index)) {
        return None;
    }
    let mut cpus = BTreeSet::new();
    for index in own {
        let numa = gpus.iter().find(|gpu| gpu.index == *index)?.numa_node?;
        let beside: Vec<u32> =
            gpus.iter().filter(|gpu| gpu.numa_node == Some(numa)).map(|gpu| gpu.index).collect();
        let (at, all) = (beside.iter().position(|other| other == index)? as u32, beside.len() as u32);
        let before = cpus.len();
        for (first, last) in server.cpus.get(&numa)? {
            let count = last - first + 1;
            let (from, to) = (count * at / all, count * (at + 1) / all);
            cpus.extend(first + from..first + to);
        }
        if cpus.len() == before {
            return None;
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proto_model::NodeName;

    use super::*;

    fn place(gpus: &[u32], cpus: u32) -> NodePlace {
        let (node, pod, nics) = (NodeName::new("n0").unwrap(), String::new(), Vec::new());
        NodePlace { node, pod, gpus: gpus.to_vec(), nics, remapped: false, cpus, memory_bytes: 0 }
    }

    fn gpu(index: u32) -> Gpu {
        Gpu {
            index,
            uuid: String::new(),
            model: String::new(),
            pci_address: String::new(),
            numa_node: Some(index / 4),
            memory_bytes: 0,
            facts: None,
        }
    }

    /// Two NUMA nodes of eight cores with two threads each, and four GPUs.
    fn server() -> (Server, Vec<Gpu>) {
        let cpus = BTreeMap::from([(0, vec![(0, 7), (16, 23)]), (1, vec![(8, 15), (24, 31)])]);
        (Server { cpus, memory: 0, is_real: true }, (0..8).map(gpu).collect())
    }

    #[test]
    fn a_job_has_the_cpus_that_it_asks_for_and_nobody_else_has_them() {
        let (server, gpus) = server();
        let mut given = BTreeSet::new();
        // What each of these gets beside those before it.
        for (on, cpus, right) in [
            (&[0_u32][..], 2, "0,16"),
            (&[1], 4, "2-3,18-19"),
            (&[0], 4, "1,4,17,20"),
            (&[4, 5], 6, "8-10,24-26"),
            (&[], 2, "5,21"),
            (&[0], 8, "6-7,11-12,22-23,27-28"),
        ] {
            let list = of(&server, &gpus, &place(on, cpus), &given).unwrap();
            assert_eq!(list, right, "{on:?}");
            assert!(listed(&list).is_disjoint(&given) && listed(&list).len() == cpus as usize);
            given.extend(listed(&list));
        }
        // All are given but six: who asks for more than that has no promise, and who asks for none shares what is left.
        assert_eq!(of(&server, &gpus, &place(&[7], 7), &given).as_deref(), Some("14-15,30-31"));
        assert_eq!(
            of(&server, &gpus, &place(&[0, 1, 2, 3, 4, 5, 6, 7], 0), &given).as_deref(),
            Some("13-15,29-31")
        );
        assert_eq!(of(&server, &gpus, &place(&[], 0), &(0..32).collect()), None, "nothing is left to share");
        // Nobody knows where CPUs are.
        assert_eq!(of(&Server::default(), &gpus, &place(&[0], 2), &given), None);
    }

    #[test]
    fn lists_are_read_as_they_are_written() {
        for list in ["0", "0-3,8", "1,3,5-6"] {
            assert_eq!(text(&listed(list)), list);
        }
        assert_eq!(text(&BTreeSet::new()), "");
    }
}
