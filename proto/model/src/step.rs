//! Steps: commands that are run inside a running job. What is asked for, and which part of it each server has.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use thiserror::Error;

use crate::NodeName;

/// Size of a terminal's window in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepWindow {
    /// Lines of the window.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// The terminal of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepTerminal {
    /// Lines and columns of its window.
    pub window: StepWindow,
    /// What `TERM` says; empty: nothing.
    pub kind: String,
}

/// What a step does on each of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepWork {
    /// Runs a program: itself and its arguments, never empty.
    Run(Vec<String>),
    /// Sends a signal, 1 to 64, to the job's own ranks, and is over.
    Signal(i32),
    /// Carries bytes between whoever asked and this TCP port of 127.0.0.1, never 0, as the job's ranks reach it.
    Connect(u16),
}

impl Default for StepWork {
    fn default() -> Self {
        Self::Run(Vec::new())
    }
}

impl StepWork {
    /// Its name in messages: the program without its arguments, or what else it is.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Run(argv) => Cow::Borrowed(argv.first().map_or("", String::as_str)),
            Self::Signal(signal) => Cow::Owned(format!("signal {signal}")),
            Self::Connect(port) => Cow::Owned(format!("port {port}")),
        }
    }
}

/// What somebody asks to be run in a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepRequest {
    /// What every process of the step runs.
    pub work: StepWork,
    /// Variables that are added to the environment.
    pub env: BTreeMap<String, String>,
    /// Empty: where the job's ranks begin.
    pub working_dir: String,
    /// Servers, in this order; none: all of the job.
    pub nodes: Vec<NodeName>,
    /// On the first of them alone.
    pub one: bool,
    /// Processes on each; at least 1.
    pub ranks_per_node: u32,
    /// Standard input is sent to the first process.
    pub stdin: bool,
    /// It has a terminal: then it is one process.
    pub terminal: Option<StepTerminal>,
}

/// One server's part of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOrder {
    /// Random; the same on all servers of the step.
    pub id: u64,
    /// The first server of the step.
    pub first_node: NodeName,
    /// What this server's processes of the step run.
    pub work: StepWork,
    /// Variables that are added to the environment.
    pub env: BTreeMap<String, String>,
    /// Empty: where the job's ranks begin.
    pub working_dir: String,
    /// Standard input is sent to this server's first process.
    pub stdin: bool,
    /// The terminal that it has; `None`: none.
    pub terminal: Option<StepTerminal>,
    /// Number of this server's first process.
    pub first_rank: u32,
    /// Processes on this server.
    pub ranks_here: u32,
    /// Processes of the step.
    pub ranks: u32,
    /// Servers of the step.
    pub nodes: u32,
    /// Number of this server among those of the step, from 0.
    pub node_index: u32,
}

/// What comes from whoever runs a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepInput {
    /// Bytes for the standard input of the step.
    Data(Vec<u8>),
    /// The standard input is at its end; no more bytes follow.
    EndOfInput,
    /// A signal, by its Linux number, for all processes of the step.
    Signal(i32),
    /// The terminal's window has another size.
    Window(StepWindow),
    /// The step is to end.
    End,
}

/// Why a step cannot run in this job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StepFlaw {
    /// A server is not the job's.
    #[error("the job does not run on '{node}'; it runs on {here}")]
    NotOfTheJob {
        /// The server that was named and does not belong to the job.
        node: NodeName,
        /// The job's servers, as text for the message.
        here: String,
    },
    /// A terminal belongs to one process.
    #[error(
        "a terminal belongs to one process, and this step has {ranks}; name one server, or say that it runs on the first alone"
    )]
    Terminal {
        /// Processes of the step.
        ranks: u32,
    },
}

/// Names of servers that an error lists.
const LISTED: usize = 32;

impl StepRequest {
    /// Processes on one server at most.
    pub const RANKS_PER_NODE: u32 = 256;
    /// Bytes of one piece of input or output at most.
    pub const CHUNK: usize = 32 << 10;
    /// Bytes of standard input that may be under way.
    pub const WINDOW: usize = 64 << 10;

