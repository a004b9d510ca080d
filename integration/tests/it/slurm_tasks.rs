//! Tasks of a real Slurm's jobs on Railyard's engine: they take the places of the ranks of the allocation that is held for their job.

use std::time::Duration;

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{Site, Slurm, beside::hook, programs},
};

const SOON: Duration = Duration::from_secs(60);
const NODES: [&str; 2] = ["n0", "n1"];

struct World {
    cluster: Cluster,
    slurm: Slurm,
}

impl World {
    /// Two servers, with two ranks each in every allocation.
    fn start() -> Option<Self> {
        if programs().is_none() {
            println!(
                "skipped: Slurm needs root, namespaces, and the packages slurmctld, slurmd, slurm-client and munge"
            );
            return None;
        }
        let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
        let agent = |arguments: &str| {
            format!(
                "#!/bin/sh\nexec {} slurm {arguments} --data-dir {}/$SLURMD_NODENAME\n",
                cluster.bin().join("rail-node-agent").display(),
                cluster.dir().display(),
            )
        };
        let hooks = [
            (
                "PrologSlurmctld",
                hook(&cluster, "prolog --exclusive --ranks-per-node 2 --timeout 40s").unwrap(),
            ),
            ("EpilogSlurmctld", hook(&cluster, "epilog").unwrap()),
            ("Prolog", agent("prolog --tenant dev")),
            ("TaskProlog", agent("task")),
            ("Epilog", agent("epilog")),
        ];
        let slurm = Slurm::up(&Site { nodes: &NODES, hooks: &hooks, ..Site::default() }).unwrap();
        Some(Self { cluster, slurm })
    }

    /// Runs a batch script on both servers, and gives what it prints.
    fn run(&self, script: &str) -> String {
        let folder = self.slurm.folder();
        let (output, wrap) = (folder.join("output"), format!("--wrap={script}; echo done $?"));
        let to = format!("--output={}", output.display());
        let id = self.slurm.run("sbatch", &["--parsable", "--nodes=2", &to, &wrap]).unwrap();
        let done = || {
            let text = std::fs::read_to_string(&output).ok()?;
            text.contains("\ndone ").then_some(text)
        };
        let text = eventually(&format!("job {id} to end"), SOON, done).unwrap_or_else(|error| {
            let text = std::fs::read_to_string(&output);
            panic!("{error}: {text:?}\n{}", self.slurm.said())
        });
        std::fs::remove_file(&output).unwrap();
        text
    }
}

#[test]
fn tasks_of_slurm_run_collectives_on_the_engine_of_their_job() {
    let Some(world) = World::start() else { return };
    let engine = world.cluster.bin().join("rail-engine");
    let bench = format!(
        "{} bench-rank --op all-reduce --bytes 1048576 --dtype f32 --reduce sum --iterations 3 --warmup 1 --verify",
        engine.display()
    );
    // Two steps, one after the other, take the same places.
    let text = world.run(&format!(
        "for step in 1 2; do srun --ntasks-per-node=2 sh -c '{bench} && echo place $RANK of $WORLD_SIZE'; done"
    ));
    let mut ranks: Vec<&str> = text.lines().filter(|line| line.starts_with("place ")).collect();
    ranks.sort_unstable();
    let all = ["place 0 of 4", "place 1 of 4", "place 2 of 4", "place 3 of 4"];
    let twice: Vec<&str> = all.iter().flat_map(|line| [*line; 2]).collect();
    assert_eq!(ranks, twice, "{text}");
    assert_eq!(text.matches("verified: every element is right").count(), 2, "{text}");
    assert!(text.ends_with("done 0\n"), "{text}");
    let left = || {
        let left = NODES.iter().flat_map(|node| {
            std::fs::read_dir(world.cluster.dir().join(node).join("slurm")).into_iter().flatten()
        });
        (left.count() == 0).then_some(())
    };
    eventually("nothing to be left of the job", SOON, left).unwrap();
}

#[test]
fn tasks_find_the_rails_and_what_their_user_has_set_stays() {
    let Some(world) = World::start() else { return };
    let text = world.run(
        "echo batch $NCCL_SOCKET_IFNAME $RAIL_NODE ${RANK-none}; export NCCL_IB_DISABLE=mine; \
         srun --ntasks-per-node=1 sh -c 'echo task $RAIL_NODE $NCCL_IB_DISABLE ${RANK-none} ${RAIL_ENGINE_SOCKET-none} $(wc -c <$RAIL_RANK_MAP)'",
    );
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(line("batch ").ends_with(" n0 none"), "{text}");
    for node in NODES {
        // One task where the allocation has two ranks takes none of their places.
        let task = line(&format!("task {node} mine none none "));
        let bytes = task.split(' ').next_back().and_then(|bytes| bytes.parse::<u64>().ok());
        assert!(bytes.is_some_and(|bytes| bytes > 100), "{text}");
    }
}
