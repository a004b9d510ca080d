//! What switches' agents have read back, held by the leader and stored nowhere: agents say it again. What is read is compared with what is
//! desired where either changes, so that the core hears a verdict and no files.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    io::{Read as _, Write as _},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use aws_lc_rs::digest;
use controller_core::{Key, State};
use controller_switch::{
    change::{Change, FRR_CONF, Settings, changes},
    cluster::{Cluster, Finding, Problem, profile_of},
    model::Name,
};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use proto_model::{Fabric, SwitchConfig, SwitchName, SwitchStanding};
use proto_wire::v1;

/// Bytes of all files of one switch, at most.
pub(crate) const FILES_MAX: usize = 8 * 1024 * 1024;
/// Differences of one switch that are kept.
const CHANGES_MAX: usize = 1000;

/// What desired configurations follow from: shared, nothing of it is copied.
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) switches: Vec<Arc<SwitchConfig>>,
    pub(crate) profile: Option<Arc<str>>,
    /// Of the rollout to switches; 0: there is none.
    pub(crate) generation: u64,
    /// Another one where any of them is another one.
    pub(crate) key: u64,
    /// The number by which the core knows whether they are what switches are to have now.
    pub(crate) plans: u64,
}

impl Inputs {
    /// Of what is rolled out to switches; where nothing is, of the profile that is rolled out to NICs.
    pub(crate) fn of(state: &State) -> Self {
        Self::with(state, Some(state.switch_profile()))
    }

    /// Of a profile.
    pub(crate) fn with(state: &State, profile: Option<Arc<str>>) -> Self {
        let mut key = DefaultHasher::new();
        (state.version(&Key::Fabric), &profile).hash(&mut key);
        let switches: Vec<Arc<SwitchConfig>> = state.switches().map(Arc::clone).collect();
        for switch in &switches {
            (&switch.name, &switch.uid, switch.generation).hash(&mut key);
        }
        let fabric = state.base.fabric.clone().unwrap_or_default();
        let generation = state.base.switch_rollout.as_ref().map_or(0, |rollout| rollout.generation);
        Self { fabric, switches, profile, generation, key: key.finish(), plans: state.base.switch_plans }
    }

    pub(crate) fn cluster(&self) -> Cluster<'_> {
        Cluster::new(&self.fabric, self.switches.iter().map(Arc::as_ref))
    }

    /// The files that a switch is to have.
    ///
    /// # Errors
    /// Every finding at once.
    pub(crate) fn files(&self, name: &SwitchName) -> Result<Vec<v1::SwitchFile>, Vec<Finding>> {
        let profile = profile_of(self.profile.as_deref());
        let profile = profile.map_err(|why| {
            vec![Finding { at: "qos".to_owned(), problem: Problem::Profile(why.to_string()) }]
        })?;
        let files = self.cluster().files(&profile, name.as_str())?;
        let file = |file: controller_switch::cluster::File| v1::SwitchFile {
            name: file.name.to_owned(),
            content: file.content,
        };
        Ok(files.into_iter().map(file).collect())
    }

    /// Those of them that its agent puts in place.
    ///
    /// # Errors
    /// Every finding at once.
    pub(crate) fn agent_files(&self, name: &SwitchName) -> Result<Vec<v1::SwitchFile>, Vec<Finding>> {
        let mut files = self.files(name)?;
        let known = self.switches.iter().find(|known| known.name == *name);
        if known.is_some_and(|known| !known.spec.agent_has_routing()) {
            files.retain(|file| file.name != FRR_CONF);
        }
        Ok(files)
    }
}

/// Why files could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadFiles {
    #[error("are larger than {FILES_MAX} bytes together")]
    TooLarge,
    #[error("have another digest than the one that is said")]
    Digest,
}

/// The digest of files, as the schema has it.
pub(crate) fn digest_of(files: &[v1::SwitchFile]) -> String {
    let mut sorted: Vec<&v1::SwitchFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut context = digest::Context::new(&digest::SHA256);
    for file in sorted {
        for part in [file.name.as_bytes(), &[0], file.content.as_bytes(), &[0]] {
            context.update(part);
        }
    }
    data_encoding::HEXLOWER.encode(context.finish().as_ref())
}

/// What was read back of a switch, small.
#[derive(Clone, Debug)]
struct Packed(Arc<[u8]>);

