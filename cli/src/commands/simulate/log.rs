//! Logs of decisions: written by simulations, and decided again.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
};

use controller_simulator::{
    Replay, ReplayError, Rules, Site,
    log::{MAX_LINE, Recorder, servers},
    replay::header,
};
use proto_model::Fabric;

use super::inputs;
use crate::{
    args::ReplayLog,
    documents::{Resource, Source},
    error::Error,
    output::print,
    render,
};

/// A log that is written. That a line cannot be written is reported at the end; no other follows it.
pub struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
}

impl Log {
    /// In place of what is there.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|source| Error::file("create", path, source))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), failed: None })
    }

    /// Writes the header, and takes the lines that follow.
    ///
    /// # Errors
    /// [`Error::Config`] if the fabric cannot be written as JSON.
    pub fn recorder(&mut self, site: &Site, rules: &Rules) -> Result<Recorder<'_>, Error> {
        let wire = proto_wire::convert::compact_fabric(&site.fabric);
        let text = render::to_json(&wire, "rail.v1.Fabric")?;
        let document: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| Error::Config(format!("the fabric is no JSON: {error}")))?;
        let sink = |line: &str| {
            if self.failed.is_none() {
                self.failed = self.file.write_all(line.as_bytes()).err();
            }
        };
        Ok(Recorder::new(
            &site.fabric,
            (site.gpus_per_node, servers(site)),
            document,
            &rules.queueing(),
            sink,
        ))
    }

    /// All of it is in the file.
    ///
    /// # Errors
    /// [`Error::File`] if something could not be written.
    pub fn close(mut self) -> Result<(), Error> {
        let done = self.failed.map_or_else(|| self.file.flush(), Err);
        done.map_err(|source| Error::file("write", &self.path, source))?;
        eprintln!("logged into {}", self.path.display());
        Ok(())
    }
}

/// `replay`: decides a log of decisions again, and compares.
///
/// # Errors
/// [`Error::Usage`] if a file cannot be read; [`Error::Document`] if the log does not prove what it says.
pub fn replay(args: &ReplayLog) -> Result<(), Error> {
    let stdin = args.file == Path::new("-");
    let name = if stdin { "<stdin>".to_owned() } else { args.file.display().to_string() };
    let mut lines: Box<dyn BufRead> = if stdin {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        let file =
            File::open(&args.file).map_err(|error| Error::Usage(format!("cannot read {name}: {error}")))?;
        Box::new(BufReader::new(file))
    };
    let mut text = String::new();
    let mut next = |text: &mut String| -> Result<bool, Error> {
        text.clear();
        let limit = MAX_LINE as u64 + 1;
        let count = lines.by_ref().take(limit).read_line(text);
        let count = count.map_err(|error| Error::Usage(format!("cannot read {name}: {error}")))?;
        if count > MAX_LINE {
            return Err(Error::Document(format!("{name}: a line has more than {MAX_LINE} bytes")));
        }
        Ok(count > 0)
    };
    let reported = |error: ReplayError| match error {
        ReplayError::Difference { .. }
        | ReplayError::Violation { .. }
        | ReplayError::Changed { .. }
        | ReplayError::Cut { .. } => Error::Differs(format!("{name}: {error}")),
        error => Error::Document(format!("{name}: {error}")),
    };
    next(&mut text)?;
    let header = header(&text).map_err(reported)?;
    let fabric = match &args.fabric {
        Some(said) => inputs::fabric(said, None)?.fabric,
        None => document(&header.document)?,
    };
    let mut replay = Replay::new(&header, fabric).map_err(reported)?;
    while next(&mut text)? {
        replay.line(&text).map_err(reported)?;
    }
    let done = replay.finish().map_err(reported)?;
    print(&format!(
        "{} lines on fabric {} ({}): {} jobs, {} passes; all {} decisions are the same, {} placements are proved\n",
        done.lines, header.fabric, header.digest, done.jobs, done.passes, done.decisions, done.placements
    ))
}

/// The fabric that the log carries.
fn document(json: &serde_json::Value) -> Result<Fabric, Error> {
    if json.is_null() {
        let message = "the log carries no fabric document; give it with --fabric";
        return Err(Error::Usage(message.to_owned()));
    }
    let source = Source::of("header.json", json.to_string().into_bytes());
    let found = source.documents()?.into_iter().find_map(|document| match document.resource {
        Resource::Fabric(fabric) => Some(fabric),
        _ => None,
    });
    let fabric = found.ok_or_else(|| Error::Document("the log's document is no Fabric".to_owned()))?;
    Fabric::try_from(fabric).map_err(|error| Error::Document(format!("the log's fabric: {error}")))
}
