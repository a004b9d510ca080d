//! Rails: who uses them and how, and what engines chose to do on them.

use proto_wire::v1;

use super::{Table, words};

/// Names that one cell holds.
const NAMED: usize = 3;

/// The rails, what is drained, and who is not off it.
#[must_use]
pub fn rails(answer: &v1::ListRailsResponse, wide: bool, now: f64) -> String {
    let mut table = Table::new(["RAIL", "NAME", "LEAVES", "NODES", "UP", "DRAINED", "JOBS", "ENGINES"]);
    for rail in &answer.rails {
        let jobs: Vec<String> = rail.jobs.iter().map(|job| format!("{}/{}", job.tenant, job.job)).collect();
        let jobs = match rail.jobs_total {
            0 => String::new(),
            total => few(&jobs, total as usize, wide),
        };
        table.row([
            rail.rail.to_string(),
            rail.name.clone(),
            few(&rail.leaves, rail.leaves.len(), wide),
            rail.nodes.to_string(),
            rail.nodes_up.to_string(),
            share(rail.nodes_drained, rail.nodes),
            jobs,
            engines(&rail.engines),
        ]);
    }
    let mut out = table.render("");
    if !answer.drains.is_empty() {
        let mut drains = Table::new(["DRAINED", "SINCE", "BY", "REASON"]);
        for drain in &answer.drains {
            let since = words::age(drain.since.as_ref(), None, now);
            drains.row([drain.target.clone(), since, drain.by.clone(), drain.reason.clone()]);
        }
        out.push('\n');
        out.push_str(&drains.render(""));
    }
    if answer.pending_total > 0 {
        out.push_str(&format!("\nnot off it yet: {}\n", answer.pending_total));
        let mut pending = Table::new(["JOB", "NODE", "RAIL", "STATE", "WHY"]);
        for one in &answer.pending {
            let job = if one.job.is_empty() { String::new() } else { format!("{}/{}", one.tenant, one.job) };
            let state = words::rail_state(one.state).to_owned();
            pending.row([job, one.node.clone(), one.rail.to_string(), state, one.note.clone()]);
        }
        out.push_str(&pending.render(""));
    }
    out
}

/// The first names and how many more there are.
fn few(names: &[String], total: usize, all: bool) -> String {
    let shown = if all { names.len() } else { names.len().min(NAMED) };
    let listed = names[..shown].join(",");
    match total.saturating_sub(shown) {
        0 => listed,
        more if shown == 0 => more.to_string(),
        more => format!("{listed},+{more}"),
    }
}

fn share(part: u32, all: u32) -> String {
    match part {
        0 => "no".to_owned(),
        part if part == all => "yes".to_owned(),
        part => format!("{part} of {all}"),
    }
}

fn engines(counts: &[v1::RailStateCount]) -> String {
    let count = |one: &v1::RailStateCount| format!("{} {}", one.engines, words::rail_state(one.state));
    counts.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// What may be named on a command line: rails, leaves, and what is drained.
#[must_use]
pub fn rail_names(answer: &v1::ListRailsResponse) -> Vec<String> {
    let rails = answer.rails.iter().map(|rail| format!("rail/{}", rail.rail));
    let leaves = answer.rails.iter().flat_map(|rail| &rail.leaves).map(|leaf| format!("leaf/{leaf}"));
    let drains = answer.drains.iter().map(|drain| drain.target.clone());
    let mut names: Vec<String> = rails.chain(leaves).collect();
    for drain in drains {
        if !names.contains(&drain) {
            names.push(drain);
        }
    }
    names
}

/// What the nodes of a running job say of their rails.
#[must_use]
pub fn node_rails(nodes: &[v1::NodeRails], omitted: u32, now: f64) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        "NODE",
        "RAIL",
        "STATE",
        "FOR",
        "SENT",
        "RECEIVED",
        "TX/S",
        "RX/S",
        "PEERS",
        "FLAPS",
        "LAST CAUSE",
    ]);
    for node in nodes {
        for rail in &node.rails {
            table.row([
                node.node.clone(),
                rail.rail.to_string(),
                words::rail_state(rail.state).to_owned(),
                words::age(rail.since.as_ref(), None, now),
                words::bytes(rail.tx_bytes),
                words::bytes(rail.rx_bytes),
                words::bytes(rail.tx_rate),
                words::bytes(rail.rx_rate),
                format!("{}/{}", rail.peers_up, rail.peers),
                rail.flaps.to_string(),
                rail.cause.clone(),
            ]);
        }
    }
    let oldest =
        nodes.iter().filter_map(|node| node.time.as_ref()).min_by_key(|time| (time.seconds, time.nanos));
    let ago = words::age(oldest, None, now);
    let mut out = format!("\nrails, as the engines saw them {ago} ago or later:\n{}", table.render(""));
    if omitted > 0 {
        out.push_str(&format!("and {omitted} more nodes whose rails are all up\n"));
    }
    out
}

