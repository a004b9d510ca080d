//! What is under a prefix: nothing, a store of ours, one of a newer release, or somebody else's keys.

use bytes::Bytes;
use etcd_client::CompareOp;

use super::ask;
use super::failure::Failure;
use super::link::Link;
use super::plan;
use super::space::{Space, corrupt, end_of};
use crate::error::StoreError;

/// The format that this release writes, and the newest that it reads.
const FORMAT: u32 = 1;
const TITLE: &str = "railyard-store";

/// Says what a prefix holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// Added to etcd's revisions.
    pub base: u64,
    /// A restore or migration into it has begun and not ended.
    pub filling: bool,
}

impl Format {
    pub fn encode(self) -> Bytes {
        let state = if self.filling { "filling" } else { "ready" };
        format!("{TITLE}\nformat {FORMAT}\nbase {}\nstate {state}\n", self.base).into()
    }

    fn decode(place: &str, key: &[u8], value: &[u8]) -> Result<Self, StoreError> {
        let wrong = |reason: &str| corrupt(place, key, reason);
        let text = std::str::from_utf8(value).map_err(|_| wrong("it is not text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(wrong("it does not say that this is a store of Railyard"));
        }
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name)).map(str::trim_start);
            line.ok_or_else(|| wrong(&format!("the line `{name}` is missing")))
        };
        let found: u32 = field("format")?.parse().map_err(|_| wrong("the format is not a number"))?;
        if found > FORMAT {
            return Err(StoreError::NewerFormat { path: place.into(), found, supported: FORMAT });
        }
        let base = field("base")?.parse().map_err(|_| wrong("the base is not a number"))?;
        let filling = match field("state")? {
            "ready" => false,
            "filling" => true,
            _ => return Err(wrong("the state is neither `ready` nor `filling`")),
        };
        Ok(Self { base, filling })
    }
}

/// Where the store is, for people: the members and the prefix.
pub(crate) fn place(link: &Link, space: &Space) -> String {
    format!("etcd at {}, prefix {}", link.names(), space.root.trim_end_matches('/'))
}

/// Reads what is under the prefix.
///
/// # Errors
/// [`StoreError::Foreign`], [`StoreError::NewerFormat`], [`StoreError::Corrupt`], and what the call itself met.
pub(crate) async fn read(link: &Link, space: &Space) -> Result<Option<Format>, StoreError> {
    let place = place(link, space);
    let key = space.format_key();
    if let Some(kv) = first(link, key.clone(), Bytes::new(), false).await? {
        let format = Format::decode(&place, &key, kv.value())?;
        foreign(link, space, &place).await?;
        return Ok(Some(format));
    }
    let root = Bytes::from(space.root.clone());
    match first(link, root.clone(), end_of(&root), true).await? {
        Some(kv) => Err(StoreError::Foreign { path: place.into(), found: describe(kv.key()) }),
        None => Ok(None),
    }
}

fn describe(key: &[u8]) -> String {
    format!("it holds the key {} and no {TITLE}", key.escape_ascii())
}

/// Refuses keys of others between ours.
async fn foreign(link: &Link, space: &Space, place: &str) -> Result<(), StoreError> {
    let (root, data) = (space.root.as_bytes(), space.data.as_bytes());
    let (meta, writers, format) = (space.meta.as_bytes(), space.writers(), space.format_key());
    let gaps = [
        (Bytes::copy_from_slice(root), Bytes::copy_from_slice(data)),
        (end_of(data), Bytes::copy_from_slice(meta)),
        (Bytes::copy_from_slice(meta), format.clone()),
        (super::space::after(&format), Bytes::from(writers.clone())),
        (end_of(writers.as_bytes()), end_of(meta)),
        (end_of(meta), end_of(root)),
    ];
    for (from, to) in gaps {
        if from >= to {
            continue;
        }
        if let Some(kv) = first(link, from, to, true).await? {
            return Err(StoreError::Foreign {
                path: place.into(),
                found: format!(
                    "it holds the key {}, which no release of Railyard wrote",
                    kv.key().escape_ascii()
                ),
            });
        }
    }
    Ok(())
}

async fn first(
    link: &Link,
    key: Bytes,
    range_end: Bytes,
    keys_only: bool,
) -> Result<Option<etcd_client::KeyValue>, StoreError> {
    let ask = &ask::Range { key, range_end, limit: 1, keys_only, ..ask::Range::default() };
    let found = link.call(|session| async move { session.range(ask).await });
    Ok(found.await.map_err(Failure::into_error)?.take_kvs().into_iter().next())
}

/// Makes an empty prefix ours; somebody else may be faster, then theirs counts.
pub(crate) async fn create(link: &Link, space: &Space, format: Format) -> Result<(), StoreError> {
    let absent = ask::Compare {
        key: space.format_key(),
        range_end: Bytes::new(),
        op: CompareOp::Equal,
        target: ask::Target::Create(0),
    };
    write(link, space, format, vec![absent], Vec::new()).await
}

/// Deletes everything under the prefix and says that it is being filled, in one transaction.
pub(crate) async fn clear(link: &Link, space: &Space, format: Format) -> Result<(), StoreError> {
    let (data, writers) = (Bytes::from(space.data.clone()), Bytes::from(space.writers()));
    let gone = [(data.clone(), end_of(&data)), (writers.clone(), end_of(&writers))];
    write(link, space, format, Vec::new(), gone.map(|(key, end)| plan::delete(key, end)).to_vec()).await
}

/// Writes the format whatever it was.
pub(crate) async fn replace(link: &Link, space: &Space, format: Format) -> Result<(), StoreError> {
    write(link, space, format, Vec::new(), Vec::new()).await
}

async fn write(
    link: &Link,
    space: &Space,
    format: Format,
    compare: Vec<ask::Compare>,
    mut success: Vec<ask::Op>,
) -> Result<(), StoreError> {
    success.push(plan::put(space.format_key(), format.encode(), 0));
    let request = &ask::Txn { compare, success, failure: Vec::new() };
    let done = link.call(|session| async move { session.txn(request).await });
    done.await.map(|_| ()).map_err(Failure::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_back_and_other_texts_named() {
        let read = |text: &[u8]| Format::decode("etcd", b"/a/meta/format", text);
        for format in [Format { base: 0, filling: false }, Format { base: 7_000_000_001, filling: true }] {
            assert_eq!(read(&format.encode()).unwrap(), format);
        }
        let newer = read(b"railyard-store\nformat 2\nwhatever\n").unwrap_err();
        assert!(matches!(newer, StoreError::NewerFormat { found: 2, supported: 1, .. }), "{newer}");
        for bad in [
            &b""[..],
            b"\xff",
            b"hello",
            b"railyard-store\n",
            b"railyard-store\nformat x\n",
            b"railyard-store\nformat 1\nbase -1\nstate ready\n",
            b"railyard-store\nformat 1\nbase 1\nstate odd\n",
        ] {
            let error = read(bad).unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { key, .. } if key == "/a/meta/format"), "{error}");
        }
    }
}
