//! What happened, in the order in which it was noticed: one JSON object a line, for the checker and for people.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use serde::{Deserialize, Serialize};

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds after the start of the faults, by the clock that does not jump.
    pub at: u64,
    /// What happened, with its details.
    #[serde(flatten)]
    pub what: What,
}

/// What was noticed. A *thing* is a GPU or a NIC of a node: `n3/gpu/0`, `n3/nic/rail1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum What {
    /// A fault began, or could not be brought about.
    Fault { number: usize, kind: String, victims: String, done: bool, note: String },
    /// The fault of this number was healed.
    Healed { number: usize, note: String },
    /// A process ended although nobody had ended it.
    Ended { part: String, status: String },
    /// A submit was sent, for the first time or again.
    Submit { request: String, attempt: u32 },
    /// The submit was acknowledged, and made this job.
    Acknowledged { request: String, uid: String, name: String, revision: u64 },
    /// It was refused, or nobody knows what became of it.
    Unanswered { request: String, error: String, refused: bool },
    /// A cancel was acknowledged.
    Cancelled { uid: String },
    /// A job was read, after its submit had been acknowledged.
    Read { uid: String, found: bool },
    /// A watch begins with the present state: what it delivered before is over.
    Watching { watch: usize, afresh: bool },
    /// It has delivered all of that, as of this revision; from here on changes follow.
    Synced { watch: usize, revision: u64 },
    /// A watch delivered the state of a job: what it holds, and whether it has ended.
    Job {
        watch: usize,
        revision: u64,
        uid: String,
        phase: String,
        attempt: u32,
        ended: bool,
        holds: Vec<String>,
    },
    /// A job's record is gone.
    Gone { watch: usize, revision: u64, uid: String },
    /// Who holds what, as the controller reports its nodes at one revision.
    Holds { revision: u64, held: Vec<(String, String)> },
    /// A rank's own word.
    Rank(Rank),
    /// At the end: a job that is stored.
    Stored { uid: String, name: String, request: String, phase: String },
    /// At the end: a change that the audit log has.
    Audited { seq: u64, rpc: String, request: String },
    /// At the end: what `railctl audit verify` said.
    Verified { good: bool, said: String },
    /// At the end: how long after the last fault all was as it should be; `None` if it was not in time.
    Converged { after_ms: Option<u64>, note: String },
}

/// What a rank says of itself, while it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// The uid of its job.
    pub uid: String,
    /// The number of the job's attempt.
    pub attempt: u32,
    /// The number of the rank in its job.
    pub rank: u32,
    /// The id of its process.
    pub pid: u32,
    /// Nanoseconds of the clock that does not jump.
    pub ns: u64,
    /// What it was given.
    pub things: Vec<String>,
    /// At which point of its life it speaks.
    pub point: Point,
}

/// When a rank speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// It has its things.
    Start,
    /// It still has them.
    Beat,
    /// It is about to end.
    End,
    /// Another process held one of them.
    Clash,
}

/// The file that the lines go to, and the time that they count from.
pub struct History {
    begin: Instant,
    file: Mutex<BufWriter<File>>,
}

impl History {
    /// A new file; its clock starts now.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { begin: Instant::now(), file: Mutex::new(BufWriter::new(File::create(path)?)) })
    }

    /// Milliseconds since its start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a line, with the time of now.
    pub fn add(&self, what: What) {
        let entry = Entry { at: self.now(), what };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Values of ours can be written; a disk that is full shows when the file is read.
        if let Ok(line) = serde_json::to_string(&entry) {
            let _ = writeln!(file, "{line}");
        }
    }

    /// Everything is in the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Reads lines of a history, or of ranks.
///
/// # Errors
/// What cannot be read, with its line. The last line of a file may be cut short: a process died while it wrote.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let mut all = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        match serde_json::from_str(line) {
            Ok(entry) => all.push(entry),
            Err(_) if lines.peek().is_none() && !text.ends_with('\n') => {}
            Err(error) => return Err(format!("{}:{}: {error}", path.display(), number + 1)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_read_again_and_only_a_last_line_may_be_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let reported = [
            What::Submit { request: "r1".to_owned(), attempt: 2 },
            What::Holds { revision: 7, held: vec![("n0/gpu/0".to_owned(), "u1".to_owned())] },
            What::Converged { after_ms: None, note: "n1".to_owned() },
        ];
        let history = History::create(&path).unwrap();
        reported.iter().for_each(|what| history.add(what.clone()));
        history.flush().unwrap();
        let read_again: Vec<Entry> = read(&path).unwrap();
        assert_eq!(read_again.into_iter().map(|entry| entry.what).collect::<Vec<_>>(), reported);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        assert_eq!(read::<Entry>(&path).unwrap().len(), 2);
        std::fs::write(&path, whole.replacen("request", "reqest", 1)).unwrap();
        assert!(read::<Entry>(&path).unwrap_err().contains("history:1:"));
        assert!(read::<Entry>(&dir.path().join("absent")).unwrap().is_empty());
    }
}
