//! Items of the store's file: whatever stands under a right checksum is an item or named damage.

use controller_store::codec::{
    crc32, decode_events, decode_header, decode_kv, encode_events, encode_header, encode_kv,
};

const KEY: &[u8] = b"jobs/t/j";
const REVISION: u64 = 7;

/// The first byte chooses the kind of item; the checksum is made right, or nothing would get past it.
pub fn run(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    let sealed = |before: &[u8]| [body, &crc32(&[before, body]).to_le_bytes()].concat();
    match kind % 4 {
        0 => {
            if let Ok(kv) = decode_kv(KEY, &sealed(KEY)) {
                assert_eq!(decode_kv(KEY, &encode_kv(&kv)).as_ref(), Ok(&kv));
            }
        }
        1 => {
            if let Ok(events) = decode_events(REVISION, &sealed(&REVISION.to_le_bytes())) {
                let again = decode_events(REVISION, &encode_events(REVISION, &events));
                assert_eq!(again.as_ref(), Ok(&events));
            }
        }
        2 => {
            // The checksum stands after the magic and the format, 20 bytes.
            let mut start = body.to_vec();
            start.resize(20, 0);
            start.extend(crc32(&[&start]).to_le_bytes());
            if let Ok(format) = decode_header(&start) {
                assert_eq!(decode_header(&encode_header(format)), Ok(format));
            }
        }
        _ => {
            // Without a right checksum nothing is believed; only the lengths are looked at.
            let _ = (decode_kv(KEY, body), decode_events(REVISION, body), decode_header(body));
        }
    }
}
