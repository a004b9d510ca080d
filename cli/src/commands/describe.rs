//! Everything about one thing.

use clap::ValueEnum as _;
use proto_model::many;

use super::{
    array::{self, Array, Counts, Named},
    license, logs, lookup, queue, reserve, schedule, secret, service_class, switches, webhook,
};
use crate::{
    args::{Describe, DescribeNoun},
    client::Api,
    error::Error,
    output::{now, print},
    render,
};

/// Lines of each rank that failed first.
const TAIL: u32 = 10;

/// `describe KIND NAME...`: all are tried, the first error is given.
///
/// # Errors
/// [`Error::Usage`] if the kind is not known; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Describe, api: &Api) -> Result<(), Error> {
    let noun = args.noun.kind;
    if let (true, Some(word), Some(_)) = (args.noun.bare, &args.noun.name, args.names.first()) {
        let kinds: Vec<String> = DescribeNoun::value_variants()
            .iter()
            .filter_map(|kind| kind.to_possible_value().map(|value| value.get_name().to_owned()))
            .collect();
        return Err(Error::Usage(format!("`{word}` is no kind; there are {}", kinds.join(", "))));
    }
    let mut names = args.noun.names(&args.names)?;
    if names.is_empty() {
        return Err(args.noun.which());
    }
    if noun == DescribeNoun::Node {
        names = lookup::node_names(&names)?;
    }
    let mut first = Ok(());
    for (at, name) in names.iter().enumerate() {
        match one(noun, name, api).await {
            Ok(text) if at == 0 => print(&text)?,
            Ok(text) => print(&format!("\n{text}"))?,
            Err(error) => first = first.and(Err(error)),
        }
    }
    first
}

async fn one(noun: DescribeNoun, name: &str, api: &Api) -> Result<String, Error> {
    Ok(match noun {
        DescribeNoun::Job => match array::find(name, api).await? {
            Named::Job(job) => {
                let words = logs::last_words(&job, TAIL, api).await;
                let gap = if words.is_empty() { "" } else { "\n" };
                format!("{}{gap}{words}", render::describe_job(&job, now()))
            }
            Named::Array(array) => of_array(&array),
        },
        DescribeNoun::Node => render::describe_node(&lookup::node(name, api).await?, now()),
        DescribeNoun::Queue => render::describe_queue(&queue::get(name, api).await?),
        DescribeNoun::Reservation => render::describe_reservation(&reserve::get(name, api).await?),
        DescribeNoun::Schedule => render::describe_schedule(&schedule::get(name, api).await?, now()),
        DescribeNoun::ServiceClass => render::describe_service_class(&service_class::get(name, api).await?),
        DescribeNoun::Secret => render::describe_secret(&secret::secret::get(name, api).await?),
        DescribeNoun::Config => render::describe_config(&secret::config::get(name, api).await?),
        DescribeNoun::Webhook => render::describe_webhook(&webhook::get(name, api).await?),
        DescribeNoun::Switch => render::describe_switch(&switches::get(name, api).await?, now()),
        DescribeNoun::License => render::describe_license(&license::get(name, api).await?),
        DescribeNoun::Tenant => render::describe_tenant(&lookup::tenant(name, api).await?),
    })
}

/// How far an array is, what failed first, and its elements.
fn of_array(array: &Array) -> String {
    let Array { of, jobs } = array;
    let mut out = format!("array {of}: {}: {}\n", many(jobs.len(), "element"), Counts::of(jobs).words());
    let failures = array::failures(jobs);
    if !failures.is_empty() {
        out.push_str("failed first:\n");
        failures.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    out + &render::jobs(jobs, false, now()).render("")
}
