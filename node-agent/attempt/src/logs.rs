//! A rank's output on disk: bounded, rotated once, in the order in which it was read.
//!
//! A line of the file is one piece of output: a letter, a space, the bytes. `O` is a line of standard output, `E` of
//! standard error, `N` a note of Railyard's own; `o` and `e` are pieces whose line goes on. So the file can be read
//! by people, and given back byte by byte. `t MILLISECONDS` says when what follows was written, in milliseconds since
//! 1970; what earlier releases wrote has none.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Longer lines are kept in pieces of this size.
const PIECE_MAX: usize = 8 * 1024;

/// Where a piece came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// The standard output of a rank.
    Out,
    /// The standard error of a rank.
    Err,
    /// A note by Railyard itself.
    Note,
}

impl Stream {
    fn letter(self, whole: bool) -> u8 {
        match (self, whole) {
            (Self::Out, true) => b'O',
            (Self::Out, false) => b'o',
            (Self::Err, true) => b'E',
            (Self::Err, false) => b'e',
            (Self::Note, _) => b'N',
        }
    }
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".1");
    path.with_file_name(name)
}

/// Writes one rank's output: at most two files of `limit` bytes.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    older_size: u64,
    limit: u64,
    dropped: u64,
    partial: [Vec<u8>; 2],
    /// The last time that the file has.
    reported: Option<u64>,
}

impl LogWriter {
    /// Begins a new log; what was there is overwritten.
    #[must_use]
    pub fn new(path: PathBuf, limit: u64) -> Self {
        let file = Self::create(&path);
        let limit = limit.max(PIECE_MAX as u64 * 2);
        Self {
            path,
            file,
            size: 0,
            older_size: 0,
            limit,
            dropped: 0,
            partial: Default::default(),
            reported: None,
        }
    }

    fn create(path: &Path) -> Option<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).ok()
    }

    /// Takes bytes as they were read; lines are written when they are whole or too long.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.push_at(now(), stream, bytes);
    }

    /// The same at a time in milliseconds since 1970.
    fn push_at(&mut self, now: u64, stream: Stream, bytes: &[u8]) {
        let slot = usize::from(stream == Stream::Err);
        let mut held = std::mem::take(&mut self.partial[slot]);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (whole, text) = match part.split_last() {
                Some((b'\n', text)) => (true, text),
                _ => (false, part),
            };
            for byte in text {
                if held.len() == PIECE_MAX {
                    self.write(now, stream, false, &held);
                    held.clear();
                }
                held.push(*byte);
            }
            if whole {
                self.write(now, stream, true, &held);
                held.clear();
            }
        }
        self.partial[slot] = held;
    }

    /// Writes what waits for the end of its line: a prompt, or the last words of a process.
    pub fn flush(&mut self) {
        for (slot, stream) in [(0, Stream::Out), (1, Stream::Err)] {
            let held = std::mem::take(&mut self.partial[slot]);
            if !held.is_empty() {
                self.write(now(), stream, false, &held);
            }
        }
    }

    /// A line of Railyard's own.
    pub fn note(&mut self, text: &str) {
        self.flush();
        self.write(now(), Stream::Note, true, text.replace('\n', " ").as_bytes());
    }

    fn write(&mut self, now: u64, stream: Stream, whole: bool, bytes: &[u8]) {
        let mut line = Vec::with_capacity(bytes.len() + 3);
        line.extend([stream.letter(whole), b' ']);
        line.extend_from_slice(bytes);
        line.push(b'\n');
        if self.size + line.len() as u64 > self.limit {
            self.rotate();
        }
        if self.reported != Some(now) {
            // Before the line in one write, so that a reader never sees a line under the time of another.
            let mut timed = format!("t {now}\n").into_bytes();
            timed.append(&mut line);
            line = timed;
            self.reported = Some(now);
        }
        self.append(&line);
    }

    /// A rank never waits for its log: what cannot be written (disk full) is dropped and counted.
    fn append(&mut self, line: &[u8]) {
        match self.file.as_mut().map(|file| file.write_all(line)) {
            Some(Ok(())) => self.size += line.len() as u64,
            _ => self.dropped += line.len() as u64,
        }
    }

    fn rotate(&mut self) {
        if fs::rename(&self.path, older(&self.path)).is_ok() {
            self.dropped += self.older_size;
            self.older_size = self.size;
        } else {
            self.dropped += self.size;
        }
        self.file = Self::create(&self.path);
        self.size = 0;
        self.reported = None;
        if self.dropped > 0 {
            let note = format!("N {} bytes of older output dropped\n", self.dropped);
            self.append(note.as_bytes());
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The time by the wall clock, in milliseconds since 1970.
fn now() -> u64 {
    let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// A piece of output, with the newline that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// When it was written, in milliseconds since 1970, where the file says it.
    pub time: Option<u64>,
    /// The stream that the piece was written to.
    pub stream: Stream,
    /// The bytes as they were written.
    pub data: Vec<u8>,
}

/// The time that a line has.
fn time(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line.strip_prefix(b"t ")?).ok()?.trim_end().parse().ok()
}

fn parse(line: &[u8], time: Option<u64>) -> Option<Piece> {
    let (letter, rest) = line.split_first()?;
    let mut data = rest.strip_prefix(b" ")?.to_vec();
    let stream = match letter {
        b'O' | b'o' => Stream::Out,
        b'E' | b'e' => Stream::Err,
        b'N' => Stream::Note,
        _ => return None,
    };
    if letter.is_ascii_uppercase() {
        data.push(b'\n');
    }
    Some(Piece { time, stream, data })
}

/// Reads one rank's output, the rotated part first, and goes on where it stopped.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    file: Option<BufReader<File>>,
    inode: u64,
    /// The current file while the rotated part is read: it is there for a slow reader when the attempt has been put away.
    next: Option<(BufReader<File>, u64)>,
    pending: Vec<u8>,
    skip: u64,
    since: u64,
    /// The time of what is read now.
    time: Option<u64>,
}

