//! `top`: what servers and running jobs use now; `seff`: what a job has used of what it had.

use std::time::Duration;

use proto_wire::v1;
use tokio::{signal::unix::SignalKind, time::MissedTickBehavior};

use super::{
    allocation::{Ending, listen_to},
    screen::Screen,
};
use crate::{
    args::{Efficiency, Output, Top, TopNoun},
    client::Api,
    error::Error,
    output::{now, print},
    render::{self, Answer, Behind, Kind},
};

/// More often than this there is nothing new.
const LEAST: Duration = Duration::from_secs(1);

/// `top nodes|jobs`: what nodes or running jobs use now.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Top, api: &Api) -> Result<(), Error> {
    render::check_list(&args.list)?;
    if !args.watch {
        let (text, nothing) = shown(args, api).await?;
        if !nothing.is_empty() {
            eprintln!("{nothing}");
        }
        return print(&text);
    }
    let mut ending = Ending::listen()?;
    let mut resized = listen_to(SignalKind::window_change())?;
    let screen = if args.list.for_people() { Screen::begin()? } else { None };
    let mut every = tokio::time::interval(args.every.max(LEAST));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        tokio::select! {
            _ = every.tick() => {
                let (text, nothing) = tokio::select! {
                    shown = shown(args, api) => shown?,
                    _ = ending.next() => return Ok(()),
                };
                match &screen {
                    Some(_) if !nothing.is_empty() => last = format!("{nothing}\n"),
                    Some(_) => last = text,
                    None => {
                        if !nothing.is_empty() {
                            eprintln!("{nothing}");
                        }
                        print(&text)?;
                    }
                }
            }
            _ = resized.recv() => {}
            _ = ending.next() => return Ok(()),
        }
        if let Some(screen) = &screen {
            screen.draw(|_| (last.clone(), 0))?;
        }
    }
}

/// What there is to print; and a word to people where there is nothing.
async fn shown(args: &Top, api: &Api) -> Result<(String, &'static str), Error> {
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
    nothing: &'static str,
) -> Result<(String, &'static str), Error> {
    let nothing = if answer.items().is_empty() && args.list.for_people() { nothing } else { "" };
    Ok((render::list(&args.list, kind, answer)?, nothing))
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
