//! Disks that fill up, break, and lose their power.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::embedded::disk::{Disk, Medium, write_header};
use crate::embedded::tables::Tables;
use crate::{EmbeddedOptions, EmbeddedStore, StoreError};

const BLOCK: u64 = 512;

/// How the disk is ill at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Illness {
    None,
    /// Writes beyond so many more bytes fail with ENOSPC.
    Full {
        after: u64,
    },
    /// Everything fails with EIO.
    Dead,
    /// Only syncs fail with EIO, so that a commit's outcome is open.
    NoSync,
}

#[derive(Debug, Default)]
struct Content {
    /// What survives a power cut for sure.
    durable: Vec<u8>,
    /// What reads see.
    current: Vec<u8>,
    /// Blocks written since the last sync.
    dirty: BTreeMap<u64, ()>,
    syncs: u64,
}

/// A disk in memory that can be made ill, and whose power can be cut.
#[derive(Debug)]
pub(super) struct SickDisk {
    content: Mutex<Content>,
    illness: Mutex<Illness>,
}

impl SickDisk {
    /// A disk that holds an empty store.
    pub fn with_store() -> Arc<Self> {
        let disk = Arc::new(Self { content: Mutex::default(), illness: Mutex::new(Illness::None) });
        write_header(&*disk).unwrap();
        Tables::open(disk.clone(), 1 << 20).unwrap().initialise(1).unwrap();
        disk
    }

    pub fn falls_ill(&self, illness: Illness) {
        *self.illness.lock().unwrap() = illness;
    }

    pub fn syncs(&self) -> u64 {
        self.content.lock().unwrap().syncs
    }

    /// Cuts the power: each block written since the last sync is on the platter or not, as `keep` says. What is
    /// left is another disk, as the next boot finds it; whoever still holds this one cannot touch that.
    pub fn cut_power(&self, mut keep: impl FnMut() -> bool) -> Arc<Self> {
        let content = self.content.lock().unwrap();
        let mut left = content.durable.clone();
        left.resize(content.current.len().max(left.len()), 0);
        for block in content.dirty.keys().filter(|_| keep()) {
            let start = (block * BLOCK) as usize;
            let end = (start + BLOCK as usize).min(content.current.len());
            if start < end {
                left[start..end].copy_from_slice(&content.current[start..end]);
            }
        }
        let content = Content { durable: left.clone(), current: left, ..Content::default() };
        Arc::new(Self { content: Mutex::new(content), illness: Mutex::new(Illness::None) })
    }

    fn may_write(&self, bytes: u64) -> io::Result<()> {
        match &mut *self.illness.lock().unwrap() {
            Illness::None | Illness::NoSync => Ok(()),
            Illness::Full { after } if *after >= bytes => {
                *after -= bytes;
                Ok(())
            }
            Illness::Full { .. } => Err(io::Error::from_raw_os_error(28)),
            Illness::Dead => Err(io::Error::from_raw_os_error(5)),
        }
    }
}

impl Disk for SickDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().unwrap().current.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if *self.illness.lock().unwrap() == Illness::Dead {
            return Err(io::Error::from_raw_os_error(5));
        }
        let content = self.content.lock().unwrap();
        let start = offset as usize;
        let from = content.current.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.may_write(data.len() as u64)?;
        let mut content = self.content.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        if content.current.len() < end {
            content.current.resize(end, 0);
        }
        content.current[start..end].copy_from_slice(data);
        for block in offset / BLOCK..(end as u64).div_ceil(BLOCK) {
            content.dirty.insert(block, ());
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.may_write(0)?;
        self.content.lock().unwrap().current.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if matches!(*self.illness.lock().unwrap(), Illness::Dead | Illness::NoSync) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let mut content = self.content.lock().unwrap();
        content.durable = content.current.clone();
        content.dirty.clear();
        content.syncs += 1;
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct SickMedium {
    pub disk: Arc<SickDisk>,
    path: PathBuf,
}

impl Medium for SickMedium {
    fn open(&self) -> io::Result<Arc<dyn Disk>> {
        Ok(self.disk.clone())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the store on the disk.
pub(super) fn open_on(disk: &Arc<SickDisk>, options: &EmbeddedOptions) -> Result<EmbeddedStore, StoreError> {
    let medium = SickMedium { disk: disk.clone(), path: PathBuf::from("sick-disk") };
    EmbeddedStore::start(Arc::new(medium), None, options)
}

/// Options with a small cache.
pub(super) fn options() -> EmbeddedOptions {
    EmbeddedOptions { cache_bytes: 1 << 20, ..EmbeddedOptions::new("unused") }
}
