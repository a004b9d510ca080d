//! The fabric and the trace of a simulation.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use controller_fabric::Shape;
use controller_simulator::{
    Decoder, Servers, TraceJob,
    trace::{Account, Format, Shares, Statistics, acme},
};
use proto_model::Fabric;

use super::super::fabric::{REPORTED, document, imported, placed, read};
use crate::{args::Simulate, error::Error};

/// Jobs that are drawn where nothing else is said.
const DRAWN: usize = 10_000;

/// A fabric, and what was found in its records.
pub struct Found {
    pub fabric: Fabric,
    pub faults: Vec<String>,
    pub notes: Vec<String>,
}

/// A list of servers.
///
/// # Errors
/// [`Error::Usage`] if the file cannot be read; [`Error::Document`] if it is not a list of servers.
pub fn servers(path: &Path) -> Result<Servers, Error> {
    let (shown, text) = read(path)?;
    controller_simulator::servers::read(&String::from_utf8_lossy(&text))
        .map_err(|error| Error::Document(format!("{shown}: {error}")))
}

/// A document, a cabling list, or sizes, for as many servers as are listed where sizes do not say it.
///
/// # Errors
/// [`Error::Usage`] for sizes that make no fabric; [`Error::File`] or [`Error::Document`] if a file cannot be read or has faults.
pub fn fabric(said: &str, listed: Option<usize>) -> Result<Found, Error> {
    let path = PathBuf::from(said);
    if !path.exists() && said.contains('=') {
        return generated(said, listed);
    }
    let is_list = said != "-" && path.extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    if !is_list {
        return Ok(Found { fabric: document(&path)?, faults: Vec::new(), notes: Vec::new() });
    }
    let (shown, text) = read(&path)?;
    let name =
        path.file_stem().map_or_else(|| "imported".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let made = imported(&shown, &text, &name, REPORTED)?;
    let file = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    let reported =
        |findings: &[controller_fabric::Finding]| findings.iter().map(|one| placed(&file, one)).collect();
    let (faults, notes) = (reported(&made.faults), reported(&made.notes));
    Ok(Found { fabric: made.fabric, faults, notes })
}

/// Reads sizes such as `nodes=512,rails=8,radix=64,pod=32,planes=1,oversubscription=1`; `listed` stands in for `nodes`.
fn generated(said: &str, listed: Option<usize>) -> Result<Found, Error> {
    let nodes = listed.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let mut shape = Shape { nodes, ..Shape::default() };
    for part in said.split(',') {
        let wrong = || {
            Error::Usage(format!(
                "--fabric: `{part}` is no size; write for example nodes=512,rails=8,radix=64,pod=32,oversubscription=1"
            ))
        };
        let (key, value) = part.trim().split_once('=').ok_or_else(wrong)?;
        let number = || value.parse::<u32>().map_err(|_| wrong());
        match key {
            "nodes" => shape.nodes = number()?,
            "rails" => shape.rails = number()?,
            "radix" => shape.radix = number()?,
            "planes" => shape.planes = number()?,
            "pod" => shape.pod = Some(number()?),
            "oversubscription" => shape.oversubscription = value.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        }
    }
    let made =
        controller_fabric::generate(&shape).map_err(|error| Error::Usage(format!("--fabric: {error}")))?;
    Ok(Found { fabric: made.fabric, faults: Vec::new(), notes: [made.built, made.uneven].concat() })
}

/// A trace, and where it came from.
pub struct TraceInput {
    pub name: String,
    pub format: Format,
    pub account: Account,
    pub jobs: Vec<TraceJob>,
    pub shares: Shares,
}

/// Reads a trace piece by piece; draws jobs where it is statistics.
///
/// # Errors
/// [`Error::Usage`] if the file cannot be read; [`Error::Document`] if it is not a trace, or no row of it can be used.
pub fn trace(args: &Simulate) -> Result<TraceInput, Error> {
    let path = &args.trace;
    let name = if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() };
    let cannot = |error: std::io::Error| Error::Usage(format!("cannot read {name}: {error}"));
    let mut source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::fs::File::open(path).map_err(cannot)?)
    };
    let (mut decoder, mut piece) = (Decoder::new(), vec![0; 256 << 10]);
    loop {
        let count = source.read(&mut piece).map_err(cannot)?;
        if count == 0 {
            break;
        }
        decoder.push(&piece[..count]);
    }
    let trace = decoder.finish().map_err(|error| Error::Document(format!("{name}: {error}")))?;
    let account = trace.account;
    if args.strict && account.refused > 0 {
        let shown = &name;
        let reported: Vec<String> = account
            .refusals
            .iter()
            .flat_map(|(code, count)| count.examples.iter().map(move |one| format!("{shown}: {one}: {code}")))
            .collect();
        let counts = format!("{} of {} rows cannot be used", account.refused, account.rows);
        return Err(Error::Document(format!("{}\n{counts}", reported.join("\n"))));
    }
    let short = path.file_name().map_or_else(|| name.clone(), |name| name.to_string_lossy().into_owned());
    if trace.format != Format::Acme {
        if args.cluster.is_some() {
            let message = format!("--cluster is for files of statistics; {name} is {}", trace.format);
            return Err(Error::Usage(message));
        }
        let (jobs, shares) = (trace.jobs, trace.shares);
        return Ok(TraceInput { name: short, format: trace.format, account, jobs, shares });
    }
    let of = cluster(&trace.statistics, args.cluster.as_deref(), &name)?;
    let count = args.jobs.unwrap_or(DRAWN);
    let jobs = acme::draw(of, count, args.seed);
    let name = format!("{count} jobs drawn with the statistics of {} in {short}", of.name);
    Ok(TraceInput { name, format: trace.format, account, jobs, shares: Shares::default() })
}

fn cluster<'a>(all: &'a [Statistics], said: Option<&str>, file: &str) -> Result<&'a Statistics, Error> {
    let found = match said {
        Some(name) => all.iter().find(|one| one.name.eq_ignore_ascii_case(name)),
        None => all.iter().max_by(|a, b| a.mean_gpus.total_cmp(&b.mean_gpus)),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        Error::Usage(format!("--cluster: {file} has no such cluster; it has {}", names.join(", ")))
    })
}
