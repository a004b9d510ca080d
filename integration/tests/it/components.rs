//! Gangs whose nodes are not all alike, on a local cluster of real processes.

use std::time::Duration;

use integration_harness::{Cluster, Shape};

const SOON: Duration = Duration::from_secs(60);
const ENDED: [&str; 3] = ["COMPLETED", "FAILED", "CANCELLED"];

#[test]
fn ranks_know_their_component_and_a_collective_joins_nodes_of_unequal_ranks() {
    let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 4, ..Shape::default() }).unwrap();
    let components = "components:\n- {name: learner, nodes: 1, gpusPerNode: 4, ranksPerNode: 3}\n- {name: actor, nodes: 2, gpusPerNode: 1}\n";
    let script = r#"echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $RAIL_COMPONENT $RAIL_COMPONENT_INDEX $RAIL_COMPONENT_RANK/$RAIL_COMPONENT_SIZE""#;
    cluster.submit("mixed", &format!("{components}command: {{argv: [/bin/sh, -c, '{script}']}}")).unwrap();
    let job = cluster.wait_for("mixed", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    let log = cluster.railctl(&["logs", "mixed"]);
    let mut lines: Vec<&str> =
        log.stdout.lines().filter_map(|line| line.split_once("] ")).map(|(_, said)| said).collect();
    lines.sort_unstable();
    let right = [
        "0/5 0/3 learner 0 0/3",
        "1/5 1/3 learner 0 1/3",
        "2/5 2/3 learner 0 2/3",
        "3/5 0/1 actor 1 0/2",
        "4/5 0/1 actor 1 1/2",
    ];
    assert_eq!(lines, right, "{}{}", log.stdout, log.stderr);
    let table = cluster.railctl(&["describe", "job", "mixed"]).stdout;
    for words in ["3 nodes of 2 components", "learner: 1 node, 4 GPUs per node, 3 ranks per node"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert!(cluster.railctl(&["logs", "mixed", "--rank", "5"]).stderr.contains("it has 0 to 4"));
    // Every rank takes part, wherever it is.
    let sum = "collective: {op: ALL_REDUCE, bytes: 1048576, iterations: 3, verify: true}";
    cluster
        .submit(
            "sum",
            &format!("{}{sum}", components.replace("actor, nodes: 2", "actor, nodes: 2, ranksPerNode: 2")),
        )
        .unwrap();
    let job = cluster.wait_for("sum", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    assert_eq!(
        (&job["status"]["result"]["verified"], &job["status"]["result"]["ranks"]),
        (&true.into(), &7.into())
    );
    what_is_read_can_be_applied_again(&cluster);
}

fn what_is_read_can_be_applied_again(cluster: &Cluster) {
    let spec = cluster.job("mixed").unwrap()["spec"].clone();
    assert_eq!((&spec["gang"]["nodes"], &spec["gang"]["gpusPerNode"]), (&3.into(), &0.into()));
    let mut again = spec.clone();
    again["components"][1]["nodes"] = 1.into();
    let refused =
        format!("{:?}", cluster.submit("odd", &serde_json::to_string(&again).unwrap()).unwrap_err());
    assert!(refused.contains("gang.nodes") && refused.contains("leave it out"), "{refused}");
    cluster.submit("same", &serde_json::to_string(&spec).unwrap()).unwrap();
    let job = cluster.wait_for("same", &ENDED, SOON).unwrap();
    assert_eq!((&job["status"]["phase"], &job["spec"]), (&"COMPLETED".into(), &spec), "{job:#}");
}
