//! The journal of class of service on disk: a file for each NIC, replaced whole, and one that only grows with a line for each apply.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use node_agent_os::files::{self, Durability};

use crate::{AuditLine, Journal, Record};

/// A journal that has grown to this is set aside; the one before it is dropped.
const AUDIT_MAX: u64 = 8 * 1024 * 1024;

/// The journal below the agent's data directory. While it is open no other process has it.
#[derive(Debug)]
pub struct FileJournal {
    folder: PathBuf,
    _lock: File,
}

impl FileJournal {
    /// Opens it, or makes it.
    ///
    /// # Errors
    /// Another process has it open (`WouldBlock`), or what the kernel answered.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let folder = Self::folder(data_dir);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let lock = files::lock(&folder.join("lock"))?.ok_or_else(|| {
            let text = format!(
                "{} is in use by the agent; ask the controller, or stop the agent first",
                folder.display()
            );
            io::Error::new(io::ErrorKind::WouldBlock, text)
        })?;
        Ok(Self { folder, _lock: lock })
    }

    /// What is in it, also while another process has it open; empty where there is none.
    ///
    /// # Errors
    /// A file cannot be read or is no record.
    pub fn read(data_dir: &Path) -> io::Result<Vec<Record>> {
        let (records, unreadable) = read_records(&Self::folder(data_dir))?;
        match unreadable.into_values().next() {
            None => Ok(records),
            Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
        }
    }

    /// The records that can be read, and of the others why not, by the key in the file's name; also while another process has it open.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn read_all(data_dir: &Path) -> io::Result<(Vec<Record>, BTreeMap<String, String>)> {
        read_records(&Self::folder(data_dir))
    }

    fn folder(data_dir: &Path) -> PathBuf {
        data_dir.join("qos")
    }

    fn audit_path(&self) -> PathBuf {
        self.folder.join("audit.jsonl")
    }
}

/// A key in a file's name: a bus address or an interface's name; neither may have a slash, and a strange one does no harm.
fn file_name(key: &str) -> String {
    let safe =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_') { c } else { '_' };
    format!("nic-{}.json", key.chars().map(safe).collect::<String>())
}

/// The records, and of those that cannot be read why, by the key in the file's name.
fn read_records(folder: &Path) -> io::Result<(Vec<Record>, BTreeMap<String, String>)> {
    let (mut records, mut unreadable) = (Vec::new(), BTreeMap::new());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((records, unreadable)),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("nic-") && name.ends_with(".json")
    });
    paths.sort();
    for path in paths {
        match files::read_json(&path) {
            Ok(record) => records.extend(record),
            Err(error) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                let key = name.strip_prefix("nic-").unwrap_or(&name).to_owned();
                let text = format!(
                    "{error}; what was under way on the NIC is not known: see `qos diff`, and remove the file if it is as it should be"
                );
                unreadable.insert(key, text);
            }
        }
    }
    Ok((records, unreadable))
}

impl Journal for FileJournal {
    fn load(&mut self) -> io::Result<Vec<Record>> {
        Ok(read_records(&self.folder)?.0)
    }

    fn unreadable(&mut self) -> BTreeMap<String, String> {
        read_records(&self.folder).map(|(_, unreadable)| unreadable).unwrap_or_default()
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        files::write_json(&self.folder.join(file_name(&record.key)), record, Durability::Power)
    }

    fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
        let path = self.audit_path();
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > AUDIT_MAX) {
            fs::rename(&path, self.folder.join("audit.jsonl.1"))?;
        }
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        file.write_all(&text)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agents, observe};
    use node_agent_netlink::{
        Kernel,
        fake::{FakeKernel, Style},
    };
    use node_agent_qos::{Options, QosProfile, Stage, journal, plan, vendor};

    fn record(key: &str, stage: Stage) -> Record {
        let kernel = FakeKernel::new();
        kernel.add("eth0", Style::Mlx5);
        kernel.change(|world| world.files.put("proc/1/comm", "init\n"));
        let nic = crate::device::find(&kernel, "eth0").unwrap();
        let seen = observe(&kernel, &nic, true, agents::find(kernel.files()));
        let plan = plan(&QosProfile::default(), &seen, vendor::of(&seen), Options::default()).unwrap();
        let apply = journal::Journal::new(
            &plan,
            &seen,
            journal::Asker::Local("alice".into()),
            std::time::Duration::MAX,
        );
        let apply = journal::Journal { stage, ..apply };
        Record { key: key.into(), profile: plan.profile, begun_ms: 7, apply }
    }

    #[test]
    fn records_and_lines_survive_and_one_process_writes() {
        let room = tempfile::tempdir().unwrap();
        assert_eq!(FileJournal::read(room.path()).unwrap(), []);
        let mut journal = FileJournal::open(room.path()).unwrap();
        assert_eq!(journal.load().unwrap(), []);
        let stuck = Stage::Stuck { reason: "why".into() };
        let records =
            [record("0000:18:00.0", Stage::Applying { edit: 3 }), record("eth/../9", stuck.clone())];
        for record in &records {
            journal.save(record).unwrap();
        }
        journal.save(&record("0000:18:00.0", Stage::Confirmed)).unwrap();
        let line = AuditLine {
            time_ms: 1,
            who: "alice".into(),
            netdev: "eth0".into(),
            profile: "p".into(),
            action: "apply".into(),
            changes: vec!["dcb pfc set".into()],
            result: "done".into(),
        };
        journal.audit(&line).unwrap();
        journal.audit(&line).unwrap();
        let error = FileJournal::open(room.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        drop(journal);
        let mut journal = FileJournal::open(room.path()).unwrap();
        let read = journal.load().unwrap();
        assert_eq!(read, [record("0000:18:00.0", Stage::Confirmed), record("eth/../9", stuck)]);
        assert_eq!(read.iter().map(Record::in_service).collect::<Vec<_>>(), [true, false]);
        let text = fs::read_to_string(room.path().join("qos/audit.jsonl")).unwrap();
        let lines: Vec<AuditLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, [line.clone(), line]);
        fs::write(room.path().join("qos/nic-bad.json"), "{").unwrap();
        // The others are known, and of whose nothing is known is named.
        assert_eq!(journal.load().unwrap().len(), 2);
        assert!(journal.unreadable()["bad"].contains("nic-bad.json"));
        let error = FileJournal::read(room.path()).unwrap_err();
        assert!(error.to_string().contains("nic-bad.json"), "{error}");
    }
}
