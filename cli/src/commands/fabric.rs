//! Fabric documents made and checked here; no cluster is asked.

use std::{collections::BTreeMap, io::Read as _, path::Path};

use controller_fabric::{Finding, FindingCode, Shape};
use proto_model::Fabric;
use proto_wire::v1;

use crate::{
    args::{DocumentFormat, FabricCommand, Generate},
    documents::{Resource, Source},
    error::Error,
    output::print,
    render,
};

/// Findings of one kind that are shown at most where not all are asked for.
pub const REPORTED: usize = 20;

/// `fabric import|generate|check`: makes or checks a fabric document here, without a cluster.
///
/// # Errors
/// [`Error::File`] or [`Error::Document`] if the input cannot be read or has faults; [`Error::Usage`] for sizes that make no fabric.
pub fn run(command: &FabricCommand) -> Result<(), Error> {
    match command {
        FabricCommand::Import { file, name, strict, all, output } => {
            let most = if *all { usize::MAX } else { REPORTED };
            import(file, name.as_deref(), *strict, most, *output)
        }
        FabricCommand::Generate(args) => generate(args),
        FabricCommand::Check { file } => {
            let fabric = document(file)?;
            let (nodes, cables) = (fabric.node_count(), fabric.cable_count());
            if cables == 0 {
                let message =
                    format!("{}: NoCables: the document cables no server to any leaf", file.display());
                return Err(Error::Document(message));
            }
            print(&format!(
                "fabric {}: {} rails, {} leaves, {} spines, {nodes} servers, {cables} cables; nothing is wrong with it\n",
                fabric.name,
                fabric.rails.len(),
                fabric.leaves.len(),
                fabric.spines.len()
            ))
        }
    }
}

/// A list, read; a list of which nothing can be taken is an error with all that is wrong with it.
///
/// # Errors
/// [`Error::Document`] with all findings if the text is not a table, or no cable can be taken from it.
pub fn imported(
    shown: &str,
    text: &[u8],
    name: &str,
    most: usize,
) -> Result<controller_fabric::Imported, Error> {
    let made = controller_fabric::import(text, name)
        .map_err(|error| Error::Document(format!("{shown}: {error}")))?;
    if made.links > 0 {
        return Ok(made);
    }
    let mut reported = folded(shown, &made.faults, most);
    reported
        .push(format!("{shown}: NothingTaken: none of its {} rows is a cable of the document", made.rows));
    Err(Error::Document(reported.join("\n")))
}

/// Findings as lines; of each kind at most so many, and where the others are.
pub fn folded(shown: &str, findings: &[Finding], most: usize) -> Vec<String> {
    let mut kinds: BTreeMap<FindingCode, usize> = BTreeMap::new();
    let mut rest: BTreeMap<FindingCode, Vec<usize>> = BTreeMap::new();
    let mut reported = Vec::new();
    for finding in findings {
        let count = kinds.entry(finding.code).or_default();
        *count += 1;
        if *count <= most {
            reported.push(placed(shown, finding));
        } else {
            rest.entry(finding.code).or_default().push(finding.line);
        }
    }
    for (code, lines) in rest {
        let (more, lines) = (lines.len(), controller_fabric::cabling::lines(&lines));
        reported.push(format!("{shown}: {code}: and {more} more (lines {lines}); --all tells each"));
    }
    reported
}

fn import(
    file: &Path,
    name: Option<&str>,
    strict: bool,
    most: usize,
    output: DocumentFormat,
) -> Result<(), Error> {
    let (shown, text) = read(file)?;
    let stem =
        file.file_stem().filter(|_| shown != "<stdin>").map(|stem| stem.to_string_lossy().into_owned());
    let name = name.map_or_else(|| stem.unwrap_or_else(|| "imported".to_owned()), str::to_owned);
    let made = imported(&shown, &text, &name, most)?;
    drop(text);
    for note in folded(&shown, &made.notes, most) {
        eprintln!("note: {note}");
    }
    let faults = folded(&shown, &made.faults, most);
    let counts = format!(
        "{} rows: {} cables, {} left out; {} wrong",
        made.rows,
        made.links,
        made.left_out,
        match made.faults.len() {
            1 => "1 thing is".to_owned(),
            count => format!("{count} things are"),
        }
    );
    if strict && !faults.is_empty() {
        return Err(Error::Document(format!("{}\n{counts}", faults.join("\n"))));
    }
    for fault in &faults {
        eprintln!("fault: {fault}");
    }
    eprintln!("{counts}");
    print(&written(&proto_wire::convert::compact_fabric(&made.fabric), output)?)
}

