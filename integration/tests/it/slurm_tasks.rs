//! Tasks of a real Slurm's jobs on Railyard's engine: they take the places of the ranks of the allocation that is held for their job.

use std::time::Duration;

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{Site, Slurm, Version, beside::hook, missing, programs, spank},
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
        Self::with(Version::default(), "--ranks-per-node 2", "")
    }

    /// A version of Slurm, two servers, further options of `railctl slurm prolog`, and further lines of `slurm.conf`.
    fn with(version: Version, prolog: &str, lines: &str) -> Option<Self> {
        if programs(version).is_none() {
            println!("skipped: {}", missing(version));
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
                hook(&cluster, &format!("prolog --exclusive {prolog} --timeout 40s")).unwrap(),
            ),
            ("EpilogSlurmctld", hook(&cluster, "epilog").unwrap()),
            ("Prolog", agent("prolog --tenant dev")),
            ("TaskProlog", agent("task")),
            ("Epilog", agent("epilog")),
        ];
        let slurm =
            Slurm::up(&Site { version, nodes: &NODES, hooks: &hooks, lines, ..Site::default() }).unwrap();
        Some(Self { cluster, slurm })
    }

    /// Runs a batch script on both servers, and gives what it prints.
    fn run(&self, script: &str) -> String {
        self.run_with(&[], script)
    }

    /// The same with further options of sbatch.
    fn run_with(&self, options: &[&str], script: &str) -> String {
        let folder = self.slurm.folder();
        let (output, wrap) = (folder.join("output"), format!("--wrap={script}; echo done $?"));
        let to = format!("--output={}", output.display());
        let arguments = [&["--parsable", "--nodes=2", &to], options, &[&wrap]].concat();
        let id = self.slurm.run("sbatch", &arguments).unwrap();
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

#[test]
fn jobs_ask_for_ranks_rails_and_checksums_by_options_of_sbatch_22_05() {
    ask_by_options_of_sbatch(Version::V22_05);
}

#[test]
fn jobs_ask_for_ranks_rails_and_checksums_by_options_of_sbatch_24_11() {
    ask_by_options_of_sbatch(Version::V24_11);
}

fn ask_by_options_of_sbatch(version: Version) {
    let folder = tempfile::tempdir().unwrap();
    let Some(plugin) = spank(version, folder.path()).unwrap() else {
        println!(
            "skipped: Slurm's headers ({version}), or a C compiler, are not there (Debian: libslurm-dev)"
        );
        return;
    };
    let stack = folder.path().join("plugstack.conf");
    std::fs::write(&stack, format!("required {}\n", plugin.display())).unwrap();
    // Without options there is one rank on each server.
    let Some(world) = World::with(version, "", &format!("PlugStackConfig={}\n", stack.display())) else {
        return;
    };
    for (option, says) in [
        ("--rail-ranks=0", "--rail-ranks: '0' is no number from 1 to 256"),
        ("--rail-ranks=2x", "'2x' is no number"),
        ("--rail-count=65", "no number from 1 to 64"),
        ("--rail-certify=never", "'never' is not one of warn|require"),
        ("--rail-protection=99999999999999999", "wants none|integrity|encrypted"),
    ] {
        let error = world.slurm.run("sbatch", &[option, "--wrap=true"]).unwrap_err();
        assert!(error.contains(says), "{option}: {error}");
    }
    let place = "srun --ntasks-per-node=2 sh -c 'echo place ${RANK-none} of ${WORLD_SIZE-none}'";
    let places = |text: &str| {
        let mut places: Vec<String> =
            text.lines().filter(|line| line.starts_with("place ")).map(str::to_owned).collect();
        places.sort_unstable();
        places
    };
    let options = ["--rail-ranks=2", "--rail-count=1", "--rail-checksum"];
    let text = world.run_with(&options, &format!("{place}; echo job $RAIL_JOB"));
    assert_eq!(places(&text), ["place 0 of 4", "place 1 of 4", "place 2 of 4", "place 3 of 4"], "{text}");
    let job = text.lines().find_map(|line| line.strip_prefix("job ")).unwrap();
    let name = job.rsplit('/').next().unwrap();
    let made = world.cluster.json(&["get", "jobs", name, "--tenant", "dev"]).unwrap();
    let spec = if made["jobs"].is_array() { &made["jobs"][0]["spec"] } else { &made["spec"] };
    assert_eq!(
        (&spec["rails"]["required"], &spec["engine"]["checksum"]),
        (&1.into(), &true.into()),
        "{made}"
    );
    let text = world.run(place);
    assert_eq!(places(&text), ["place none of none"; 4], "{text}");
}
