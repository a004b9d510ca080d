//! Lists of every kind: their order, their columns, and the formats that only lists have.

use std::cmp::Ordering;

use controller_fabric::natural;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use proto_wire::v1;
use serde_json_path::JsonPath;

use super::{
    Table,
    canonical::{descriptor, to_json, to_whole_value, to_yaml},
    field::{self, Field},
};
use crate::{
    args::{ListArgs, ListOutput, Output},
    error::Error,
};

/// Longer lists are made tables of in parts of this size.
const PART: usize = 500;

/// Makes a table of some things.
pub type Rows<'k, T> = &'k dyn Fn(&[T]) -> Table;

/// One kind of thing that is listed.
pub struct Kind<'k, T> {
    /// The message's full name, `rail.v1.Job`.
    pub message: &'static str,
    /// The kind/name line of one.
    pub name: &'k dyn Fn(&T) -> String,
    /// A table of some, a wide one where it is asked for.
    pub table: &'k dyn Fn(&[T], bool) -> Table,
    /// The fields behind columns whose cells are not ordered as they are read.
    pub columns: &'static [Behind],
    /// As Slurm's own tools print them.
    pub slurm: Option<Rows<'k, T>>,
}

/// The API's answer to a request for a list.
pub trait Answer: Message + Default {
    /// One of its items.
    type Item: Message + Default;
    /// The message's full name.
    const MESSAGE: &'static str;
    /// The items of the answer.
    fn items(&mut self) -> &mut Vec<Self::Item>;
}

macro_rules! answers {
    ($($answer:ident: $item:ident in $items:ident;)+) => {$(
        impl Answer for v1::$answer {
            type Item = v1::$item;
            const MESSAGE: &'static str = concat!("rail.v1.", stringify!($answer));
            fn items(&mut self) -> &mut Vec<v1::$item> {
                &mut self.$items
            }
        }
    )+};
}

answers! {
    ListJobsResponse: Job in jobs;
    ListNodesResponse: Node in nodes;
    ListTenantsResponse: Tenant in tenants;
    ListQueuesResponse: Queue in queues;
    ListSharesResponse: Share in shares;
    ListReservationsResponse: Reservation in reservations;
    ListSchedulesResponse: Schedule in schedules;
    ListServiceClassesResponse: ServiceClass in service_classes;
    ListLicensesResponse: License in licenses;
    ListSwitchesResponse: Switch in switches;
    ListWebhooksResponse: Webhook in webhooks;
    ListNodeUsageResponse: NodeUsage in nodes;
    ListJobUsageResponse: JobUsage in jobs;
    ListUsageRecordsResponse: UsageRecord in records;
    SumUsageResponse: UsageSum in sums;
    ListTokensResponse: IssuedToken in tokens;
    ListSecretsResponse: Secret in secrets;
    ListConfigsResponse: Config in configs;
}

/// What is behind a column.
pub struct Behind {
    /// Header of the column.
    pub column: &'static str,
    /// Path of the field in the item's JSON, for example `spec.priority`.
    pub field: &'static str,
    /// The greatest value is the least cell: of two ages the later time is the less.
    pub reversed: bool,
}

impl Behind {
    /// A column that shows a field.
    pub const fn new(column: &'static str, field: &'static str) -> Self {
        Self { column, field, reversed: false }
    }

    /// A column that shows how long ago a time was.
    pub const fn ago(column: &'static str, field: &'static str) -> Self {
        Self { column, field, reversed: true }
    }
}

/// Refuses what does not go together, before anything is asked for.
///
/// # Errors
/// Columns of what has none.
pub fn check(args: &ListArgs) -> Result<(), Error> {
    let columns = matches!(args.output, ListOutput::Plain(Output::Table | Output::Wide) | ListOutput::Csv);
    let headers = columns || args.output == ListOutput::Slurm;
    match () {
        () if !columns && !args.columns.is_empty() => {
            Err(Error::Usage("--columns is for tables and csv".to_owned()))
        }
        () if !headers && args.no_headers => {
            Err(Error::Usage("--no-headers is for tables, csv and slurm".to_owned()))
        }
        () => match &args.output {
            ListOutput::JsonPath(text) => path(text).map(drop),
            _ => Ok(()),
        },
    }
}