/// `FILE:LINE:COLUMN: CODE: MESSAGE`, as far as it has a place.
pub fn placed(file: &str, finding: &Finding) -> String {
    let place = match (finding.line, finding.column) {
        (0, _) => String::new(),
        (line, 0) => format!("{line}:"),
        (line, column) => format!("{line}:{column}:"),
    };
    format!("{file}:{place} {}: {}", finding.code, finding.message)
}

fn generate(args: &Generate) -> Result<(), Error> {
    let shape = Shape {
        name: args.name.clone(),
        nodes: args.nodes,
        rails: args.rails,
        radix: args.radix,
        planes: args.planes,
        pod: args.pod_nodes,
        oversubscription: args.oversubscription,
        speed_mbps: args.speed,
        uplink_mbps: args.uplink_speed,
        prefix: args.prefix.clone(),
        nic: args.nic.clone(),
    };
    let made = controller_fabric::generate(&shape).map_err(|error| Error::Usage(format!("--{error}")))?;
    for line in &made.built {
        eprintln!("{line}");
    }
    for line in &made.uneven {
        eprintln!("note: {line}");
    }
    print(&written(&proto_wire::convert::compact_fabric(&made.fabric), args.output)?)
}

/// A document as text.
fn written(wire: &v1::Fabric, output: DocumentFormat) -> Result<String, Error> {
    match output {
        DocumentFormat::Yaml => render::to_yaml(wire, "rail.v1.Fabric"),
        DocumentFormat::Json => render::to_json(wire, "rail.v1.Fabric"),
    }
}

/// The one fabric document of a file, free of faults.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Document`] also if it is not exactly one fabric, or has
/// faults.
pub fn document(file: &Path) -> Result<Fabric, Error> {
    let source = Source::open(file)?;
    let mut found = None;
    for document in source.documents()? {
        let index = document.index;
        match document.resource {
            Resource::Fabric(fabric) if found.is_none() => found = Some((index, fabric)),
            Resource::Fabric(_) => {
                return Err(Error::Document(format!(
                    "{}: several Fabric documents; one is expected",
                    source.name
                )));
            }
            _ => {}
        }
    }
    let Some((index, wire)) = found else {
        return Err(Error::Document(format!("{}: no Fabric document in it", source.name)));
    };
    let fabric =
        Fabric::try_from(wire).map_err(|error| Error::Document(format!("{}: {error}", source.name)))?;
    let findings = controller_topology::check(&fabric);
    if findings.is_empty() {
        return Ok(fabric);
    }
    // To find a place costs a look at the whole text.
    let mut reported: Vec<String> =
        findings.iter().take(REPORTED).map(|finding| source.finding(index, finding)).collect();
    let mut rest: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings.iter().skip(REPORTED) {
        *rest.entry(finding.code.as_str()).or_default() += 1;
    }
    reported.extend(rest.iter().map(|(code, count)| format!("{}: {code}: and {count} more", source.name)));
    Err(Error::Document(reported.join("\n")))
}

/// A file's bytes, or standard input's, and its name in messages.
///
/// # Errors
/// [`Error::Usage`] if the file cannot be read.
pub fn read(file: &Path) -> Result<(String, Vec<u8>), Error> {
    let limit = controller_fabric::csv::MAX_BYTES as u64 + 1;
    let mut text = Vec::new();
    let stdin = file == Path::new("-");
    let name = if stdin { "<stdin>".to_owned() } else { file.display().to_string() };
    let read = if stdin {
        std::io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    read.map_err(|error| Error::Usage(format!("cannot read {name}: {error}")))?;
    Ok((name, text))
}
