//! What is on disk: a record for each prepared claim, what container runtimes read for it, and the rails that were seen last.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use node_agent_os::files::{self, Durability};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    cdi,
    claims::{Found, Record, Reserved, Step, VERSION},
    devices::RailDevice,
    error::DriverError,
    key::{ClaimKey, is_uid},
};

/// What the file names of records end with, and those of files that are being written.
const ENDING: &str = ".json";
const UNFINISHED: &str = ".json.new";

/// The driver's folder and that of container runtimes. No other driver uses the first while this lives.
#[derive(Debug)]
pub struct Store {
    state: PathBuf,
    cdi: PathBuf,
    _lock: File,
}

impl Store {
    /// Takes the folders, and makes them where they are not there.
    ///
    /// # Errors
    /// [`DriverError::Locked`] if another driver has the first; [`DriverError::File`].
    pub fn open(state: &Path, cdi: &Path) -> Result<Self, DriverError> {
        DirBuilder::new().recursive(true).mode(0o700).create(state.join("claims"))?;
        fs::create_dir_all(cdi)?;
        let lock = files::lock(&state.join("lock"))?;
        let lock = lock.ok_or_else(|| DriverError::Locked(state.to_owned()))?;
        Ok(Self { state: state.to_owned(), cdi: cdi.to_owned(), _lock: lock })
    }

    /// What an earlier process has left. What it had not finished writing is removed.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn load(&self) -> io::Result<Found> {
        let mut found = Found::default();
        for name in self.names(&self.claims())? {
            let Some(uid) = name.strip_suffix(ENDING).filter(|uid| is_uid(uid)) else { continue };
            let path = self.record(uid);
            let Some(value) = files::read_json::<Value>(&path).transpose() else { continue };
            let record = value.as_ref().ok().map(Record::deserialize);
            match record {
                Some(Ok(record)) if record.version == VERSION && record.key.uid == uid => {
                    found.records.push(record);
                    continue;
                }
                _ => found.unreadable.insert(uid.to_owned()),
            };
            let reserved = value.as_ref().ok().and_then(|value| reserved(value, uid));
            let cause = match (&value, record) {
                (Err(error), _) => error.to_string(),
                (_, Some(Err(error))) => error.to_string(),
                _ => "another release's, or another claim's".to_owned(),
            };
            tracing::error!(
                path = %path.display(), uid, cause, devices = ?reserved.as_ref().map(|one| &one.devices),
                "this record cannot be used; its claim keeps the devices that are named here, and is prepared anew when kubelet asks"
            );
            found.reserved.extend(reserved);
        }
        let names = self.names(&self.cdi)?;
        found.exposed = names.iter().filter_map(|name| cdi::uid_of(name)).map(str::to_owned).collect();
        Ok(found)
    }

    /// Does one step.
    ///
    /// # Errors
    /// What the operating system answered, with the file's name.
    pub fn apply(&self, step: &Step) -> io::Result<()> {
        match step {
            // Kubelet's own list of prepared claims survives a power cut as well.
            Step::Save(record) => files::write_json(&self.record(&record.key.uid), record, Durability::Power),
            Step::Expose(record) => {
                let path = self.cdi.join(cdi::file_name(&record.key.uid));
                files::write_json(&path, &cdi::specification(record), Durability::Process)
            }
            Step::Conceal(uid) => remove(&self.cdi.join(cdi::file_name(uid))).map(|_| ()),
            Step::Forget(uid) => {
                if remove(&self.record(uid))? {
                    File::open(self.claims())?.sync_all()?;
                }
                Ok(())
            }
        }
    }

    /// The rails that were seen last, with which claims can be prepared while nobody says what there is; none if there are none.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn devices(&self) -> io::Result<Option<Vec<RailDevice>>> {
        files::read_json(&self.state.join("rails.json"))
    }

    /// Keeps them.
    ///
    /// # Errors
    /// What the operating system answered.
    pub fn save_devices(&self, devices: &[RailDevice]) -> io::Result<()> {
        files::write_json(&self.state.join("rails.json"), &devices, Durability::Power)
    }

    fn claims(&self) -> PathBuf {
        self.state.join("claims")
    }

    fn record(&self, uid: &str) -> PathBuf {
        self.claims().join(format!("{uid}{ENDING}"))
    }

    /// The names of our files in a folder, without those that were not finished.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let finished = name.strip_suffix(UNFINISHED).map(|stem| format!("{stem}{ENDING}"));
            let ours = |finished: &String| folder != self.cdi || cdi::uid_of(finished).is_some();
            match finished.filter(ours) {
                Some(_) => _ = remove(&folder.join(name))?,
                None => names.push(name),
            }
        }
        Ok(names)
    }
}

