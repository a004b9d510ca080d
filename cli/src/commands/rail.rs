//! Rails: what they carry, and taking them out of use and back.

use std::time::Duration;

use proto_wire::v1;
use tokio::time::Instant;

use super::progress::Progress;
use crate::{
    args::{Drain, RailCommand},
    client::{Api, repeat},
    error::Error,
    output::print,
    render,
};

/// Between two looks at who is still on a drained rail: first, and at most.
const CHECKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Uses that one line names.
const NAMED: usize = 3;

/// `rail ls|drain|undrain`: the rails in use, and taking them out of use and back.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Timeout`] if a drain takes longer than it may;
/// [`Error::Interrupted`] if the wait is ended.
pub async fn run(command: &RailCommand, api: &Api) -> Result<(), Error> {
    match command {
        RailCommand::Ls { target, output } => {
            let seen = list(target.as_deref().unwrap_or_default(), api).await?;
            let table = |wide| render::rails(&seen, wide, crate::output::now());
            print(&render::render(
                *output,
                &seen,
                "rail.v1.ListRailsResponse",
                || render::rail_names(&seen),
                table,
            )?)
        }
        RailCommand::Drain(args) => drain(args, api).await,
        RailCommand::Undrain { target, output } => {
            let request = v1::UndrainRailRequest { target: target.clone() };
            let answer = repeat(format!("undrain `{target}`"), |_| {
                let (mut client, request) = (api.rails(), request.clone());
                async move { client.undrain_rail(request).await }
            })
            .await?;
            let names = || vec![answer.target.clone()];
            let table = |_| undrained(&answer);
            print(&render::render(*output, &answer, "rail.v1.UndrainRailResponse", names, table)?)
        }
    }
}

async fn list(target: &str, api: &Api) -> Result<v1::ListRailsResponse, Error> {
    let request = v1::ListRailsRequest { target: target.to_owned() };
    repeat("list rails", |_| {
        let (mut client, request) = (api.rails(), request.clone());
        async move { client.list_rails(request).await }
    })
    .await
}

async fn drain(args: &Drain, api: &Api) -> Result<(), Error> {
    let request =
        v1::DrainRailRequest { target: args.target.clone(), reason: args.reason.clone(), force: args.force };
    let mut answer = repeat(format!("drain `{}`", args.target), |_| {
        let (mut client, request) = (api.rails(), request.clone());
        async move { client.drain_rail(request).await }
    })
    .await?;
    let target = answer.drain.clone().unwrap_or_default().target;
    if args.wait && answer.pending_total > 0 {
        let last = until_empty(&target, &answer, args.timeout, api).await?;
        (answer.pending, answer.pending_total) = (last.pending, last.pending_total);
    }
    let names = || vec![target.clone()];
    let table = |_| drained(&answer);
    print(&render::render(args.output, &answer, "rail.v1.DrainRailResponse", names, table)?)
}

/// Looks again until nobody is on it; a timeout or Ctrl-C leaves the drain as it is.
async fn until_empty(
    target: &str,
    first: &v1::DrainRailResponse,
    limit: Duration,
    api: &Api,
) -> Result<v1::ListRailsResponse, Error> {
    let progress = Progress::new();
    let deadline = Instant::now() + limit;
    let mut pause = CHECKS.0;
    let mut last = still(&first.pending, first.pending_total);
    progress.say(&last);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))) => {}
            _ = tokio::signal::ctrl_c() => {
                drop(progress);
                eprintln!("{target} stays drained; `railctl rail undrain {target}` brings it back");
                return Err(Error::Interrupted);
            }
        }
        let seen = list(target, api).await?;
        if seen.pending_total == 0 {
            return Ok(seen);
        }
        let text = still(&seen.pending, seen.pending_total);
        if Instant::now() >= deadline {
            let what = format!("emptying {target}, which stays drained ({text}),");
            return Err(Error::Timeout { what, limit });
        }
        if text != last {
            progress.say(&text);
            last = text;
        }
        pause = (pause * 2).min(CHECKS.1);
    }
}

/// Who is still on it, in one line.
fn still(pending: &[v1::RailUse], total: u32) -> String {
    let one = |one: &v1::RailUse| {
        let job = if one.job.is_empty() { "a job".to_owned() } else { format!("{}/{}", one.tenant, one.job) };
        format!("{job} on {} ({})", one.node, one.note)
    };
    let named: Vec<String> = pending.iter().take(NAMED).map(one).collect();
    let more = if total as usize > named.len() { ", ..." } else { "" };
    let engines = if total == 1 { "1 engine is" } else { &format!("{total} engines are") };
    format!("{engines} not off it: {}{more}", named.join(", "))
}

fn drained(answer: &v1::DrainRailResponse) -> String {
    let drain = answer.drain.clone().unwrap_or_default();
    let already = if answer.changed { "" } else { " already" };
    let why = if drain.reason.is_empty() { String::new() } else { format!(" ({})", drain.reason) };
    let who = match answer.pending_total {
        0 => "no running job uses it".to_owned(),
        total => format!("{}; --wait waits for them", still(&answer.pending, total)),
    };
    format!("{} is drained{already}{why}; {who}\n", drain.target)
}

fn undrained(answer: &v1::UndrainRailResponse) -> String {
    let target = &answer.target;
    let mut text = match answer.changed {
        true => format!("{target} is used again\n"),
        false => format!("{target} was not drained\n"),
    };
    for drain in &answer.remaining {
        text.push_str(&format!("{} is still drained", drain.target));
        text.push_str(&if drain.reason.is_empty() {
            "\n".to_owned()
        } else {
            format!(" ({})\n", drain.reason)
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(node: &str) -> v1::RailUse {
        v1::RailUse {
            tenant: "nlp".into(),
            job: "a".into(),
            node: node.into(),
            note: "it moves".into(),
            ..Default::default()
        }
    }

    #[test]
    fn answers_say_what_is_so_and_what_comes() {
        let drain = v1::RailDrain { target: "rail/1".into(), reason: "upgrade".into(), ..Default::default() };
        let mut answer =
            v1::DrainRailResponse { drain: Some(drain.clone()), changed: true, ..Default::default() };
        assert_eq!(drained(&answer), "rail/1 is drained (upgrade); no running job uses it\n");
        (answer.pending, answer.pending_total, answer.changed) =
            (vec![pending("n0"), pending("n1")], 5, false);
        assert_eq!(
            drained(&answer),
            "rail/1 is drained already (upgrade); 5 engines are not off it: nlp/a on n0 (it moves), nlp/a on n1 (it \
             moves), ...; --wait waits for them\n"
        );
        let mut back =
            v1::UndrainRailResponse { target: "node/n1:1".into(), changed: true, remaining: Vec::new() };
        assert_eq!(undrained(&back), "node/n1:1 is used again\n");
        (back.changed, back.remaining) = (false, vec![drain]);
        assert_eq!(undrained(&back), "node/n1:1 was not drained\nrail/1 is still drained (upgrade)\n");
    }
}
