//! What the whole cluster shares: reservations and licenses.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;
use time::{
    OffsetDateTime, PrimitiveDateTime, UtcOffset, format_description::BorrowedFormatItem,
    macros::format_description,
};

use super::{
    fate::Fate,
    ledger::{Id, Ledger},
    limits::duration,
    site::{Site, Thing},
    tenants::{Tenants, renamed, within},
    values::{self, LONGEST, Labels},
};

/// Times as Slurm prints them, in the zone of its machine.
const TIME: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
/// The largest number of a license.
const MOST_LICENSES: u64 = 1_000_000_000;

/// When it is, and what Slurm's times are counted from.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Seconds since the epoch.
    pub now: i64,
    /// Of Slurm's machine.
    pub offset: UtcOffset,
}

impl Clock {
    /// A time that Slurm has printed, in seconds since the epoch.
    fn seconds(self, text: &str) -> Result<i64, String> {
        let read = PrimitiveDateTime::parse(text, TIME);
        let read = read.map_err(|_| format!("`{text}` is no time such as 2030-01-15T08:00:00"))?;
        Ok(read.assume_offset(self.offset).unix_timestamp())
    }
}

/// Licenses of `Licenses=matlab:40,ansys@server:2`, and the name that each has here.
pub fn licenses(site: &Site, ledger: &mut Ledger) -> (Vec<v1::License>, BTreeMap<String, String>) {
    let (mut made, mut names, mut called) = (Vec::new(), Labels::default(), BTreeMap::new());
    let Some((id, token)) = site.settings.get("licenses") else { return (made, called) };
    for one in values::list(&token.value) {
        let (given, count) = one.rsplit_once([':', '=']).unwrap_or((one, "1"));
        let total = match count.parse::<u64>() {
            Ok(total) if total <= MOST_LICENSES => total,
            _ => {
                ledger.wrong(
                    token,
                    format!("`{count}` in `{one}` is no number of licenses; write for example matlab:40"),
                );
                continue;
            }
        };
        let name = names.take(given);
        if name != given {
            ledger.settle(*id, Fate::Differs, format!("`{given}` is called {name} here"));
        }
        called.entry(given.to_owned()).or_insert_with(|| name.clone());
        made.push(v1::License {
            api_version: "rail/v1".to_owned(),
            kind: "License".to_owned(),
            metadata: Some(v1::Metadata { name, ..v1::Metadata::default() }),
            spec: Some(v1::LicenseSpec {
                total: u32::try_from(total).ok(),
                description: format!("license {given} of Slurm").chars().take(250).collect(),
            }),
            status: None,
        });
    }
    (made, called)
}

/// Reservations that are not over.
pub fn reservations(
    site: &Site,
    tenants: &Tenants,
    clock: Clock,
    ledger: &mut Ledger,
) -> Vec<(String, v1::Reservation)> {
    let (mut made, mut names) = (Vec::new(), Labels::default());
    for one in &site.reservations {
        match reservation(site, one, tenants, clock, ledger) {
            Ok(spec) => {
                let name = names.take(&one.name);
                renamed(one, &name, "reservation", ledger);
                let document = v1::Reservation {
                    api_version: "rail/v1".to_owned(),
                    kind: "Reservation".to_owned(),
                    metadata: Some(v1::Metadata { name, ..v1::Metadata::default() }),
                    spec: Some(spec),
                    status: None,
                };
                made.push((one.name.clone(), document));
            }
            Err(why) => {
                ledger.settle(one.id, Fate::Lost, format!("no reservation is made: {why}"));
                for (id, _) in one.settings.values() {
                    ledger.settle(*id, Fate::Lost, format!("no reservation is made: {why}"));
                }
            }
        }
    }
    made
}

fn reservation(
    site: &Site,
    one: &Thing,
    tenants: &Tenants,
    clock: Clock,
    ledger: &mut Ledger,
) -> Result<v1::ReservationSpec, String> {
    let seconds = |text: &str| clock.seconds(text);
    let start = one.read("starttime", ledger, seconds).ok_or("it has no time to begin")?;
    let end = match one.read("endtime", ledger, seconds) {
        Some(end) => end,
        None => {
            let length = one.read("duration", ledger, values::time).flatten().ok_or("it has no end")?;
            start.saturating_add_unsigned(length)
        }
    };
    if end <= clock.now {
        return Err("it is over".to_owned());
    }
    let mut length = u64::try_from(end.saturating_sub(start))
        .ok()
        .filter(|length| *length > 0)
        .ok_or("it ends before it begins")?;
    if length > LONGEST {
        length = LONGEST;
        for name in ["endtime", "duration"] {
            if let Some((id, _)) = one.get(name) {
                ledger.settle(id, Fate::Differs, "366 days: the longest that a reservation may be");
            }
        }
    }
    let maintenance = flags(one, ledger);
    let whose = if maintenance { BTreeSet::new() } else { whose(site, one, tenants, ledger) };
    if !maintenance && whose.is_empty() {
        return Err("no tenant here is of its accounts and of its users".to_owned());
    }
    if let (true, Some((id, _))) = (maintenance, one.get("users").or(one.get("accounts"))) {
        ledger.settle(id, Fate::Differs, "no job at all runs in a maintenance");
    }
    let nodes: Vec<String> = one.get("nodes").map(|(_, token)| token.value.clone()).into_iter().collect();
    let count = one.read("nodecnt", ledger, values::number::<u32>).flatten().unwrap_or(0);
    if nodes.is_empty() && count == 0 {
        return Err("it has no nodes".to_owned());
    }
    if let Some((_, token)) = one.get("nodes")
        && let Err(error) = proto_model::Names::new(&token.value)
    {
        ledger.wrong(token, error);
    }
    Ok(v1::ReservationSpec {
        count: if nodes.is_empty() { count } else { 0 },
        nodes,
        start: Some(prost_types::Timestamp { seconds: start, nanos: 0 }),
        duration: Some(duration(length)),
        tenants: whose.into_iter().collect(),
        maintenance,
        reason: one.text("comment").chars().filter(|c| !c.is_control()).take(250).collect(),
        ..v1::ReservationSpec::default()
    })
}