/// What is understood of a record whatever its version: the claim, and the devices that are its own.
fn reserved(record: &Value, uid: &str) -> Option<Reserved> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let key = &record["key"];
    let key = ClaimKey::new(&text(&key["uid"])?, &text(&key["namespace"])?, &text(&key["name"])?).ok()?;
    let own = record["devices"].as_array()?.iter().filter(|given| given["shared"] != true);
    let devices = own.filter_map(|given| text(&given["device"]["name"])).collect();
    (key.uid == uid).then_some(Reserved { key, devices })
}

/// Removes a file; false where there was none.
fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot remove {}: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claims::Given, devices::devices, devices::tests::view, key::ClaimKey};

    fn record(uid: &str) -> Record {
        let device = devices(&view()).swap_remove(0);
        Record {
            version: VERSION,
            key: ClaimKey::new(uid, "ml", "c").unwrap(),
            pool: "n0".to_owned(),
            devices: vec![Given { device, requests: vec!["r".to_owned()], shared: false, files: Vec::new() }],
            environment: [("A".to_owned(), "b".to_owned())].into(),
            files: Vec::new(),
        }
    }

    #[test]
    fn records_survive_a_new_start_and_others_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (state, cdi_folder) = (folder.path().join("state"), folder.path().join("cdi"));
        let store = Store::open(&state, &cdi_folder).unwrap();
        assert!(matches!(Store::open(&state, &cdi_folder), Err(DriverError::Locked(_))));
        for step in [Step::Save(record("u1")), Step::Expose(record("u1")), Step::Save(record("u2"))] {
            store.apply(&step).unwrap();
        }
        fs::write(state.join("claims/u3.json"), "{").unwrap();
        fs::write(state.join("claims/u4.json.new"), "{").unwrap();
        fs::copy(state.join("claims/u2.json"), state.join("claims/u5.json")).unwrap();
        let mut newer = serde_json::to_value(record("u6")).unwrap();
        newer["version"] = 2.into();
        newer["addedLater"] = true.into();
        fs::write(state.join("claims/u6.json"), newer.to_string()).unwrap();
        for name in ["gpu.example.com-1.json", "gpu.example.com-2.json.new", "rail.railyard.io-u9.json.new"] {
            fs::write(cdi_folder.join(name), "{}").unwrap();
        }
        drop(store);
        let store = Store::open(&state, &cdi_folder).unwrap();
        let mut found = store.load().unwrap();
        found.records.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(found.records, [record("u1"), record("u2")]);
        assert_eq!(found.unreadable, ["u3", "u5", "u6"].map(str::to_owned).into());
        let (key, name) = (record("u6").key, record("u6").devices[0].device.name.clone());
        assert_eq!(found.reserved, [Reserved { key, devices: [name].into() }]);
        assert_eq!(found.exposed, ["u1".to_owned()].into());
        assert!(
            !state.join("claims/u4.json.new").exists()
                && !cdi_folder.join("rail.railyard.io-u9.json.new").exists()
        );
        assert!(cdi_folder.join("gpu.example.com-2.json.new").exists());
        for uid in ["u1", "u1", "u3"] {
            store.apply(&Step::Conceal(uid.to_owned())).unwrap();
            store.apply(&Step::Forget(uid.to_owned())).unwrap();
        }
        assert_eq!(store.load().unwrap().records, [record("u2")]);
        assert!(store.load().unwrap().exposed.is_empty());
    }

    #[test]
    fn rails_are_kept_for_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), folder.path()).unwrap();
        assert_eq!(store.devices().unwrap(), None);
        let all = devices(&view());
        store.save_devices(&all).unwrap();
        assert_eq!(store.devices().unwrap(), Some(all));
    }
}
