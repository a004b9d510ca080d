//! Lists: bounded pages, all of one revision.

use bytes::Bytes;
use controller_store::{KeyValue, RangeRequest, Store};
use proto_rpc::RpcError;

use crate::fault;

/// Items of a page where the caller does not say.
const DEFAULT: usize = 500;
/// Most items of a page.
const LARGEST: usize = 1000;
/// Bytes of a page's values, so that clients can take the answer whatever the items are.
const BYTES: usize = 512 * 1024;

/// One page of stored values.
pub struct Page {
    /// What was found.
    pub items: Vec<KeyValue>,
    /// Where the next page begins; empty at the end.
    pub next: String,
    /// The revision that all pages of the list are valid at.
    pub revision: u64,
}

/// Reads one page under a prefix. A token names the list's revision and the last key's end, so that it can never
/// reach beyond the prefix that the caller may read.
///
/// # Errors
/// A malformed token, or a list that is older than the store's history.
pub async fn read(store: &dyn Store, prefix: Bytes, size: u32, token: &str) -> Result<Page, RpcError> {
    let size = match size as usize {
        0 => DEFAULT,
        size => size.min(LARGEST),
    };
    let mut request = RangeRequest::prefix(prefix.clone());
    request.limit = size;
    if !token.is_empty() {
        let (revision, last) = parse(token).ok_or_else(|| {
            fault::field("pageToken", "was not given by a list of this controller; begin without one")
        })?;
        request.revision = Some(revision);
        request.after = Some([prefix.as_ref(), last.as_bytes()].concat().into());
    }
    let found = store.range(request).await.map_err(|error| fault::store(&error))?;
    let (mut items, mut more) = (found.items, found.more);
    let fitting = fitting(&items);
    more |= fitting < items.len();
    items.truncate(fitting);
    let last = items.last().filter(|_| more).map(|kv| kv.key.slice(prefix.len()..));
    let next = last
        .map_or_else(String::new, |last| format!("{}.{}", found.revision, String::from_utf8_lossy(&last)));
    Ok(Page { items, next, revision: found.revision })
}

/// How many of the items go into one page; always one.
fn fitting(items: &[KeyValue]) -> usize {
    let mut bytes = 0;
    let within = items.iter().take_while(|kv| {
        bytes += kv.value.len();
        bytes <= BYTES
    });
    within.count().max(1)
}

fn parse(token: &str) -> Option<(u64, &str)> {
    let (revision, last) = token.split_once('.')?;
    let printable = last.len() <= 512 && last.bytes().all(|b| b.is_ascii_graphic());
    Some((revision.parse().ok()?, last)).filter(|_| printable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_store::MemoryStore;

    #[tokio::test]
    async fn pages_are_of_one_revision_and_stay_under_the_prefix() {
        let store = MemoryStore::default();
        for n in 0..5 {
            store.put(format!("/a/{n}").into(), "x".into()).await.unwrap();
        }
        store.put("/b/0".into(), "secret".into()).await.unwrap();
        let first = read(&store, "/a/".into(), 2, "").await.unwrap();
        assert_eq!((first.items.len(), first.next.is_empty()), (2, false));
        store.put("/a/9".into(), "later".into()).await.unwrap();
        let (mut seen, mut token) = (2, first.next);
        while !token.is_empty() {
            let page = read(&store, "/a/".into(), 2, &token).await.unwrap();
            assert_eq!(page.revision, first.revision);
            (seen, token) = (seen + page.items.len(), page.next);
        }
        assert_eq!(seen, 5, "what came later is not of this list");
        let large = vec![b'x'; BYTES / 2];
        for n in 0..3 {
            store.put(format!("/c/{n}").into(), large.clone().into()).await.unwrap();
        }
        let page = read(&store, "/c/".into(), 0, "").await.unwrap();
        assert_eq!((page.items.len(), page.next.is_empty()), (2, false), "bounded by bytes too");
        for bad in ["x", "1", ".a", "1.a b", "99999999999999999999.a"] {
            assert!(read(&store, "/a/".into(), 2, bad).await.is_err(), "{bad}");
        }
    }
}
