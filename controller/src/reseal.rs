//! `store key` and `store reseal`: the keys of secret values, and every value under the newest one.

use std::path::Path;

use bytes::Bytes;
use controller_reconciler::keys;
use controller_store::{Compare, KeyRing, KeyValue, Op, RangeRequest, Txn};

use crate::{
    args::Which,
    keep::{KeepError, source},
    store_args::Kind,
};

/// Makes a key.
pub fn key(file: &Path) -> Result<(), KeepError> {
    let id = KeyRing::add_key(file)?;
    println!("{}: key {id} is in front and seals from now on", file.display());
    println!(
        "Give this file to every controller (--store-keys), and keep a copy: what it seals is lost without it."
    );
    Ok(())
}

/// Writes what the first key does not seal. A row that changes meanwhile is left as it was written.
pub async fn reseal(which: &Which, plain: bool) -> Result<(), KeepError> {
    let ring = which.store.ring()?;
    if ring.newest().is_none() {
        return Err(KeepError::NoKeys);
    }
    let store = source(which, which.store.store).await?;
    // The embedded store is open once; what is in etcd may be led from elsewhere.
    let unled = (which.store.store == Kind::Etcd).then(|| Compare::absent(keys::LEADER));
    let (mut rows, mut written, mut changed) = (0_u64, 0_u64, 0_u64);
    for prefix in keys::SECRET {
        let mut request = RangeRequest::prefix(prefix);
        loop {
            let page = store.range(request.clone()).await?;
            rows += page.items.len() as u64;
            for kv in &page.items {
                let Some(value) = anew(&ring, kv, plain)? else { continue };
                let same = Compare::mod_revision(kv.key.clone(), kv.mod_revision);
                let mut txn = Txn::new().when(same).then(Op::put(kv.key.clone(), value));
                txn.compares.extend(unled.clone());
                if store.txn(txn).await?.succeeded {
                    written += 1;
                } else if unled.is_some() && store.get(keys::LEADER.into()).await?.is_some() {
                    return Err(KeepError::Led);
                } else {
                    changed += 1;
                }
            }
            if !page.more {
                break;
            }
            request.revision = Some(page.revision);
            request.after = page.items.last().map(|kv| kv.key.clone());
        }
    }
    let how = if plain { "plain" } else { "sealed with the first key" };
    println!("{} secret values are {how}; {written} of them were written anew", rows - changed);
    if changed > 0 {
        println!("{changed} were changed by others meanwhile and are as those wrote them; run this again");
    }
    Ok(())
}

/// What is to be stored in place of a value; `None` where it is as it should be.
fn anew(ring: &KeyRing, kv: &KeyValue, plain: bool) -> Result<Option<Bytes>, KeepError> {
    let sealed = KeyRing::sealed_with(&kv.value)?;
    if sealed == ring.newest().filter(|_| !plain) {
        return Ok(None);
    }
    let open = ring.open_value(&kv.key, &kv.value)?;
    Ok(Some(if plain { open } else { ring.seal(&kv.key, &open)? }))
}