/// One thing as it was asked for.
///
/// # Errors
/// As [`list`].
pub fn one<T: Message>(args: &ListArgs, kind: &Kind<T>, item: &T) -> Result<String, Error> {
    shown(
        args,
        kind,
        std::slice::from_ref(item),
        |output| match output {
            Output::Yaml => to_yaml(item, kind.message),
            _ => to_json(item, kind.message),
        },
        || to_whole_value(item, kind.message),
    )
}

/// A list as it was asked for, put in order first. The answer may be empty then.
///
/// # Errors
/// A column or field that there is not, and a format that this kind does not have.
pub fn list<L: Answer>(args: &ListArgs, kind: &Kind<L::Item>, answer: &mut L) -> Result<String, Error> {
    if let Some(by) = &args.sort_by {
        sort(answer.items(), by, kind)?;
    }
    let all = std::mem::take(answer.items());
    if let (ListOutput::Plain(output @ (Output::Table | Output::Wide)), true) =
        (&args.output, args.columns.is_empty())
        && all.len() > PART
    {
        return Ok(headed(in_parts(kind, all, *output == Output::Wide), args).render(""));
    }
    let rendered = match &args.output {
        ListOutput::Plain(Output::Json | Output::Yaml) | ListOutput::JsonPath(_) => None,
        _ => Some(shown(args, kind, &all, |_| Ok(String::new()), || Ok(serde_json::Value::Null))?),
    };
    *answer.items() = all;
    match (rendered, &args.output) {
        (Some(text), _) => Ok(text),
        (None, ListOutput::Plain(Output::Yaml)) => to_yaml(answer, L::MESSAGE),
        (None, ListOutput::JsonPath(text)) => found(text, &to_whole_value(answer, L::MESSAGE)?),
        (None, _) => to_json(answer, L::MESSAGE),
    }
}

fn shown<T: Message>(
    args: &ListArgs,
    kind: &Kind<T>,
    items: &[T],
    document: impl FnOnce(Output) -> Result<String, Error>,
    value: impl FnOnce() -> Result<serde_json::Value, Error>,
) -> Result<String, Error> {
    match &args.output {
        ListOutput::Plain(output @ (Output::Json | Output::Yaml)) => document(*output),
        ListOutput::Plain(Output::Name) => Ok(items.iter().map(|item| (kind.name)(item) + "\n").collect()),
        ListOutput::JsonPath(text) => found(text, &value()?),
        ListOutput::Slurm => match kind.slurm {
            Some(table) => Ok(headed(table(items), args).render("")),
            None => Err(Error::Usage("`-o slurm` is for jobs and nodes".to_owned())),
        },
        ListOutput::Csv => Ok(headed(table(args, kind, items, true)?, args).csv()),
        // For a person words say that there is nothing.
        ListOutput::Plain(_) if items.is_empty() => {
            table(args, kind, items, true)?;
            Ok(String::new())
        }
        ListOutput::Plain(output) => {
            Ok(headed(table(args, kind, items, *output == Output::Wide)?, args).render(""))
        }
    }
}

/// A long list is made a table of in parts, each of which goes when its rows are there: so that not all of both is there at a time.
fn in_parts<T: Message>(kind: &Kind<T>, items: Vec<T>, wide: bool) -> Table {
    let mut items = items.into_iter();
    let mut whole: Option<Table> = None;
    loop {
        let part: Vec<T> = items.by_ref().take(PART).collect();
        if part.is_empty() {
            return whole.unwrap_or_default();
        }
        let table = (kind.table)(&part, wide);
        match &mut whole {
            Some(whole) => whole.append(table),
            None => whole = Some(table),
        }
    }
}

fn headed(table: Table, args: &ListArgs) -> Table {
    if args.no_headers { table.without_header() } else { table }
}

