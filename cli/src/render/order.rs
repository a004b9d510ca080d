//! What orders the queue: the places of waiting jobs, and what tenants have used.

use std::time::Duration;

use proto_wire::v1;

use super::{Table, sharing::stamp};
use crate::error::human;

/// GPU-hours in few digits.
fn hours(hours: f64) -> String {
    format!("{hours:.1}")
}

/// The waiting jobs, factor by factor: those to the left decide first.
#[must_use]
pub fn queue_order(order: &v1::QueueOrder, wide: bool) -> String {
    let mut header =
        vec!["PLACE", "JOB", "TENANT", "QUEUE", "RIGHT", "PRIO", "TENANT-SHARE", "QUEUE-SHARE", "SUBMITTED"];
    if wide {
        header.extend(["HEAD-START", "CLASS"]);
    }
    header.push("HELD");
    let mut table = Table::bare();
    table.row(header.into_iter().map(str::to_owned));
    let yes = |yes: bool| if yes { "yes".to_owned() } else { String::new() };
    for one in &order.standings {
        // A queue below its guarantee goes before the tenant's others, whatever they have used.
        let queue_share = if one.below_guarantee { "guaranteed".to_owned() } else { hours(one.queue_share) };
        let mut row = vec![
            one.position.to_string(),
            one.job.clone(),
            one.tenant.clone(),
            one.queue.clone(),
            yes(one.entitled),
            one.priority.to_string(),
            hours(one.tenant_share),
            queue_share,
            stamp(one.submit_time.as_ref()),
        ];
        if wide {
            let head_start = one.head_start.map(|time| Duration::try_from(time).unwrap_or_default());
            row.extend([head_start.map(human).unwrap_or_default(), one.service_class.clone()]);
        }
        row.push(yes(one.held));
        table.row(row);
    }
    let shown = order.standings.len();
    let more = if (shown as u64) < u64::from(order.waiting) {
        format!("{shown} of {} waiting jobs are shown\n", order.waiting)
    } else {
        String::new()
    };
    let off = if order.fair_share { "" } else { "shares do not count here: only priority and age do\n" };
    format!("{}{more}{off}", table.render(""))
}

/// What tenants and queues have used; who has less against its weight goes first.
#[must_use]
pub fn shares(list: &[v1::Share]) -> Table {
    let mut table = Table::new([
        "TENANT",
        "QUEUE",
        "WEIGHT",
        "USED-GPU-HOURS",
        "NORMALIZED",
        "GPUS",
        "GUARANTEED",
        "RUNNING",
        "WAITING",
    ]);
    for share in list {
        table.row([
            share.tenant.clone(),
            share.queue.clone(),
            share.weight.to_string(),
            hours(share.used_gpu_hours),
            hours(share.normalized),
            share.gpus_held.to_string(),
            share.gpus_guaranteed.to_string(),
            share.jobs_running.to_string(),
            share.jobs_waiting.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_factor_by_factor() {
        let one = |position: u32, below_guarantee: bool| v1::QueueStanding {
            position,
            job: format!("j{position}"),
            tenant: "nlp".into(),
            priority: 5,
            tenant_share: 12.34,
            queue_share: 2.0,
            below_guarantee,
            ..v1::QueueStanding::default()
        };
        let order =
            v1::QueueOrder { standings: vec![one(1, true), one(2, false)], waiting: 3, fair_share: true };
        let text = queue_order(&order, false);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["1", "j1", "nlp", "-", "-", "5", "12.3", "guaranteed", "-", "-"], "{text}");
        assert_eq!(rows[2][7], "2.0");
        assert_eq!(rows[3].join(" "), "2 of 3 waiting jobs are shown");
    }
}
