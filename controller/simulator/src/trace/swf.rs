//! The Standard Workload Format 2.2: 18 numbers a line, -1 for what is not known. A processor counts as a GPU.
//!
//! Logs with checkpoints or swapping tell a job in one line with status 0 or 1, and each part of its run in a further
//! line with status 2 to 4: those lines are counted and left out, so that no job runs twice.

use super::{
    fields::{gpus, number, run, shown, time},
    row::{Account, Asks, Fault, Read, TraceJob},
};

const FIELDS: usize = 18;
const NAMES: [&str; FIELDS] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// Whether a line looks like a row: nothing but numbers, many of them.
pub(super) fn is_row(text: &str) -> bool {
    let numbers = text.split_ascii_whitespace().take(FIELDS).map(|field| field.parse::<f64>().is_ok());
    let (mut count, mut all) = (0, true);
    for is_number in numbers {
        count += 1;
        all &= is_number;
    }
    all && count >= 5
}

pub(super) fn read(text: &str, line: u64, account: &mut Account) -> Result<Read, Fault> {
    let texts: Vec<&str> = text.split_ascii_whitespace().take(FIELDS + 1).collect();
    if texts.len() != FIELDS {
        let what = format!("it has {} fields instead of {FIELDS}: '{}'", texts.len(), shown(text));
        return Err(Fault::new("Fields", "the row", what));
    }
    let mut values = [0.0; FIELDS];
    for ((value, text), name) in values.iter_mut().zip(&texts).zip(NAMES) {
        *value = number(text, name)?.unwrap_or(-1.0);
    }
    let known = |at: usize| Some(values[at]).filter(|value: &f64| *value >= 0.0 || *value != -1.0);
    if matches!(known(10), Some(2.0..=4.0)) {
        let what = format!("{}: a part of a job that has a line of its own", values[10]);
        return Err(Fault::new("PartOfAJob", NAMES[10], what));
    }
    let cancelled = values[10] == 5.0;
    let submit = known(1).ok_or_else(|| Fault::new("Missing", NAMES[1], "-1: not known"))?;
    let submit = time(submit, NAMES[1])?;
    let Some(length) = known(3) else {
        let code = if cancelled { "NeverRan" } else { "Missing" };
        return Err(Fault::new(code, NAMES[3], "-1: not known"));
    };
    if cancelled && length == 0.0 {
        return Err(Fault::new("NeverRan", NAMES[3], "0: the job was cancelled before it ran"));
    }
    let mut length = run(length, NAMES[3])?;
    let (wanted, field) = match (known(7).filter(|count| *count != 0.0), known(4)) {
        (Some(wanted), _) => (wanted, NAMES[7]),
        (None, Some(given)) => {
            account.repair("NoRequest", line, NAMES[7], "not known; the allocated processors are taken");
            (given, NAMES[4])
        }
        (None, None) => return Err(Fault::new("Missing", NAMES[7], "-1: not known, nor those allocated")),
    };
    let (gpus, part) = gpus(wanted, field)?;
    if part {
        account.repair("PartOfAGpu", line, field, format_args!("rounded up to {gpus}"));
    }
    if length == 0 {
        // The format says: less than half a second.
        length = 500;
        account.repair("ZeroLength", line, NAMES[3], "taken for half a second");
    }
    let mut limit = known(8).filter(|limit| *limit > 0.0).map(|limit| run(limit, NAMES[8])).transpose()?;
    if limit.is_some_and(|limit| limit < length) {
        account.repair(
            "OverLimit",
            line,
            NAMES[8],
            "the job ran longer than it asked for; its run is the limit",
        );
        limit = Some(length);
    }
    let word = |at: usize| known(at).map(|number| number as i64);
    let tenant = match (word(12), word(11)) {
        (Some(group), _) => format!("group-{group}"),
        (None, Some(user)) => format!("user-{user}"),
        (None, None) => "default".to_owned(),
    };
    Ok(Read::ended(TraceJob {
        line,
        submit,
        run: length,
        limit,
        gpus,
        tenant,
        own: None,
        asks: Asks::default(),
    }))
}