/// How a job's operations are carried out.
#[must_use]
pub fn choices(choices: &[v1::AlgorithmChoice]) -> String {
    if choices.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["OPERATION", "UP TO", "ALGORITHM", "WHY"]);
    for choice in choices {
        let (operation, algorithm) = (choice.operation.clone(), choice.algorithm.clone());
        table.row([operation, words::bytes(choice.bytes), algorithm, choice.reasons.join("; ")]);
    }
    format!("\n{}", table.render(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::rail_report::State;

    fn answer() -> v1::ListRailsResponse {
        let count = |state: State, engines| v1::RailStateCount { state: state.into(), engines };
        let job = v1::RailJob { tenant: "nlp".into(), job: "a".into(), nodes: 2, ..Default::default() };
        let rail = |rail, drained: u32| v1::RailStatus {
            rail,
            name: ["red", "green"][rail as usize].into(),
            leaves: (0..5).map(|pod| format!("p{pod}r{rail}")).collect(),
            nodes: 4,
            nodes_up: 4,
            nodes_drained: drained,
            jobs: vec![job.clone()],
            jobs_total: 2,
            engines: vec![count(State::Unspecified, 1), count(State::Up, 3)],
            ..Default::default()
        };
        let drain = |target: &str| v1::RailDrain {
            target: target.into(),
            reason: "cable".into(),
            by: "admin/root".into(),
            since: Some(prost_types::Timestamp { seconds: 40, nanos: 0 }),
        };
        let pending = v1::RailUse {
            tenant: "nlp".into(),
            job: "a".into(),
            node: "n1".into(),
            rail: 1,
            state: State::Draining.into(),
            note: "it moves".into(),
            ..Default::default()
        };
        v1::ListRailsResponse {
            rails: vec![rail(0, 0), rail(1, 1)],
            drains: vec![drain("node/n1:1")],
            pending: vec![pending],
            pending_total: 1,
        }
    }

    #[test]
    fn a_table_of_rails() {
        let expected = "\
RAIL  NAME   LEAVES             NODES  UP  DRAINED  JOBS      ENGINES
0     red    p0r0,p1r0,p2r0,+2  4      4   no       nlp/a,+1  1 unknown, 3 up
1     green  p0r1,p1r1,p2r1,+2  4      4   1 of 4   nlp/a,+1  1 unknown, 3 up

DRAINED    SINCE  BY          REASON
node/n1:1  1m     admin/root  cable

not off it yet: 1
JOB    NODE  RAIL  STATE     WHY
nlp/a  n1    1     draining  it moves
";
        assert_eq!(rails(&answer(), false, 100.0), expected);
        assert!(rails(&answer(), true, 100.0).contains("p0r0,p1r0,p2r0,p3r0,p4r0"));
        let names = rail_names(&answer());
        assert_eq!((names.len(), names[0].as_str(), names[12 - 1].as_str()), (13, "rail/0", "leaf/p4r1"));
        assert_eq!(names[12], "node/n1:1");
    }

    #[test]
    fn tables_of_an_explanation() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let report = v1::RailReport {
            rail: 2,
            state: State::Down.into(),
            since: at(90),
            tx_bytes: 1 << 30,
            rx_rate: 1 << 20,
            flaps: 3,
            cause: "reset".into(),
            peers: 3,
            ..Default::default()
        };
        let node = v1::NodeRails { node: "n0".into(), rails: vec![report], time: at(98) };
        let expected = "
rails, as the engines saw them 2s ago or later:
NODE  RAIL  STATE  FOR  SENT   RECEIVED  TX/S  RX/S   PEERS  FLAPS  LAST CAUSE
n0    2     down   10s  1 GiB  0 B       0 B   1 MiB  0/3    3      reset
and 4 more nodes whose rails are all up
";
        assert_eq!(node_rails(&[node], 4, 100.0), expected);
        assert!(node_rails(&[], 0, 0.0).is_empty() && choices(&[]).is_empty());
        let choice = v1::AlgorithmChoice {
            operation: "all-reduce".into(),
            bytes: 65_536,
            algorithm: "direct".into(),
            reasons: vec!["a".into(), "b".into()],
        };
        let text = choices(&[choice]);
        assert_eq!(text, "\nOPERATION   UP TO   ALGORITHM  WHY\nall-reduce  64 KiB  direct     a; b\n");
    }
}