    /// Each server's part, in a job that runs on these servers; `id` is random.
    ///
    /// # Errors
    /// What the job does not have, or a terminal for more than one process.
    pub fn parts(&self, job: &[NodeName], id: u64) -> Result<Vec<(NodeName, StepOrder)>, StepFlaw> {
        let here: BTreeSet<&NodeName> = job.iter().collect();
        if let Some(foreign) = self.nodes.iter().find(|node| !here.contains(node)) {
            let names: Vec<&str> = job.iter().take(LISTED).map(NodeName::as_str).collect();
            let more = if job.len() > LISTED { ", ..." } else { "" };
            let here = format!("{}{more}", names.join(", "));
            return Err(StepFlaw::NotOfTheJob { node: foreign.clone(), here });
        }
        let all = if self.nodes.is_empty() { job } else { &self.nodes };
        let one = self.one || matches!(self.work, StepWork::Connect(_));
        let chosen = if one { all.get(..1).unwrap_or_default() } else { all };
        let Some(first) = chosen.first() else { return Ok(Vec::new()) };
        let nodes = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        let here = self.ranks_per_node.max(1);
        let ranks = nodes.saturating_mul(here);
        if self.terminal.is_some() && ranks > 1 {
            return Err(StepFlaw::Terminal { ranks });
        }
        let part = |(index, node): (u32, &NodeName)| {
            let order = StepOrder {
                id,
                first_node: first.clone(),
                work: self.work.clone(),
                env: self.env.clone(),
                working_dir: self.working_dir.clone(),
                stdin: self.stdin && index == 0,
                terminal: self.terminal.clone(),
                first_rank: index.saturating_mul(here),
                ranks_here: here,
                ranks,
                nodes,
                node_index: index,
            };
            (node.clone(), order)
        };
        Ok((0..).zip(chosen).map(part).collect())
    }
}

impl StepOrder {
    /// Which of a server's GPUs its process number `local` has: all of them where it is alone, else its share; where there are more
    /// processes than GPUs several share one.
    #[must_use]
    pub fn gpus_of(&self, local: u32, gpus: &[u32]) -> Vec<u32> {
        let (count, here) = (gpus.len(), self.ranks_here.max(1) as usize);
        let local = local as usize;
        if count == 0 {
            return Vec::new();
        }
        let (first, end) = (local * count / here, (local + 1) * count / here);
        let share = gpus.get(first..end.max(first + 1)).or_else(|| gpus.get(count - 1..));
        share.unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeName> {
        (0..count).map(|at| NodeName::new(format!("n{at}")).unwrap()).collect()
    }

    fn request() -> StepRequest {
        let work = StepWork::Run(vec!["true".into()]);
        StepRequest { work, ranks_per_node: 1, stdin: true, ..StepRequest::default() }
    }

    #[test]
    fn every_server_has_its_part_and_the_first_process_the_input() {
        let parts = StepRequest { ranks_per_node: 4, ..request() }.parts(&nodes(3), 7).unwrap();
        let firsts: Vec<u32> = parts.iter().map(|(_, order)| order.first_rank).collect();
        assert_eq!(firsts, [0, 4, 8]);
        assert!(parts.iter().all(|(_, order)| order.ranks == 12 && order.nodes == 3));
        assert_eq!(parts.iter().filter(|(_, order)| order.stdin).count(), 1);
        let some = StepRequest { nodes: nodes(3)[1..].to_vec(), ..request() }.parts(&nodes(3), 7).unwrap();
        assert_eq!(some.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
        let port = StepRequest { work: StepWork::Connect(80), ..request() }.parts(&nodes(3), 7).unwrap();
        assert_eq!(port.len(), 1, "a connection has one other end");
        let one = StepRequest { one: true, terminal: Some(StepTerminal::default()), ..request() };
        assert_eq!(one.parts(&nodes(3), 7).unwrap().len(), 1);
    }

    #[test]
    fn what_the_job_does_not_have_is_refused_with_what_it_has() {
        let foreign = StepRequest { nodes: nodes(4), ..request() };
        let reported = foreign.parts(&nodes(2), 7).unwrap_err().to_string();
        assert_eq!(reported, "the job does not run on 'n2'; it runs on n0, n1");
        let shared = StepRequest { terminal: Some(StepTerminal::default()), ..request() };
        assert_eq!(shared.parts(&nodes(2), 7), Err(StepFlaw::Terminal { ranks: 2 }));
    }

    #[test]
    fn processes_share_the_gpus_of_their_server() {
        let whole = request().parts(&nodes(1), 7).unwrap().remove(0).1;
        let order = |ranks_here| StepOrder { ranks_here, ..whole.clone() };
        let shares = |here: u32, gpus: &[u32]| -> Vec<Vec<u32>> {
            (0..here).map(|local| order(here).gpus_of(local, gpus)).collect()
        };
        assert_eq!(shares(1, &[4, 5, 6]), [vec![4, 5, 6]]);
        assert_eq!(shares(2, &[4, 5, 6, 7]), [vec![4, 5], vec![6, 7]]);
        assert_eq!(shares(4, &[1, 2]), [vec![1], vec![1], vec![2], vec![2]]);
        assert_eq!(shares(2, &[]), [Vec::<u32>::new(), Vec::new()]);
    }
}
