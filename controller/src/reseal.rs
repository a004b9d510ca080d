//! `store key` and `store reseal`: the keys of secret values, and every value under the newest one.

use std::path::Path;

use bytes::Bytes;
use controller_keys::{Guards, ProviderSpec, Purpose};
use controller_leader::keys;
use controller_store::{Compare, KeyRing, KeyValue, Op, RangeRequest, Txn};

use crate::{
    args::Which,
    key_args::KeyArgs,
    store_args::Kind,
    stores::{KeepError, ring, source},
};

/// Makes a key, or protects the file in another way.
///
/// # Errors
/// [`KeepError`] if the file or its provider cannot be used, or the file cannot be written.
pub fn key(file: &Path, rewrap: bool, keys: &KeyArgs, old: Option<&ProviderSpec>) -> Result<(), KeepError> {
    let with = keys.guards()?;
    let now = match old {
        Some(old) => Guards::default().with_provider(Some(old.open()?)),
        None => with.clone(),
    };
    let before = match file.exists() || rewrap {
        true => Some(now.read(file, Purpose::StoreKeys)?.0),
        false => None,
    };
    let before = before.as_ref().map(|text| text.as_str());
    if rewrap {
        let form = with.write(file, Purpose::StoreKeys, before.unwrap_or_default())?;
        println!("{} is {form}", file.display());
        return Ok(());
    }
    let (id, text) = KeyRing::with_new_key(before, file)?;
    let form = with.write(file, Purpose::StoreKeys, &text)?;
    println!("{}: key {id} is in front and seals from now on; the file is {form}", file.display());
    println!(
        "Give this file to every controller (--store-keys), and keep a copy: what it seals is lost without it."
    );
    Ok(())
}

/// Writes what the first key does not seal. A row that changes meanwhile is left as it was written.
///
/// # Errors
/// [`KeepError`] if there is no key to seal with, if the store cannot be read or written, if a value cannot be opened with the keys, or if
/// a controller leads on the store.
pub async fn reseal(which: &Which, plain: bool) -> Result<(), KeepError> {
    let ring = ring(which)?;
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
    if changed == 0 {
        let mut txn = Txn::new().then(match ring.newest().filter(|_| !plain) {
            Some(newest) => Op::put(keys::SEAL, newest.to_string()),
            None => Op::delete(keys::SEAL),
        });
        txn.compares.extend(unled);
        if !store.txn(txn).await?.succeeded {
            return Err(KeepError::Led);
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