/// Whether it is a maintenance; what other flags are is said.
fn flags(one: &Thing, ledger: &mut Ledger) -> bool {
    let Some((id, token)) = one.get("flags") else { return false };
    let is = |flag: &str, names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(flag));
    let all: Vec<&str> = values::list(&token.value).collect();
    let again: Vec<&str> = all
        .iter()
        .copied()
        .filter(|flag| is(flag, &["DAILY", "HOURLY", "WEEKLY", "WEEKDAY", "WEEKEND"]))
        .collect();
    let known = ["MAINT", "SPEC_NODES", "OVERLAP", "IGNORE_JOBS"];
    let others: Vec<&str> =
        all.iter().copied().filter(|flag| !is(flag, &known) && !again.contains(flag)).collect();
    if !again.is_empty() {
        ledger.settle(
            id,
            Fate::Lost,
            format!("{}: a reservation is once; make the next ones", again.join(", ")),
        );
    }
    if !others.is_empty() {
        ledger.settle(id, Fate::Lost, format!("nothing is made of {}", others.join(", ")));
    }
    if all.iter().any(|flag| is(flag, &["OVERLAP", "IGNORE_JOBS"])) {
        ledger.settle(
            id,
            Fate::Differs,
            "reservations may overlap, and jobs that run already do not keep one from being made",
        );
    }
    ledger.settle(id, Fate::Carried, "`maintenance` for MAINT");
    all.iter().any(|flag| is(flag, &["MAINT"]))
}

/// The tenants of its accounts and users; where it names both, those that are of both.
fn whose(site: &Site, one: &Thing, tenants: &Tenants, ledger: &mut Ledger) -> BTreeSet<String> {
    if !site.has_accounts {
        let mut whose = BTreeSet::new();
        for (id, _) in ["accounts", "users"].iter().filter_map(|name| one.get(name)) {
            let here = "the one tenant that all are of, since no accounting dump was given";
            ledger.settle(id, Fate::Differs, here);
            whose.extend(tenants.all.iter().map(|tenant| tenant.name.clone()));
        }
        return whose;
    }
    let accounts = named(one, "accounts", ledger, |account, ledger, id| {
        let found = within(site, tenants, &account.to_ascii_lowercase());
        if !found.parts.is_empty() {
            let parts = found.parts.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let here = format!("`{account}` is a part of {parts}: the whole tenant, since it names tenants");
            ledger.settle(id, Fate::Differs, here);
        }
        found.whole.union(&found.parts).cloned().collect()
    });
    let users = named(one, "users", ledger, |name, ledger, id| {
        let users = site.users.iter().filter(|user| user.of.name == name);
        let spots = users.filter_map(|user| tenants.spots.get(&user.account));
        let found: BTreeSet<String> = spots.map(|spot| spot.tenant.clone()).collect();
        if !found.is_empty() {
            ledger.settle(id, Fate::Differs, format!("the tenants of {name}, with all their users"));
        }
        found
    });
    match (accounts, users) {
        (Some(accounts), Some(users)) => accounts.intersection(&users).cloned().collect(),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => BTreeSet::new(),
    }
}

/// The tenants of one list, by what `find` finds for each name; `None` where it names nobody whose it is.
fn named(
    one: &Thing,
    list: &str,
    ledger: &mut Ledger,
    find: impl Fn(&str, &mut Ledger, Id) -> BTreeSet<String>,
) -> Option<BTreeSet<String>> {
    let (id, token) = one.get(list)?;
    let mut whose = None;
    for given in values::list(&token.value) {
        if given.starts_with('-') {
            let here = format!("`{given}`: nobody is taken out of a reservation; it names its tenants");
            ledger.settle(id, Fate::Lost, here);
            continue;
        }
        let found = find(given, ledger, id);
        if found.is_empty() {
            ledger.settle(id, Fate::Lost, format!("`{given}` has no tenant here"));
        } else {
            ledger.settle(id, Fate::Carried, "`tenants`");
        }
        whose.get_or_insert_with(BTreeSet::new).extend(found);
    }
    whose
}

/// Seconds since the epoch.
pub fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}
