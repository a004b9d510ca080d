//! `top`: what servers and running jobs use now; `seff`: what a job has used of what it had.

use std::{io::IsTerminal as _, time::Duration};

use proto_wire::v1;

use super::allocation::Ending;
use crate::{
    args::{Efficiency, Output, Top, TopNoun},
    client::Api,
    error::Error,
    output::{now, print},
    render::{self, Answer, Behind, Kind},
};

/// More often than this there is nothing new.
const LEAST: Duration = Duration::from_secs(1);
/// Clears a terminal and goes to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `top nodes|jobs`: what nodes or running jobs use now.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Top, api: &Api) -> Result<(), Error> {
    render::check_list(&args.list)?;
    if !args.watch {
        return print(&shown(args, api).await?);
    }
    let mut ending = Ending::listen()?;
    let clear = std::io::stdout().is_terminal() && args.list.for_people();
    let mut every = tokio::time::interval(args.every.max(LEAST));
    loop {
        tokio::select! {
            _ = every.tick() => {
                let text = shown(args, api).await?;
                print(&if clear { format!("{CLEAR}{text}") } else { text })?;
            }
            _ = ending.next() => return Ok(()),
        }
    }
}

async fn shown(args: &Top, api: &Api) -> Result<String, Error> {
    match args.noun {
        TopNoun::Nodes => {
            let mut answer = api.list_node_usage().await?;
            let kind = Kind {
                message: "rail.v1.NodeUsage",
                name: &|one: &v1::NodeUsage| format!("node/{}", one.node),
                table: &|list, _| render::node_usage(list, now()),
                columns: NODE_COLUMNS,
                slurm: None,
            };
            reported(
                args,
                &kind,
                &mut answer,
                "no server tells what it uses; its agent may be older, or not connected",
            )
        }
        TopNoun::Jobs => {
            let mut answer = api.list_job_usage(&api.tenant).await?;
            let kind = Kind {
                message: "rail.v1.JobUsage",
                name: &|one: &v1::JobUsage| format!("job/{}/{}", one.tenant, one.job),
                table: &|list, _| render::job_usage(list, now()),
                columns: JOB_COLUMNS,
                slurm: None,
            };
            reported(args, &kind, &mut answer, "no job runs")
        }
    }
}

const NODE_COLUMNS: &[Behind] = &[
    Behind::new("CPU", ".cpuMillis"),
    Behind::new("MEMORY", ".memoryUsedBytes"),
    Behind::ago("TOLD", ".time"),
];
const JOB_COLUMNS: &[Behind] =
    &[Behind::new("CPU", ".cpuMillis"), Behind::new("MEMORY", ".memoryBytes"), Behind::ago("TOLD", ".time")];

fn reported<L: Answer>(
    args: &Top,
    kind: &Kind<L::Item>,
    answer: &mut L,
    nothing: &str,
) -> Result<String, Error> {
    if answer.items().is_empty() && args.list.for_people() {
        eprintln!("{nothing}");
    }
    render::list(&args.list, kind, answer)
}

/// `seff JOB`: what a job has used of what it had.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Output`] if standard output cannot be written to.
pub async fn efficiency(args: &Efficiency, api: &Api) -> Result<(), Error> {
    let job = api.get_job(&api.job_ref(&args.job)).await?;
    let found = render::Efficiency::of(&job, now());
    let text = match args.output {
        Output::Json | Output::Yaml => {
            let text = serde_json::to_string_pretty(&found.json());
            // JSON is YAML.
            text.map_err(|error| Error::Config(error.to_string()))? + "\n"
        }
        Output::Name => format!("job/{}\n", found.job),
        Output::Table | Output::Wide => found.text(),
    };
    print(&text)
}
