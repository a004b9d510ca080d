//! `cp`: a file or a folder into a running job, or out of it. A file needs a shell and `cat` in the job, a folder `tar` as well. A
//! file has its name only when all of it has arrived.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use indicatif::{ProgressBar, ProgressStyle};
use proto_wire::v1;
use tokio::sync::mpsc;

use super::step::pipe::{self, PIECES, Piece};
use crate::{args::Copy, client::Api, error::Error};

/// Takes a file: its path there, its name here, its mode.
const TAKE_FILE: &str = r#"set -e
d=$1
if [ -d "$d" ]; then d=${d%/}/$2; fi
t=$d.rail-cp.$$
trap 'rm -f "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t"
chmod "$3" "$t"
mv -f "$t" "$d"
"#;

/// Takes a folder: its path there, its name here.
const TAKE_FOLDER: &str = r#"set -e
d=$1
if [ -d "$d" ]; then d=${d%/}/$2; fi
mkdir -p "$d"
exec tar -xof - -C "$d"
"#;

/// Gives a file or a folder: first a line that tells which, then all of it.
const GIVE: &str = r#"set -e
if [ -d "$1" ]; then echo folder; exec tar -cf - -C "$1" .; fi
if [ ! -f "$1" ]; then echo "there is no file or folder $1 in the job" >&2; exit 1; fi
if [ -x "$1" ]; then echo program; else echo file; fi
exec cat <"$1"
"#;

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Here(PathBuf),
    There { job: String, path: String },
}

impl End {
    /// `JOB:PATH` is in a job; what begins with `.` or `/`, or has no colon, is here.
    fn of(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            Some((job, path)) if !job.is_empty() && !job.starts_with(['.', '/']) => {
                if path.is_empty() {
                    return Err(Error::Usage(format!("`{text}`: which file? Write JOB:PATH")));
                }
                Ok(Self::There { job: job.to_owned(), path: path.to_owned() })
            }
            _ => Ok(Self::Here(PathBuf::from(text))),
        }
    }
}

/// `cp FROM TO`: a file or a folder into a running job, or out of it.
///
/// # Errors
/// [`Error::Usage`] unless exactly one end is in a job; [`Error::File`] if the local end cannot be read or written; [`Error::Rpc`] if the
/// controller refuses or does not answer, or if the copy ends early.
pub async fn run(args: &Copy, api: &Api) -> Result<(), Error> {
    match (End::of(&args.from)?, End::of(&args.to)?) {
        (End::Here(from), End::There { job, path }) => send(args, api, &from, &job, &path).await,
        (End::There { job, path }, End::Here(to)) => receive(args, api, &job, &path, to).await,
        (End::Here(_), End::Here(_)) => Err(Error::Usage(format!(
            "neither `{}` nor `{}` is in a job; write JOB:PATH for what is there (and ./a:b for a file here with a colon in its name)",
            args.from, args.to
        ))),
        (End::There { .. }, End::There { .. }) => {
            Err(Error::Usage("one end of a copy is here; copy from one job and then to the other".to_owned()))
        }
    }
}

fn start(args: &Copy, api: &Api, job: &str, script: &str, words: &[&str]) -> v1::StepStart {
    let job = api.job_ref(job);
    let argv = ["/bin/sh", "-c", script, "rail-cp"].into_iter().chain(words.iter().copied());
    v1::StepStart {
        job: job.name,
        tenant: job.tenant,
        argv: argv.map(str::to_owned).collect(),
        nodes: args.node.iter().cloned().collect(),
        ranks_per_node: 1,
        stdin: true,
        one: true,
        ..v1::StepStart::default()
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Config(format!("{}: {error}", path.display()))
}

/// Bytes so far, on a terminal.
fn progress(total: Option<u64>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let template = match total {
        Some(_) => "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec}, {eta} left",
        None => "{spinner} {bytes} {binary_bytes_per_sec}",
    };
    // A template of ours is well formed.
    ProgressStyle::with_template(template).map_or(bar.clone(), |style| bar.with_style(style))
}

/// How the program there ended.
fn judged(code: u8) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::Exited(code)) }
}