impl LogReader {
    /// What was written at `since` (milliseconds since 1970) or later, of that the last `tail` lines; 0 means from the beginning of what
    /// is kept. What has no time is not left out.
    #[must_use]
    pub fn open(path: &Path, tail: u32, since: u64) -> Self {
        let (next, pending) = (None, Vec::new());
        let mut reader =
            Self { path: path.into(), file: None, inode: 0, next, pending, skip: 0, since, time: None };
        if tail > 0 {
            let lines = count_lines(&older(path), since) + count_lines(path, since);
            reader.skip = lines.saturating_sub(u64::from(tail));
        }
        // The current file first: if it is rotated right now, it is found again as the older one, and nothing is missed.
        let current = open_log(path);
        match (open_log(&older(path)), current) {
            (Some(older), Some(current)) if older.1 != current.1 => {
                reader.enter(Some(older));
                reader.next = Some(current);
            }
            (Some(one), _) | (None, Some(one)) => reader.enter(Some(one)),
            (None, None) => {}
        }
        reader
    }

    fn enter(&mut self, opened: Option<(BufReader<File>, u64)>) {
        self.time = None;
        let (file, inode) = opened.unzip();
        self.file = file;
        self.inode = inode.unwrap_or(self.inode);
    }

    /// The next pieces, at most about `limit` bytes; empty if there are none now.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn next(&mut self, limit: usize) -> io::Result<Vec<Piece>> {
        let mut found = Vec::new();
        let mut taken = 0;
        while taken < limit {
            let length = match self.file.as_mut() {
                Some(file) => file.read_until(b'\n', &mut self.pending)?,
                None => 0,
            };
            if length == 0 {
                if !self.follow() {
                    break;
                }
                continue;
            }
            if self.pending.last() != Some(&b'\n') {
                // The writer is in the middle of a line; the rest comes.
                continue;
            }
            let line = std::mem::take(&mut self.pending);
            if let Some(time) = time(&line) {
                self.time = Some(time);
                continue;
            }
            if self.time.is_some_and(|time| time < self.since) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= u64::from(line[0].is_ascii_uppercase());
                continue;
            }
            if let Some(piece) = parse(&line[..line.len() - 1], self.time) {
                taken += piece.data.len();
                found.push(piece);
            }
        }
        Ok(found)
    }

    /// At the end of a file: true if another one is to be read now.
    fn follow(&mut self) -> bool {
        if self.next.is_some() {
            self.pending.clear();
            let next = self.next.take();
            self.enter(next);
            return true;
        }
        let current = fs::metadata(&self.path).map(|meta| meta.ino()).ok();
        if current.is_none() || (self.file.is_some() && current == Some(self.inode)) {
            return false;
        }
        self.pending.clear();
        self.enter(open_log(&self.path));
        self.file.is_some()
    }
}

/// A log file and its inode.
fn open_log(path: &Path) -> Option<(BufReader<File>, u64)> {
    let file = File::open(path).ok()?;
    let inode = file.metadata().map_or(0, |meta| meta.ino());
    Some((BufReader::new(file), inode))
}

