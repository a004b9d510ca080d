//! A store copied whole, key after key, and compared before anybody uses the copy.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use controller_leader::is_of_the_process;
use controller_store::{Filling, KeyValue, RangeRequest, Store, StoreError, backup::BackupReader};

use crate::stores::KeepError;

/// All keys of a store at one revision, page by page, but those that belong to a process.
pub struct Pages<'a> {
    store: &'a dyn Store,
    request: RangeRequest,
    more: bool,
}

impl<'a> Pages<'a> {
    /// From the first key on.
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store, request: RangeRequest::default(), more: true }
    }

    /// The next page and its revision; `None` behind the last one.
    ///
    /// # Errors
    /// The store's.
    pub async fn next(&mut self) -> Result<Option<(u64, Vec<KeyValue>)>, StoreError> {
        if !self.more {
            return Ok(None);
        }
        let mut page = self.store.range(self.request.clone()).await?;
        self.more = page.more;
        self.request.revision = Some(page.revision);
        self.request.after = page.items.last().map(|kv| kv.key.clone());
        page.items.retain(|kv| !is_of_the_process(&kv.key));
        Ok(Some((page.revision, page.items)))
    }
}

/// What two stores with the same keys and values have in common.
#[derive(PartialEq, Eq)]
pub struct Content {
    /// How many keys it has.
    pub keys: u64,
    digest: Vec<u8>,
}

/// What is seen of a store, key after key.
pub struct Digesting {
    keys: u64,
    context: Context,
}

impl Digesting {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self { keys: 0, context: Context::new(&SHA256) }
    }

    /// Adds one key.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.keys += 1;
        for part in [key, value] {
            self.context.update(&(part.len() as u64).to_le_bytes());
            self.context.update(part);
        }
    }

    /// What was seen.
    pub fn done(self) -> Content {
        Content { keys: self.keys, digest: self.context.finish().as_ref().to_vec() }
    }
}

/// What a store holds.
///
/// # Errors
/// The store's.
pub async fn content(store: &dyn Store) -> Result<Content, StoreError> {
    let (mut pages, mut digesting) = (Pages::new(store), Digesting::new());
    while let Some((_, items)) = pages.next().await? {
        items.iter().for_each(|kv| digesting.add(&kv.key, &kv.value));
    }
    Ok(digesting.done())
}

/// Compares what was filled, and puts it in place. Answers where the former store is, if it was kept.
///
/// # Errors
/// [`KeepError::Differs`] if it is not the same; the store's. Then it is not in place.
pub async fn finish(mut filling: Filling, expected: &Content) -> Result<Option<PathBuf>, KeepError> {
    filling.flush().await?;
    if content(filling.store().as_ref()).await? != *expected {
        return Err(KeepError::Differs);
    }
    Ok(filling.finish().await?)
}

/// Fills a store from a backup, compares, and puts it in place. Answers where the former store is, if it was kept.
///
/// # Errors
/// As [`finish`], and what is wrong with the file.
pub async fn fill(mut filling: Filling, from: &Path) -> Result<Option<PathBuf>, KeepError> {
    let (mut reader, mut digesting) = (BackupReader::open(from)?, Digesting::new());
    while let Some((key, value)) = reader.next()? {
        digesting.add(&key, &value);
        filling.put(key, value).await?;
    }
    finish(filling, &digesting.done()).await
}