async fn send(args: &Copy, api: &Api, from: &Path, job: &str, path: &str) -> Result<(), Error> {
    let meta = fs::metadata(from).map_err(|error| failed(from, &error))?;
    let name = fs::canonicalize(from).ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (sender, receiver) = mpsc::channel::<Piece>(PIECES);
    let (mode, source) = (format!("{:o}", meta.permissions().mode() & 0o777), from.to_owned());
    let bar = progress((!meta.is_dir()).then_some(meta.len()));
    let shown = bar.clone();
    let start = if meta.is_dir() {
        tokio::task::spawn_blocking(move || {
            let pieces = Pieces { to: sender, bar: shown };
            let end = pieces.to.clone();
            let packed = pack(&source, pieces);
            if let Err(error) = packed {
                // Whoever takes no more has ended, and says why.
                let _ = end.blocking_send(Err(error));
            }
        });
        start(args, api, job, TAKE_FOLDER, &[path, &name])
    } else {
        let mut file = fs::File::open(from).map_err(|error| failed(from, &error))?;
        tokio::task::spawn_blocking(move || {
            let mut pieces = Pieces { to: sender, bar: shown };
            if let Err(error) = io::copy(&mut file, &mut pieces) {
                let _ = pieces.to.blocking_send(Err(error));
            }
        });
        start(args, api, job, TAKE_FILE, &[path, &name, &mode])
    };
    // It writes nothing.
    let (nothing, _ignored) = mpsc::channel(PIECES);
    let code = pipe::carry(api, start, receiver, nothing).await;
    bar.finish_and_clear();
    judged(code?)
}

/// All of a folder, its links as links.
fn pack(folder: &Path, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    archive.append_dir_all(".", folder)?;
    archive.finish()
}

/// Pieces for a step, as a file to write to.
struct Pieces {
    to: mpsc::Sender<Piece>,
    bar: ProgressBar,
}

impl Write for Pieces {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.to.blocking_send(Ok(data.to_vec())).map_err(gone)?;
        self.bar.inc(data.len() as u64);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Pieces of a step, as a file to read from.
struct Output {
    from: mpsc::Receiver<Vec<u8>>,
    held: io::Cursor<Vec<u8>>,
    bar: ProgressBar,
}

impl Read for Output {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.held.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let Some(piece) = self.from.blocking_recv() else { return Ok(0) };
            self.bar.inc(piece.len() as u64);
            self.held = io::Cursor::new(piece);
        }
    }
}

/// What was written here, under another name until all of it was there.
enum Arrived {
    Nothing,
    File(tempfile::NamedTempFile, PathBuf),
    Folder,
}

async fn receive(args: &Copy, api: &Api, job: &str, path: &str, to: PathBuf) -> Result<(), Error> {
    let (sender, from) = mpsc::channel(PIECES);
    let name = Path::new(path).file_name().map(PathBuf::from).unwrap_or_default();
    let bar = progress(None);
    let output = Output { from, held: io::Cursor::default(), bar: bar.clone() };
    let place = to.clone();
    let arrives = tokio::task::spawn_blocking(move || arrive(output, &place, &name));
    let (end, nothing) = mpsc::channel(1);
    drop(end);
    let code = pipe::carry(api, start(args, api, job, GIVE, &[path]), nothing, sender).await;
    bar.finish_and_clear();
    let arrived = arrives.await.map_err(|error| Error::Config(error.to_string()))?;
    let arrived = arrived.map_err(|error| failed(&to, &error))?;
    // Of a copy that has failed there the file is not kept.
    judged(code?)?;
    match arrived {
        Arrived::File(file, place) => {
            file.persist(&place).map(drop).map_err(|error| failed(&place, &error.error))
        }
        Arrived::Folder => Ok(()),
        Arrived::Nothing => Err(Error::Config("the job has sent nothing".to_owned())),
    }
}

