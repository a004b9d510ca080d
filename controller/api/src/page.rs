//! Lists: bounded pages, all of one revision, and tokens that are good for their caller and their list alone.

use std::time::Duration;

use bytes::Bytes;
use controller_store::{KeyValue, RangeRequest, Store};
use proto_rpc::{
    ErrorClass, PageKey, Position, RpcError,
    page_token::{Binding, PageTokenError},
};

use crate::{authz::Rpc, context::Context, fault, guard::Caller};

/// Items of a page where the caller does not say.
const DEFAULT: usize = 500;
/// The most items that one page has.
const LARGEST: usize = 1000;
/// Bytes of a page's values, so that clients can take the answer whatever the items are.
const BYTES: usize = 512 * 1024;
/// Stored pages that one answer looks through.
const CHECKED: usize = 64;
/// How long a token is good.
const LIFETIME: Duration = Duration::from_secs(3600);

/// One page of stored values.
pub struct Page {
    /// The stored values of the page, in the order of their keys.
    pub items: Vec<KeyValue>,
    /// What the next page begins after; none at the end.
    pub next: Option<Bytes>,
    /// The revision that all pages of the list are valid at.
    pub revision: u64,
}

/// A list as it was asked for.
pub struct Asked<'a> {
    /// The call that lists; a page token is good for this one alone.
    pub rpc: Rpc,
    /// Under which keys: what the caller may read.
    pub prefix: Bytes,
    /// Items of a page at most; 0 leaves it to the controller.
    pub size: u32,
    /// Where it goes on; empty at its begin.
    pub token: &'a str,
    /// What else was asked for: a token is of no use with another filter.
    pub filter: Vec<u8>,
}

/// One page of an answer.
pub struct Listed<T> {
    /// The items of the page that the caller asked for and may read.
    pub items: Vec<T>,
    /// The token of the next page; empty at the end.
    pub next: String,
    /// The revision that all pages of the list are valid at.
    pub revision: u64,
}

/// Tokens of one list of one caller: of the call, of the caller's tenant by its uid, and of what was asked for.
pub struct Tokens {
    key: PageKey,
    parts: [Vec<u8>; 4],
    since: u64,
    now_ms: u64,
}

impl Tokens {
    /// For this caller.
    ///
    /// # Errors
    /// The cluster's key cannot be read.
    pub async fn of(context: &Context, caller: &Caller, asked: &Asked<'_>) -> Result<Self, RpcError> {
        let key = context.handle.page_key().await.map_err(|refusal| fault::refused(&refusal))?;
        let whose = caller.tenancy.as_ref().map_or("", |tenancy| tenancy.uid.as_ref());
        let parts = [
            asked.rpc.path().as_bytes().to_vec(),
            whose.as_bytes().to_vec(),
            asked.prefix.to_vec(),
            asked.filter.clone(),
        ];
        Ok(Self { key, parts, since: caller.since(), now_ms: context.handle.now().0 })
    }

    /// Where the list goes on.
    ///
    /// # Errors
    /// The token was not made for this list and this caller, or not lately.
    pub fn open(&self, token: &str) -> Result<(u64, Bytes), RpcError> {
        let parts = self.parts.each_ref().map(Vec::as_slice);
        let position = self.key.open(Binding(&parts), token, self.now_ms);
        // What is older than the caller's tenant is not the caller's to see.
        let position = position.and_then(|found| match found.revision >= self.since {
            true => Ok(found),
            false => Err(PageTokenError::Foreign),
        });
        let position = position.map_err(|error| fault::field("pageToken", error))?;
        Ok((position.revision, position.after.into()))
    }

    /// The token of the page behind `after`.
    ///
    /// # Errors
    /// [`RpcError`] if no token can be made: the system gives no random numbers, or a key of the list is too long.
    pub fn seal(&self, revision: u64, after: &[u8]) -> Result<String, RpcError> {
        let parts = self.parts.each_ref().map(Vec::as_slice);
        let expires_ms = self.now_ms.saturating_add(LIFETIME.as_millis().try_into().unwrap_or(u64::MAX));
        let position = Position { revision, expires_ms, after: after.to_vec() };
        let sealed = self.key.seal(Binding(&parts), &position);
        sealed.map_err(|error| {
            RpcError::new(ErrorClass::Internal, "NO_PAGE_TOKEN", format!("a page token {error}"))
        })
    }
}

/// One page of what `pick` takes. A page of a filtered list may be short; many stored pages may be looked through for one
/// answer, but not all: the client goes on with the token that it gets.
///
/// # Errors
/// A token that is of another list or caller, a list that is older than the store's history, or `pick`'s.
pub async fn list<T>(
    context: &Context,
    caller: &Caller,
    asked: Asked<'_>,
    mut pick: impl FnMut(&KeyValue) -> Result<Option<T>, RpcError>,
) -> Result<Listed<T>, RpcError> {
    let store = context.handle.store().as_ref();
    let mut at = match asked.token {
        "" => None,
        token => Some(Tokens::of(context, caller, &asked).await?.open(token)?),
    };
    let mut items = Vec::new();
    for checked in 1.. {
        let page = read(store, asked.prefix.clone(), asked.size, at).await?;
        for kv in &page.items {
            items.extend(pick(kv)?);
        }
        let Some(after) = page.next else {
            return Ok(Listed { items, next: String::new(), revision: page.revision });
        };
        if !items.is_empty() || checked >= CHECKED {
            let next = Tokens::of(context, caller, &asked).await?.seal(page.revision, &after)?;
            return Ok(Listed { items, next, revision: page.revision });
        }
        at = Some((page.revision, after));
        // The store answers at once; others must come to their turn too.
        tokio::task::yield_now().await;
    }
    Err(RpcError::new(ErrorClass::Internal, "NO_PAGE", "a list has no end"))
}

/// Reads one page under a prefix: from the begin as things are now, or on from a revision and the end of the last key.
///
/// # Errors
/// A list that is older than the store's history.
pub async fn read(
    store: &dyn Store,
    prefix: Bytes,
    size: u32,
    at: Option<(u64, Bytes)>,
) -> Result<Page, RpcError> {
    let size = match size as usize {
        0 => DEFAULT,
        size => size.min(LARGEST),
    };
    let mut request = RangeRequest::prefix(prefix.clone());
    request.limit = size;
    if let Some((revision, last)) = at {
        request.revision = Some(revision);
        request.after = Some([prefix.as_ref(), last.as_ref()].concat().into());
    }
    let found = store.range(request).await.map_err(|error| fault::store(&error))?;
    let (mut items, mut more) = (found.items, found.more);
    let fitting = fitting(&items);
    more |= fitting < items.len();
    items.truncate(fitting);
    let next = items.last().filter(|_| more).map(|kv| kv.key.slice(prefix.len()..));
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
        let first = read(&store, "/a/".into(), 2, None).await.unwrap();
        assert_eq!((first.items.len(), first.next.is_some()), (2, true));
        store.put("/a/9".into(), "later".into()).await.unwrap();
        let (mut seen, mut next) = (2, first.next);
        while let Some(after) = next {
            let page = read(&store, "/a/".into(), 2, Some((first.revision, after))).await.unwrap();
            assert_eq!(page.revision, first.revision);
            (seen, next) = (seen + page.items.len(), page.next);
        }
        assert_eq!(seen, 5, "what came later is not of this list");
        let large = vec![b'x'; BYTES / 2];
        for n in 0..3 {
            store.put(format!("/c/{n}").into(), large.clone().into()).await.unwrap();
        }
        let page = read(&store, "/c/".into(), 0, None).await.unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (2, true), "bounded by bytes too");
    }
}
