//! `slurm import`: documents of what a site of Slurm has, and a report of every setting.
//!
//! `sources` is the way to the inputs; `conf`, `dump`, `columns` and `queue` take them apart; `known` is the table of all parameters, `ledger` what
//! becomes of each setting; `site` is what the inputs say together. `tenants`, `users`, `limits`, `classes`, `shared` and `jobs` decide, `decide` puts
//! it together, `report` shows it. Nothing but `sources` and this file does IO.

mod classes;
mod columns;
mod conf;
mod decide;
mod dump;
mod fate;
mod jobs;
mod known;
mod ledger;
mod limits;
mod queue;
mod report;
mod shared;
mod site;
mod sources;
mod tenants;
#[cfg(test)]
mod tests;
mod users;
mod values;

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use proto_manifest::yaml_of;
use serde_json::Value;

use self::{
    decide::{File, Made, decide},
    fate::Fate,
    shared::{Clock, now},
};
use crate::{
    args::{SlurmImport, SlurmReport},
    error::Error,
    output::print,
};

/// `slurm import`.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Document`] if an input cannot be read; [`Error::File`] if the folder cannot be written to; [`Error::Differs`] if
/// all is to be carried over and is not.
pub async fn run(args: &SlurmImport) -> Result<(), Error> {
    let (inputs, left_out) = sources::read(args).await?;
    let clock = Clock { now: now(), offset: args.utc_offset };
    let mut made = decide(inputs, args.accounts_as, clock)?;
    made.notes.extend(left_out);
    if let Some(folder) = &args.out {
        write(folder, &made)?;
    }
    let text = report::text(&made.entries, &made.notes, args.all);
    match (args.output, &args.out) {
        (SlurmReport::Json, _) => print(&format!("{:#}\n", json(&made)))?,
        (SlurmReport::Text, Some(folder)) => {
            print(&text)?;
            print(&next(folder, &made))?;
        }
        (SlurmReport::Text, None) => {
            eprint!("{text}");
            print(&made.files.iter().map(yaml).collect::<Vec<_>>().join("---\n"))?;
        }
    }
    let lost = made.entries.iter().filter(|entry| entry.fate == Fate::Lost).count();
    if args.strict && lost > 0 {
        return Err(Error::Differs(format!("{lost} settings are not carried over")));
    }
    Ok(())
}

fn yaml(file: &File) -> String {
    file.documents.iter().map(yaml_of).collect::<Vec<_>>().join("---\n")
}

/// The report with the documents.
fn json(made: &Made) -> Value {
    let mut all = report::json(&made.entries, &made.notes);
    let file = |file: &File| serde_json::json!({"name": file.name, "tenant": file.tenant, "documents": file.documents});
    all["files"] = made.files.iter().map(file).collect();
    all["commands"] = made.commands.clone().into();
    all
}

/// The commands as a script: one that fails does not keep the others from being done.
fn script(commands: &[String]) -> String {
    let head = "#!/bin/sh\n# What no document says: credentials (USER.pem and USER.key, in the folder credentials beside this file), and labels of servers.\n\
                set -u\ncd -- \"$(dirname -- \"$0\")\" || exit 1\nfailed=0\n";
    let lines: String = commands.iter().map(|command| format!("{command} || failed=1\n")).collect();
    format!("{head}{lines}exit \"$failed\"\n")
}

/// Writes all of it into a folder; no file that is there is replaced.
fn write(folder: &Path, made: &Made) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| Error::file("create", folder, error))?;
    let mut files: Vec<(String, String)> =
        made.files.iter().map(|file| (file.name.clone(), yaml(file))).collect();
    files.push(("report.txt".to_owned(), report::text(&made.entries, &made.notes, true)));
    files.push(("report.json".to_owned(), format!("{:#}\n", json(made))));
    if !made.commands.is_empty() {
        files.push(("commands.sh".to_owned(), script(&made.commands)));
    }
    if let Some((name, _)) = files.iter().find(|(name, _)| folder.join(name).exists()) {
        return Err(Error::Usage(format!(
            "{} is there already; give a new folder as --out",
            folder.join(name).display()
        )));
    }
    for (name, text) in files {
        let path = folder.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Error::file("write", &path, error))?;
    }
    Ok(())
}

/// What to do with the folder.
fn next(folder: &Path, made: &Made) -> String {
    let line = |tenant: &str, files: &[&File]| {
        let of = if tenant.is_empty() { String::new() } else { format!(" --tenant {tenant}") };
        let path = |file: &File| values::quoted(&folder.join(&file.name).display().to_string());
        let files = files.iter().map(|file| format!(" -f {}", path(file)));
        format!("railctl{of} apply{} --dry-run\n", files.collect::<String>())
    };
    let is_late = |file: &&File| !file.tenant.is_empty() || file.name == decide::RESERVATIONS;
    let (late, first): (Vec<&File>, Vec<&File>) = made.files.iter().partition(|file| is_late(file));
    let mut text = format!("\nNext, and the same without --dry-run:\n{}", line("", &first));
    for file in late {
        // They name servers and queues that have to be there.
        text.push_str(&line(&file.tenant, &[file]));
    }
    text
}