/// Writes what comes: a file beside its place, a folder where it is to be.
fn arrive(output: Output, to: &Path, name: &Path) -> io::Result<Arrived> {
    let mut output = BufReader::new(output);
    let mut kind = String::new();
    output.by_ref().take(16).read_line(&mut kind)?;
    let place = if to.is_dir() { to.join(name) } else { to.to_owned() };
    match kind.trim_end() {
        "" => Ok(Arrived::Nothing),
        "folder" => {
            fs::create_dir_all(&place)?;
            let mut archive = tar::Archive::new(output);
            archive.set_preserve_mtime(true);
            // No entry is written outside of it.
            archive.unpack(&place)?;
            Ok(Arrived::Folder)
        }
        kind => {
            let beside = place.parent().filter(|folder| !folder.as_os_str().is_empty());
            let mut file = tempfile::Builder::new()
                .prefix(".rail-cp.")
                .tempfile_in(beside.unwrap_or_else(|| Path::new(".")))?;
            io::copy(&mut output, &mut file)?;
            let mode = if kind == "program" { 0o755 } else { 0o644 };
            file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
            Ok(Arrived::File(file, place))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_in_a_job_is_told_by_its_colon() {
        let there = |job: &str, path: &str| End::There { job: job.into(), path: path.into() };
        assert_eq!(End::of("train:/tmp/x").unwrap(), there("train", "/tmp/x"));
        assert_eq!(End::of("nlp/train:out:1").unwrap(), there("nlp/train", "out:1"));
        for here in ["x", "./a:b", "/a:b", ":x"] {
            assert_eq!(End::of(here).unwrap(), End::Here(here.into()), "{here}");
        }
        assert!(End::of("train:").is_err());
    }

    fn output(pieces: &[&[u8]]) -> Output {
        let (sender, from) = mpsc::channel(PIECES);
        for piece in pieces {
            sender.try_send(piece.to_vec()).unwrap();
        }
        Output { from, held: io::Cursor::default(), bar: ProgressBar::hidden() }
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let arrived = arrive(output(&[b"fi", b"le\nab", b"c"]), folder.path(), Path::new("x")).unwrap();
        let Arrived::File(file, place) = arrived else { panic!() };
        assert_eq!((place.clone(), place.exists()), (folder.path().join("x"), false));
        assert_eq!(fs::read(file.path()).unwrap(), b"abc");
        assert!(matches!(arrive(output(&[]), folder.path(), Path::new("x")).unwrap(), Arrived::Nothing));
    }

    #[test]
    fn a_folder_is_packed_and_unpacked_and_nothing_leaves_it() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("sub")).unwrap();
        fs::write(from.path().join("sub/a"), "1").unwrap();
        std::os::unix::fs::symlink("sub/a", from.path().join("link")).unwrap();
        let mut packed = b"folder\n".to_vec();
        pack(from.path(), &mut packed).unwrap();
        let place = to.path().join("copy");
        assert!(matches!(arrive(output(&[&packed]), &place, Path::new("x")).unwrap(), Arrived::Folder));
        assert_eq!(fs::read_to_string(place.join("sub/a")).unwrap(), "1");
        assert_eq!(fs::read_link(place.join("link")).unwrap(), Path::new("sub/a"));
        let mut evil = tar::Builder::new(b"folder\n".to_vec());
        let mut header = tar::Header::new_old();
        header.set_size(1);
        header.as_old_mut().name[..7].copy_from_slice(b"../evil");
        header.set_cksum();
        evil.append(&header, &b"x"[..]).unwrap();
        let evil = evil.into_inner().unwrap();
        let _ = arrive(output(&[&evil]), &place, Path::new("x"));
        assert!(!to.path().join("evil").exists());
    }
}
