//! The way to the inputs: files, each within a size, or Slurm's own commands where they are asked for.

use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use super::{columns, conf, dump, jobs, queue, site::Inputs};
use crate::{args::SlurmImport, commands::slurm::tools, error::Error};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Scripts that are asked of Slurm at most.
const MAX_SCRIPTS: usize = 2000;

/// Reads all inputs.
///
/// # Errors
/// [`Error::Usage`] if a file cannot be read, [`Error::Document`] with every place that makes no sense, [`Error::Config`] or
/// [`Error::Timeout`] if `slurm.conf` is to be found by Slurm's own commands and is not.
pub async fn read(args: &SlurmImport) -> Result<(Inputs, Vec<String>), Error> {
    let mut notes = Vec::new();
    let mut errors = Vec::new();
    let path = args.conf.clone().unwrap_or_else(installed);
    let (shown, text) = bytes(&path)?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut open = |name: &str| {
        let path = if Path::new(name).is_absolute() { PathBuf::from(name) } else { folder.join(name) };
        bytes(&path).map_err(|error| error.to_string())
    };
    let conf = conf::read(&shown, &text, &mut open).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        Vec::new()
    });
    let mut inputs = Inputs { conf, ..Inputs::default() };
    if let Some((file, text)) = dumped(args, &inputs, &mut notes).await? {
        inputs.accounts = dump::read(&file, &text).map_err(|wrong| errors.extend(wrong)).ok();
    }
    let ask = ["show", "qos", "-P"];
    if let Some((file, text)) = given(args, args.qos.as_deref(), "sacctmgr", &ask, &mut notes).await? {
        inputs.qos = columns::table(&file, &text, &["Name"]).map_err(|wrong| errors.extend(wrong)).ok();
    }
    let ask = ["show", "reservation", "-o"];
    if let Some((file, text)) =
        given(args, args.reservations.as_deref(), "scontrol", &ask, &mut notes).await?
    {
        inputs.reservations =
            columns::records(&file, &text, "ReservationName").map_err(|wrong| errors.extend(wrong)).ok();
    }
    let format = format!("--format={}", queue::format());
    let ask = ["--all", format.as_str()];
    if let Some((file, text)) = given(args, args.queue.as_deref(), "squeue", &ask, &mut notes).await? {
        inputs.queue = queue::read(&file, &text).map_err(|wrong| errors.extend(wrong)).ok();
    }
    scripts(args, &mut inputs, &mut notes).await?;
    if errors.is_empty() { Ok((inputs, notes)) } else { Err(Error::Document(errors.join("\n"))) }
}

/// Where Slurm's own commands look.
fn installed() -> PathBuf {
    env::var_os("SLURM_CONF").map_or_else(|| PathBuf::from("/etc/slurm/slurm.conf"), PathBuf::from)
}

/// A file with its name, within the size.
fn bytes(path: &Path) -> Result<(String, Vec<u8>), Error> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Error::Usage(format!("cannot read {name}: {error}"));
    let mut text = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::Document(format!(
            "{name}:1:1: has more than {MAX_FILE} bytes, which is the most that is read"
        )));
    }
    Ok((name, text))
}

/// A file, or what the command prints where Slurm is to be asked. One that cannot be had is a note: a site may have no accounting.
async fn given(
    args: &SlurmImport,
    file: Option<&Path>,
    program: &str,
    ask: &[&str],
    notes: &mut Vec<String>,
) -> Result<Option<(String, Vec<u8>)>, Error> {
    if let Some(file) = file {
        return bytes(file).map(Some);
    }
    if !args.from_cluster {
        return Ok(None);
    }
    match tools::bytes(program, ask).await {
        Ok(text) if text.trim_ascii().is_empty() => Ok(None),
        // Names of jobs need not be UTF-8.
        Ok(text) => {
            Ok(Some((format!("<{program}>"), String::from_utf8_lossy(&text).into_owned().into_bytes())))
        }
        Err(error) => {
            notes.push(format!("left out: {error}"));
            Ok(None)
        }
    }
}

/// The accounting dump, from a file or written by `sacctmgr`.
async fn dumped(
    args: &SlurmImport,
    inputs: &Inputs,
    notes: &mut Vec<String>,
) -> Result<Option<(String, Vec<u8>)>, Error> {
    if let Some(file) = &args.accounts {
        return bytes(file).map(Some);
    }
    if !args.from_cluster {
        return Ok(None);
    }
    let mut names =
        inputs.conf.iter().flatten().filter(|token| token.name.eq_ignore_ascii_case("ClusterName"));
    let cluster = names.next_back().map(|token| token.value.clone()).unwrap_or_default();
    let folder = tempfile::tempdir().map_err(|error| Error::file("create", env::temp_dir(), error))?;
    let path = folder.path().join("accounts.dump");
    match tools::output("sacctmgr", &["-i", "dump", &cluster, &format!("file={}", path.display())]).await {
        Ok(_) => Ok(Some(("<sacctmgr dump>".to_owned(), bytes(&path)?.1))),
        Err(error) => {
            notes.push(format!("left out: {error}"));
            Ok(None)
        }
    }
}

/// The scripts of waiting jobs.
async fn scripts(args: &SlurmImport, inputs: &mut Inputs, notes: &mut Vec<String>) -> Result<(), Error> {
    let rows = inputs.queue.iter().flat_map(|queue| &queue.rows);
    let waiting = rows.filter(|row| {
        columns::cell(row, "STATE").is_some_and(|state| state.value.eq_ignore_ascii_case("PENDING"))
    });
    let numbers: Vec<String> = waiting
        .filter_map(|row| columns::cell(row, "JOBID"))
        .map(|id| jobs::number(&id.value).to_owned())
        .collect();
    for number in numbers {
        // It becomes the name of a file.
        if number.is_empty()
            || !number.bytes().all(|byte| byte.is_ascii_digit())
            || inputs.scripts.contains_key(&number)
        {
            continue;
        }
        let found = match &args.scripts {
            Some(folder) => {
                let path = folder.join(format!("slurm-{number}.sh"));
                let name = format!("slurm-{number}.sh");
                path.exists().then(|| bytes(&path)).transpose()?.map(|(_, text)| (name, text))
            }
            None if args.from_cluster && args.out.is_some() && inputs.scripts.len() < MAX_SCRIPTS => {
                match tools::output("scontrol", &["write", "batch_script", &number, "-"]).await {
                    Ok(text) => Some((format!("slurm-{number}.sh"), text.into_bytes())),
                    Err(error) => {
                        notes.push(format!("left out: {error}"));
                        None
                    }
                }
            }
            None => None,
        };
        inputs.scripts.extend(found.map(|script| (number, script)));
    }
    Ok(())
}