/// The table with the columns that were asked for.
fn table<T: Message>(args: &ListArgs, kind: &Kind<T>, items: &[T], wide: bool) -> Result<Table, Error> {
    if args.columns.is_empty() {
        return Ok((kind.table)(items, wide));
    }
    let full = (kind.table)(items, true);
    let of = descriptor(kind.message)?;
    let mut values: Option<Vec<DynamicMessage>> = None;
    let mut picked = Vec::new();
    for column in &args.columns {
        let (header, field) = match column.split_once('=') {
            Some((header, field)) => (header.to_owned(), field),
            None if column.starts_with('.') => (column.clone(), column.as_str()),
            None => {
                picked.push(full.column(column).ok_or_else(|| no_column(column, &full))?);
                continue;
            }
        };
        let field = Field::new(field, &of)?;
        if values.is_none() {
            values = Some(items.iter().map(|item| dynamic(item, &of)).collect::<Result<_, _>>()?);
        }
        let mut cells = vec![header];
        cells.extend(values.iter().flatten().map(|message| text(&field, message)));
        picked.push(cells);
    }
    Ok(Table::of_columns(&picked))
}

fn no_column(given: &str, table: &Table) -> Error {
    Error::Usage(format!(
        "`{given}` is no column; there are {}, and fields such as .metadata.name",
        table.header().join(", ")
    ))
}

fn dynamic<T: Message>(item: &T, of: &MessageDescriptor) -> Result<DynamicMessage, Error> {
    DynamicMessage::decode(of.clone(), item.encode_to_vec().as_slice())
        .map_err(|error| Error::Config(format!("cannot show a {}: {error}", of.name())))
}

/// A field's value in a cell, as JSON says it.
fn text(field: &Field, message: &DynamicMessage) -> String {
    field.of(message).map(|value| field.text(&value)).unwrap_or_default()
}

/// Puts items in order by a column or a field; equal ones stay as they are, and what is absent comes last, whichever way.
fn sort<T: Message>(items: &mut Vec<T>, by: &str, kind: &Kind<T>) -> Result<(), Error> {
    let (down, by) = by.strip_prefix('-').map_or((false, by), |by| (true, by));
    let behind = kind.columns.iter().find(|one| one.column.eq_ignore_ascii_case(by));
    let (name, reversed) = behind.map_or((by, false), |one| (one.field, one.reversed));
    let full = (kind.table)(items, true);
    if let Some(cells) = full.column(by).filter(|_| behind.is_none()) {
        let cells = cells.into_iter().skip(1).map(|cell| Some(cell).filter(|cell| !cell.is_empty()));
        permute(items, cells.collect(), down, |a: &String, b: &String| natural::compare(a, b));
        return Ok(());
    }
    let of = descriptor(kind.message)?;
    let field = Field::new(name, &of)
        .map_err(|error| if name.contains('.') { error } else { no_column(name, &full) })?;
    let values = items.iter().map(|item| dynamic(item, &of).map(|message| field.of(&message)));
    let values: Vec<Option<Value>> = values.collect::<Result<_, _>>()?;
    permute(items, values, down != reversed, |a, b| field::compare(Some(a), Some(b)));
    Ok(())
}

/// By keys, of which some are absent.
fn permute<T, K>(items: &mut Vec<T>, keys: Vec<Option<K>>, down: bool, compare: impl Fn(&K, &K) -> Ordering) {
    let mut keyed: Vec<(Option<K>, T)> = keys.into_iter().zip(items.drain(..)).collect();
    keyed.sort_by(|(a, _), (b, _)| match (a, b) {
        (Some(a), Some(b)) if down => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    items.extend(keyed.into_iter().map(|(_, item)| item));
}

/// Reads a JSONPath; also in braces and without `$`, as kubectl writes it.
fn path(text: &str) -> Result<JsonPath, Error> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).trim();
    let rooted = if inner.starts_with('$') { inner.to_owned() } else { format!("${inner}") };
    JsonPath::parse(&rooted).map_err(|error| {
        let place = error.position() + 1;
        Error::Usage(format!(
            "`{rooted}` is not a JSONPath (RFC 9535): at character {place}: {}",
            error.message()
        ))
    })
}

