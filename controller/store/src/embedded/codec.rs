//! How keys and events are laid out in the file: little-endian, length-prefixed, each item with its own CRC-32, so
//! that a damaged one is named instead of believed.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::types::{Event, KeyValue, LeaseId};

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// The CRC-32 (IEEE 802.3) of all parts, one behind the other.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.finalize()
}

/// Why an item could not be decoded.
pub type Damage = &'static str;

/// One live key; the key itself is part of the checksum, so a value under a wrong key is found too.
pub fn encode_kv(kv: &KeyValue) -> Vec<u8> {
    let mut out = Vec::with_capacity(40 + kv.value.len());
    put_meta(&mut out, kv);
    out.put_slice(&kv.value);
    let crc = crc32(&[&kv.key, &out]);
    out.put_u32_le(crc);
    out
}

/// Decodes the value of `key` as [`encode_kv`] lays it out.
///
/// # Errors
/// It is too short, or its checksum is wrong.
pub fn decode_kv(key: &[u8], stored: &[u8]) -> Result<KeyValue, Damage> {
    let body = checked(&[key], stored)?;
    let mut body = Bytes::copy_from_slice(body);
    let mut kv = take_meta(&mut body)?;
    kv.key = Bytes::copy_from_slice(key);
    kv.value = body;
    Ok(kv)
}

/// All events of one revision.
pub fn encode_events(revision: u64, events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32_le(length(events.len()));
    for event in events {
        put_bytes(&mut out, event.key());
        match event {
            Event::Put { kv, .. } => {
                out.put_u8(PUT);
                put_meta(&mut out, kv);
                put_bytes(&mut out, &kv.value);
            }
            Event::Delete { .. } => out.put_u8(DELETE),
        }
        out.put_u8(u8::from(event.prev().is_some()));
        if let Some(prev) = event.prev() {
            put_meta(&mut out, prev);
            put_bytes(&mut out, &prev.value);
        }
    }
    let crc = crc32(&[&revision.to_le_bytes(), &out]);
    out.put_u32_le(crc);
    out
}

/// Decodes the events of one revision as [`encode_events`] lays them out.
///
/// # Errors
/// They are cut short, or their checksum is wrong.
pub fn decode_events(revision: u64, stored: &[u8]) -> Result<Arc<[Event]>, Damage> {
    let mut body = Bytes::copy_from_slice(checked(&[&revision.to_le_bytes()], stored)?);
    let count = body.try_get_u32_le().map_err(|_| SHORT)?;
    let mut events = Vec::new();
    for _ in 0..count {
        let key = take_bytes(&mut body)?;
        let now = match body.try_get_u8().map_err(|_| SHORT)? {
            PUT => Some(take_kv(&key, &mut body)?),
            DELETE => None,
            _ => return Err("unknown kind of event"),
        };
        let has_prev = body.try_get_u8().map_err(|_| SHORT)? == 1;
        let prev = if has_prev { Some(take_kv(&key, &mut body)?) } else { None };
        events.push(match now {
            Some(kv) => Event::Put { kv, prev },
            None => Event::Delete { key, revision, prev },
        });
    }
    if body.has_remaining() { Err("bytes left over") } else { Ok(Arc::from(events)) }
}

const SHORT: Damage = "too short";

/// The body without its checksum, when the checksum is right.
fn checked<'a>(before: &[&[u8]], stored: &'a [u8]) -> Result<&'a [u8], Damage> {
    let (body, crc) = stored.split_last_chunk::<4>().ok_or(SHORT)?;
    let mut parts = before.to_vec();
    parts.push(body);
    if crc32(&parts) == u32::from_le_bytes(*crc) { Ok(body) } else { Err("wrong checksum") }
}

/// Lengths are bounded by the limits of the store far below `u32`.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(length(bytes.len()));
    out.put_slice(bytes);
}

fn take_bytes(body: &mut Bytes) -> Result<Bytes, Damage> {
    let len = body.try_get_u32_le().map_err(|_| SHORT)? as usize;
    if len > body.len() { Err(SHORT) } else { Ok(body.split_to(len)) }
}

fn put_meta(out: &mut Vec<u8>, kv: &KeyValue) {
    out.put_u64_le(kv.create_revision);
    out.put_u64_le(kv.mod_revision);
    out.put_u64_le(kv.version);
    out.put_u64_le(kv.lease.map_or(0, |lease| lease.0));
}

fn take_meta(body: &mut Bytes) -> Result<KeyValue, Damage> {
    let mut number = || body.try_get_u64_le().map_err(|_| SHORT);
    let (create_revision, mod_revision, version, lease) = (number()?, number()?, number()?, number()?);
    let lease = (lease != 0).then_some(LeaseId(lease));
    Ok(KeyValue { key: Bytes::new(), value: Bytes::new(), create_revision, mod_revision, version, lease })
}

fn take_kv(key: &Bytes, body: &mut Bytes) -> Result<KeyValue, Damage> {
    let kv = take_meta(body)?;
    Ok(KeyValue { key: key.clone(), value: take_bytes(body)?, ..kv })
}

/// First page of the file: what it is and which format it has.
pub const HEADER_BYTES: usize = 4096;
pub const MAGIC: &[u8; 16] = b"RAILYARD-STORE\r\n";

pub fn encode_header(format: u32) -> Vec<u8> {
    let mut header = BytesMut::with_capacity(HEADER_BYTES);
    header.put_slice(MAGIC);
    header.put_u32_le(format);
    let crc = crc32(&[&header]);
    header.put_u32_le(crc);
    header.resize(HEADER_BYTES, 0);
    header.to_vec()
}

/// The format of a header; `Err` when its checksum is wrong. The caller has looked at the magic already.
///
/// # Errors
/// It is too short, or its checksum is wrong.
pub fn decode_header(header: &[u8]) -> Result<u32, Damage> {
    let body = checked(&[], header.get(..24).ok_or(SHORT)?)?;
    let format = body.last_chunk::<4>().ok_or(SHORT)?;
    Ok(u32::from_le_bytes(*format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_the_well_known_one() {
        assert_eq!(crc32(&[b"1234", b"56789"]), 0xCBF4_3926);
    }

    #[test]
    fn every_flipped_bit_of_an_item_is_found() {
        let kv = KeyValue {
            key: "k".into(),
            value: "v".into(),
            create_revision: 2,
            mod_revision: 3,
            version: 2,
            lease: Some(LeaseId(7)),
        };
        let stored = encode_kv(&kv);
        assert_eq!(decode_kv(b"k", &stored), Ok(kv.clone()));
        let event = Event::Put { kv: kv.clone(), prev: Some(kv) };
        let log = encode_events(3, std::slice::from_ref(&event));
        assert_eq!(decode_events(3, &log).unwrap().as_ref(), &[event]);
        for bit in 0..stored.len() * 8 {
            let mut bad = stored.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_kv(b"k", &bad).is_err());
        }
        for bit in 0..log.len() * 8 {
            let mut bad = log.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_events(3, &bad).is_err());
        }
        for len in 0..log.len() {
            assert!(decode_events(3, &log[..len]).is_err());
        }
    }
}