impl Packed {
    fn new(files: &[v1::SwitchFile]) -> Option<Self> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        for file in files {
            for part in [&file.name, &file.content] {
                encoder.write_all(&u64::try_from(part.len()).ok()?.to_le_bytes()).ok()?;
                encoder.write_all(part.as_bytes()).ok()?;
            }
        }
        Some(Self(encoder.finish().ok()?.into()))
    }

    fn files(&self) -> Option<Vec<(String, String)>> {
        let mut bytes = Vec::new();
        let limit = FILES_MAX as u64 * 2;
        DeflateDecoder::new(&*self.0).take(limit).read_to_end(&mut bytes).ok()?;
        let (mut rest, mut parts) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (length, more) = rest.split_first_chunk::<8>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (text, more) = more.split_at_checked(length)?;
            parts.push(String::from_utf8(text.to_vec()).ok()?);
            rest = more;
        }
        let mut parts = parts.into_iter();
        let pair = || Some((parts.next()?, parts.next()?));
        Some(std::iter::from_fn(pair).collect())
    }
}

/// How what was read back stands to what is desired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    /// Where it differs; the first of them.
    pub(crate) changes: Vec<Change>,
    /// All of them.
    pub(crate) total: usize,
    /// Why nothing could be compared; empty: it was.
    pub(crate) why: String,
    /// Its planned BGP sessions: the port, and the switch at the other end.
    pub(crate) sessions: Vec<(String, Option<SwitchName>)>,
}

impl Verdict {
    pub(crate) fn standing(&self) -> SwitchStanding {
        match self.total {
            _ if !self.why.is_empty() => SwitchStanding::Unread,
            0 => SwitchStanding::Same,
            count => SwitchStanding::Differs(u32::try_from(count).unwrap_or(u32::MAX)),
        }
    }
}

/// Compares files that were read back with those that a switch is to have.
pub(crate) fn compare(inputs: &Inputs, name: &SwitchName, read: &[(String, String)]) -> Verdict {
    let unread = |why: String| Verdict { why: why.chars().take(512).collect(), ..Verdict::default() };
    let desired = match inputs.agent_files(name) {
        Ok(files) => files,
        Err(findings) => {
            let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return unread(format!("it cannot be planned: {text}"));
        }
    };
    let desired = desired.iter().map(|file| (file.name.as_str(), file.content.as_str()));
    let read = read.iter().map(|(name, content)| (name.as_str(), content.as_str()));
    match (Settings::from_files(desired), Settings::from_files(read)) {
        (Ok(desired), Ok(read)) => {
            let mut all = changes(&desired, &read);
            let total = all.len();
            // The worst first.
            all.reverse();
            all.truncate(CHANGES_MAX);
            let planned =
                if desired.routing.is_some() { inputs.cluster().sessions(name.as_str()) } else { Vec::new() };
            let session =
                |(port, peer): (Name, Name)| (port.to_string(), SwitchName::new(peer.as_str()).ok());
            Verdict {
                changes: all,
                total,
                why: String::new(),
                sessions: planned.into_iter().map(session).collect(),
            }
        }
        (Err(why), _) => unread(format!("what it is to have cannot be read: {why}")),
        (_, Err(why)) => unread(why),
    }
}

/// What was read back of a switch.
#[derive(Clone, Debug)]
struct ReadBack {
    digest: String,
    packed: Packed,
    /// Of the inputs that it was compared with.
    key: u64,
    verdict: Arc<Verdict>,
}

/// One switch.
#[derive(Clone, Debug, Default)]
struct Entry {
    read: Option<ReadBack>,
    ports: Arc<[v1::SwitchPortStatus]>,
}

type Entries = BTreeMap<SwitchName, Entry>;

/// All switches.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Mutex<Entries>>);

/// A board that somebody else may keep.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeakBoard(Weak<Mutex<Entries>>);

impl WeakBoard {
    /// What all ports said last, by switch; nothing once the board is gone.
    pub(crate) fn ports(&self) -> Vec<(String, Arc<[v1::SwitchPortStatus]>)> {
        let Some(board) = self.0.upgrade().map(Board) else { return Vec::new() };
        let ports_of = |(name, entry): (&SwitchName, &Entry)| (name.to_string(), Arc::clone(&entry.ports));
        board.with(|all| all.iter().map(ports_of).collect())
    }
}

/// What is known of a switch: how what was read back stood when it was compared last, and what its ports said.
pub(crate) struct LastReport {
    pub(crate) verdict: Option<Arc<Verdict>>,
    pub(crate) ports: Arc<[v1::SwitchPortStatus]>,
}