/// What a JSONPath finds, one value a line: texts as they are, the rest as JSON.
fn found(text: &str, value: &serde_json::Value) -> Result<String, Error> {
    let found = path(text)?;
    Ok(found.query(value).iter().map(|value| field::cell(Some(value)) + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::jobs::{
        jobs,
        tests::{pending, running},
    };

    fn args(output: &str) -> ListArgs {
        ListArgs { output: output.parse().unwrap(), columns: Vec::new(), sort_by: None, no_headers: false }
    }

    const COLUMNS: &[Behind] = &[Behind::ago("AGE", "status.submitTime")];

    fn shown(args: &ListArgs) -> Result<String, Error> {
        let kind = Kind {
            message: "rail.v1.Job",
            name: &|job: &v1::Job| job.metadata.clone().unwrap_or_default().name,
            table: &|all: &[v1::Job], wide| jobs(all, wide, 1060.0),
            columns: COLUMNS,
            slurm: None,
        };
        check(args)?;
        let jobs = vec![running(), pending()];
        list(args, &kind, &mut v1::ListJobsResponse { jobs, ..Default::default() })
    }

    #[test]
    fn a_long_list_is_the_same_table() {
        let all: Vec<v1::Job> =
            (0..PART * 2 + 1).map(|at| if at % 2 == 0 { running() } else { pending() }).collect();
        let whole = jobs(&all, true, 1060.0).render("");
        let kind = Kind {
            message: "rail.v1.Job",
            name: &|_: &v1::Job| String::new(),
            table: &|all: &[v1::Job], wide| jobs(all, wide, 1060.0),
            columns: COLUMNS,
            slurm: None,
        };
        let mut answer = v1::ListJobsResponse { jobs: all, ..Default::default() };
        assert_eq!(list(&args("wide"), &kind, &mut answer).unwrap(), whole);
    }

    #[test]
    fn columns_and_order_are_as_asked_for() {
        let columns = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let mut asked = args("table");
        asked.columns = columns(&["gpus", "JOB", "TEAM=.metadata.labels.team", ".status.phase"]);
        let expected =
            "GPUS  JOB    TEAM  .status.phase\n4     sum    -     RUNNING\n4     later  -     PENDING\n";
        assert_eq!(shown(&asked).unwrap(), expected);
        // The one that was submitted last is the youngest.
        let mut asked = args("name");
        for (by, first) in [
            ("AGE", "sum"),
            ("-age", "later"),
            (".status.submitTime", "later"),
            ("-.status.submitTime", "sum"),
            ("JOB", "later"),
            (".status.startTime", "sum"),
            ("-.status.startTime", "sum"),
            ("RUN", "sum"),
            ("-RUN", "sum"),
        ] {
            asked.sort_by = Some(by.to_owned());
            assert!(shown(&asked).unwrap().starts_with(first), "{by}");
        }
        asked.sort_by = Some("AGGE".to_owned());
        assert!(shown(&asked).unwrap_err().to_string().contains("there are JOB, TENANT"));
        asked.sort_by = Some(".statu.phase".to_owned());
        assert!(shown(&asked).unwrap_err().to_string().contains("did you mean `status`"));
    }

    #[test]
    fn formats_that_only_lists_have() {
        let mut asked = args("csv");
        asked.columns = vec!["JOB".to_owned(), "REASONS".to_owned()];
        assert_eq!(shown(&asked).unwrap(), "JOB,REASONS\nsum,\nlater,\"GpuCapacity(3),QuotaExceeded\"\n");
        asked.no_headers = true;
        assert_eq!(shown(&asked).unwrap().lines().next(), Some("sum,"));
        for path in ["$.jobs[*].metadata.name", "{.jobs[*].metadata.name}", ".jobs..name"] {
            let text = shown(&args(&format!("jsonpath={path}"))).unwrap();
            assert!(text.starts_with("sum\n") && text.contains("later\n"), "{path}: {text}");
        }
        let found = shown(&args("jsonpath=$.jobs[?@.status.phase=='RUNNING'].spec.gang.nodes")).unwrap();
        assert_eq!(found, "2\n");
        assert!(shown(&args("jsonpath=$.jobs[")).unwrap_err().to_string().contains("RFC 9535"));
        assert!(shown(&args("slurm")).unwrap_err().to_string().contains("jobs and nodes"));
        let mut asked = args("json");
        asked.columns = vec!["JOB".to_owned()];
        assert!(shown(&asked).unwrap_err().to_string().contains("--columns"));
    }
}
