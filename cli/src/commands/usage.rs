//! `usage`: what attempts of jobs held, summed or one by one, also of jobs that are gone.

use proto_wire::v1::{self, sum_usage_request::By};

use crate::{
    args::{Usage, UsageBy, UsageCommand, UsageFilter, UsageList, UsageSum},
    client::{Api, repeat},
    error::Error,
    output::{now, print},
    render::{self, Behind, Kind},
};

const RECORD_COLUMNS: &[Behind] = &[
    Behind::new("HELD", ".amount.heldMs"),
    Behind::new("GPU-HOURS", ".amount.gpuMs"),
    Behind::new("PLACED", ".placeTime"),
    Behind::new("ENDED", ".endTime"),
];
const SUM_COLUMNS: &[Behind] = &[
    Behind::new("GPU-HOURS", ".amount.gpuMs"),
    Behind::new("NODE-HOURS", ".amount.nodeMs"),
    Behind::new("NIC-HOURS", ".amount.nicMs"),
];

/// Runs it.
///
/// # Errors
/// [`Error::Usage`] if options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Usage, api: &Api) -> Result<(), Error> {
    match &args.command {
        None => sum(&args.sum, api).await,
        Some(UsageCommand::List(args)) => list(args, api).await,
    }
}

/// Whose, from when, until when.
struct Range {
    tenant: String,
    since: prost_types::Timestamp,
    until: Option<prost_types::Timestamp>,
}

fn range(filter: &UsageFilter, api: &Api) -> Result<Range, Error> {
    let now = now();
    let (since, until) = (filter.since.time(now), filter.until.map(|until| until.time(now)));
    ordered(&since, until.as_ref())?;
    Ok(Range { tenant: if filter.all_tenants { String::new() } else { api.tenant.clone() }, since, until })
}

/// Nothing is held in an interval that ends before it begins: whoever asks for one means another.
fn ordered(since: &prost_types::Timestamp, until: Option<&prost_types::Timestamp>) -> Result<(), Error> {
    match until {
        Some(until) if (until.seconds, until.nanos) <= (since.seconds, since.nanos) => {
            Err(Error::Usage("--until is not after --since".to_owned()))
        }
        _ => Ok(()),
    }
}

async fn sum(args: &UsageSum, api: &Api) -> Result<(), Error> {
    render::check_list(&args.list)?;
    let by = match args.by {
        UsageBy::Tenant => By::Tenant,
        UsageBy::Queue => By::Queue,
        UsageBy::User => By::User,
        UsageBy::Job => By::Job,
    };
    let Range { tenant, since, until } = range(&args.filter, api)?;
    let request = v1::SumUsageRequest {
        tenant,
        queue: args.filter.queue.clone().unwrap_or_default(),
        user: args.filter.user.clone().unwrap_or_default(),
        since: Some(since),
        until,
        by: by.into(),
        limit: args.lines(),
    };
    let mut answer = repeat("sum up what was used", |_| {
        let (mut client, request) = (api.usage(), request.clone());
        async move { client.sum_usage(request).await }
    })
    .await?;
    let kind = Kind {
        message: "rail.v1.UsageSum",
        name: &|sum| render::usage_name(sum, by),
        table: &|sums, wide| render::usage_sums(sums, by, wide),
        columns: SUM_COLUMNS,
        slurm: None,
    };
    if args.list.for_people() {
        eprintln!("{}", render::usage_total(&answer, &since));
    }
    if answer.left_out > 0 {
        eprintln!("{}", render::usage_left_out(answer.left_out));
    }
    print(&render::list(&args.list, &kind, &mut answer)?)
}

async fn list(args: &UsageList, api: &Api) -> Result<(), Error> {
    render::check_list(&args.list)?;
    let Range { tenant, since, until } = range(&args.filter, api)?;
    let request = v1::ListUsageRecordsRequest {
        tenant,
        queue: args.filter.queue.clone().unwrap_or_default(),
        user: args.filter.user.clone().unwrap_or_default(),
        since: Some(since),
        until,
        ..v1::ListUsageRecordsRequest::default()
    };
    let most = if args.limit == 0 { usize::MAX } else { args.limit as usize };
    let mut answer = api.list_usage_records(request, most).await?;
    let kind = Kind {
        message: "rail.v1.UsageRecord",
        name: &render::usage_record_name,
        table: &render::usage_records,
        columns: RECORD_COLUMNS,
        slurm: None,
    };
    if answer.records.is_empty() && args.list.for_people() {
        eprintln!("no attempts");
    }
    if !answer.next_page_token.is_empty() {
        eprintln!(
            "there are more attempts than the first {}, which are shown; see --limit",
            answer.records.len()
        );
    }
    print(&render::list(&args.list, &kind, &mut answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_after_it_begins() {
        let at = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        assert!(ordered(&at(7, 0), None).is_ok());
        assert!(ordered(&at(7, 0), Some(&at(7, 1))).is_ok());
        for until in [at(7, 0), at(6, 9)] {
            let error = ordered(&at(7, 0), Some(&until)).unwrap_err();
            assert!(matches!(&error, Error::Usage(why) if why.contains("--since")), "{error}");
        }
    }
}