impl Board {
    /// For whoever shall not keep it alive.
    pub(crate) fn weak(&self) -> WeakBoard {
        WeakBoard(Arc::downgrade(&self.0))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self, name: &SwitchName) -> Option<ReadBack> {
        self.with(|all| all.get(name)?.read.clone())
    }

    /// Takes in what the ports of a switch say. Switches that are no longer known are forgotten here.
    pub(crate) fn say(&self, inputs: &Inputs, name: &SwitchName, ports: Vec<v1::SwitchPortStatus>) {
        self.with(|all| {
            all.entry(name.clone()).or_default().ports = ports.into();
            if all.len() > inputs.switches.len() {
                all.retain(|own, _| inputs.switches.iter().any(|switch| switch.name == *own));
            }
        });
    }

    /// Takes a report in: how the switch stands, if its files of this digest are known; else they are to be sent.
    pub(crate) fn take(
        &self,
        inputs: &Inputs,
        name: &SwitchName,
        digest: &str,
        files: &[v1::SwitchFile],
    ) -> Result<Option<Arc<Verdict>>, BadFiles> {
        let packed = match self.read(name).filter(|read| read.digest == digest) {
            Some(read) if read.key == inputs.key => return Ok(Some(read.verdict)),
            Some(read) => read.packed,
            None if files.is_empty() => return Ok(None),
            None => {
                if files.iter().map(|file| file.content.len() + file.name.len()).sum::<usize>() > FILES_MAX {
                    return Err(BadFiles::TooLarge);
                }
                if digest_of(files) != digest {
                    return Err(BadFiles::Digest);
                }
                Packed::new(files).ok_or(BadFiles::TooLarge)?
            }
        };
        let read = packed.files().ok_or(BadFiles::Digest)?;
        let verdict = Arc::new(compare(inputs, name, &read));
        let (digest, key) = (digest.to_owned(), inputs.key);
        let read = ReadBack { digest, packed, key, verdict: Arc::clone(&verdict) };
        self.with(|all| all.entry(name.clone()).or_default().read = Some(read));
        Ok(Some(verdict))
    }

    /// What is known of a switch.
    pub(crate) fn shown(&self, name: &SwitchName) -> Option<LastReport> {
        let entry = self.with(|all| all.get(name).cloned())?;
        Some(LastReport { verdict: entry.read.map(|read| read.verdict), ports: entry.ports })
    }

    /// What would change on a switch, by what was read of it last; none where nothing was.
    pub(crate) fn planned(&self, inputs: &Inputs, name: &SwitchName) -> Option<Verdict> {
        let read = self.read(name)?;
        if read.key == inputs.key {
            return Some((*read.verdict).clone());
        }
        Some(compare(inputs, name, &read.packed.files()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &str) -> v1::SwitchFile {
        v1::SwitchFile { name: name.into(), content: content.into() }
    }

    #[test]
    fn what_is_packed_comes_back() {
        let files = [file("a", ""), file("config_db.json", &"{}".repeat(10_000)), file("ü", "ß\n")];
        let packed = Packed::new(&files).unwrap();
        assert!(packed.0.len() < 1000);
        let read = packed.files().unwrap();
        assert!(files.iter().map(|f| (f.name.clone(), f.content.clone())).eq(read));
        assert_eq!(Packed(Arc::from(&b"\x01\x02\x03"[..])).files(), None);
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order() {
        let (a, b) = (file("a", "1"), file("b", "2"));
        assert_eq!(digest_of(&[a.clone(), b.clone()]), digest_of(&[b, a.clone()]));
        assert_ne!(digest_of(&[a]), digest_of(&[file("a1", "")]));
    }

    #[test]
    fn files_of_an_unknown_digest_are_asked_for_and_wrong_ones_refused() {
        let inputs = Inputs { key: 1, ..Inputs::default() };
        let name = SwitchName::new("leaf0").unwrap();
        let board = Board::default();
        let files = vec![file("frr.conf", "router bgp 1\n")];
        let digest = digest_of(&files);
        assert_eq!(board.take(&inputs, &name, &digest, &[]), Ok(None));
        let wrong = board.take(&inputs, &name, &digest, &[file("frr.conf", "x")]);
        assert_eq!(wrong, Err(BadFiles::Digest));
        // It stands in no document: nothing can be compared.
        let verdict = board.take(&inputs, &name, &digest, &files).unwrap().unwrap();
        assert!(verdict.why.contains("cannot be planned"), "{verdict:?}");
        assert_eq!(verdict.standing(), SwitchStanding::Unread);
    }
}