fn count_lines(path: &Path, since: u64) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let mut reader = BufReader::new(file);
    let (mut count, mut line, mut reported) = (0, Vec::new(), None);
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        reported = time(&line).or(reported);
        let late = reported.is_none_or(|time| time >= since);
        count += u64::from(late && line[0].is_ascii_uppercase());
        line.clear();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[Piece], stream: Stream) -> Vec<u8> {
        pieces.iter().filter(|piece| piece.stream == stream).flat_map(|piece| piece.data.clone()).collect()
    }

    fn all(reader: &mut LogReader) -> Vec<Piece> {
        let mut found = Vec::new();
        loop {
            let pieces = reader.next(1000).unwrap();
            if pieces.is_empty() {
                return found;
            }
            found.extend(pieces);
        }
    }

    #[test]
    fn bytes_come_back_as_they_were_and_following_goes_on() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let mut writer = LogWriter::new(path.clone(), 1 << 20);
        let mut reader = LogReader::open(&path, 0, 0);
        writer.push(Stream::Out, b"one\ntw");
        writer.push(Stream::Err, b"warning\n");
        writer.push(Stream::Out, b"o\n\n\xff\x00\r");
        let first = all(&mut reader);
        assert_eq!(text(&first, Stream::Out), b"one\ntwo\n\n");
        assert_eq!(text(&first, Stream::Err), b"warning\n");
        writer.note("stopping:\ncancelled");
        writer.push(Stream::Out, &vec![b'x'; 3 * PIECE_MAX]);
        drop(writer);
        let rest = all(&mut reader);
        let mut expected = b"\xff\x00\r".to_vec();
        expected.extend(vec![b'x'; 3 * PIECE_MAX]);
        assert_eq!(text(&rest, Stream::Out), expected);
        assert_eq!(text(&rest, Stream::Note), b"stopping: cancelled\n");
        assert!(all(&mut reader).is_empty());
    }

    #[test]
    fn size_is_bounded_and_what_was_dropped_is_told() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let limit = 20_000;
        let mut writer = LogWriter::new(path.clone(), limit);
        let mut follower = LogReader::open(&path, 0, 0);
        let mut followed = 0;
        for n in 0..10_000 {
            // Ten lines a millisecond: by the wall clock, times are as many as the machine is slow, and files end elsewhere each time.
            writer.push_at(1_796_000_000_000 + n / 10, Stream::Out, format!("line {n}\n").as_bytes());
            if n % 100 == 0 {
                followed += all(&mut follower).iter().filter(|piece| piece.stream == Stream::Out).count();
            }
        }
        drop(writer);
        followed += all(&mut follower).iter().filter(|piece| piece.stream == Stream::Out).count();
        assert_eq!(followed, 10_000, "a reader that keeps up misses nothing over rotations");
        let size: u64 =
            fs::read_dir(room.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(size <= 2 * limit, "{size}");
        let pieces = all(&mut LogReader::open(&path, 0, 0));
        assert!(pieces.iter().any(|p| p.stream == Stream::Note && p.data.ends_with(b"dropped\n")));
        assert_eq!(pieces.last().unwrap().data, b"line 9999\n");
        let tail = all(&mut LogReader::open(&path, 3, 0));
        assert_eq!(text(&tail, Stream::Out), b"line 9997\nline 9998\nline 9999\n");
    }

    #[test]
    fn a_slow_reader_gets_what_was_there_when_it_came() {
        let room = tempfile::tempdir().unwrap();
        let place = room.path().join("try");
        fs::create_dir(&place).unwrap();
        let path = place.join("log");
        let mut writer = LogWriter::new(path.clone(), 20_000);
        for n in 0..3000 {
            writer.push(Stream::Out, format!("line {n}\n").as_bytes());
        }
        drop(writer);
        assert!(older(&path).exists());
        let whole = all(&mut LogReader::open(&path, 0, 0));
        let mut slow = LogReader::open(&path, 0, 0);
        // The attempt is put away before the reader has come to the current file.
        fs::rename(&place, room.path().join("kept")).unwrap();
        assert_eq!(all(&mut slow), whole);
        assert_eq!(whole.last().unwrap().data, b"line 2999\n");
    }

    #[test]
    fn what_was_written_before_a_time_is_left_out() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        // As an earlier release wrote it, and then with times.
        fs::write(&path, "O first\n").unwrap();
        let old = all(&mut LogReader::open(&path, 0, 5000));
        assert_eq!((old[0].time, text(&old, Stream::Out)), (None, b"first\n".to_vec()));
        let mut writer = LogWriter::new(path.clone(), 1 << 20);
        for (at, line) in [(1000, "a\n"), (1000, "b\n"), (2000, "c\n"), (3000, "d\ne\n")] {
            writer.push_at(at, Stream::Out, line.as_bytes());
        }
        drop(writer);
        let since = |tail, since| {
            let pieces = all(&mut LogReader::open(&path, tail, since));
            (text(&pieces, Stream::Out), pieces.first().and_then(|piece| piece.time))
        };
        assert_eq!(since(0, 0), (b"a\nb\nc\nd\ne\n".to_vec(), Some(1000)));
        assert_eq!(since(0, 1500), (b"c\nd\ne\n".to_vec(), Some(2000)));
        assert_eq!(since(0, 3000), (b"d\ne\n".to_vec(), Some(3000)));
        assert_eq!(since(1, 1500), (b"e\n".to_vec(), Some(3000)));
        assert_eq!(since(9, 1500), (b"c\nd\ne\n".to_vec(), Some(2000)));
        assert_eq!(since(0, 9000), (Vec::new(), None));
        let content = fs::read_to_string(&path).unwrap();
        assert_eq!(content.matches("t ").count(), 3, "a time is told once: {content}");
    }

    #[test]
    fn an_absent_log_is_empty_until_it_is_there() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let mut reader = LogReader::open(&path, 5, 0);
        assert!(all(&mut reader).is_empty());
        LogWriter::new(path, 1 << 20).push(Stream::Out, b"here\n");
        assert_eq!(text(&all(&mut reader), Stream::Out), b"here\n");
    }
}
