//! The fabric document as a value of the store. A store's values are bounded (etcd takes 1.5 MiB in a request), a document of
//! many servers whose names follow no order is larger: what is long is compressed. The first bytes of gzip begin no message,
//! so that a value shows which it is.

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use prost::Message as _;
use proto_model::Fabric;

use crate::{v1, write::compact_fabric};
use proto_model::fields::FieldErrors;

/// Longer ones are compressed, in bytes.
const PLAIN: usize = 64 * 1024;
/// A document after decompression at most, in bytes; beyond what one call can carry, for single cables take more room than
/// the lists in which they came.
const LARGEST: u64 = 256 * 1024 * 1024;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The value of a document.
#[must_use]
pub fn encode(fabric: &Fabric) -> Vec<u8> {
    pack(compact_fabric(fabric).encode_to_vec())
}

/// A row's message, compressed if it is long.
pub(crate) fn pack(plain: Vec<u8>) -> Vec<u8> {
    if plain.len() <= PLAIN {
        return plain;
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail; if it did, the plain value is as good.
    packed.write_all(&plain).and_then(|()| packed.finish()).unwrap_or(plain)
}

/// The document that a value holds.
///
/// # Errors
/// It cannot be decompressed, is no message, or has wrong fields, all of which are named.
pub fn decode(value: Bytes) -> Result<Fabric, FieldErrors> {
    let plain = unpack(value).map_err(|error| FieldErrors::one("", error.to_string()))?;
    v1::Fabric::decode(plain).map_err(|error| FieldErrors::one("", error.to_string()))?.try_into()
}

/// The message in a value.
pub(crate) fn unpack(value: Bytes) -> io::Result<Bytes> {
    if !value.starts_with(&GZIP) {
        return Ok(value);
    }
    let mut plain = Vec::new();
    GzDecoder::new(&value[..]).take(LARGEST + 1).read_to_end(&mut plain)?;
    if plain.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("more than {LARGEST} bytes after decompression")));
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use proto_model::{LinkGroup, Names};

    use super::*;

    /// Servers whose names follow no order: in plain form more than etcd takes in a request.
    fn irregular(servers: u64) -> Fabric {
        let mut fabric = Fabric { name: "f".into(), ..Fabric::default() };
        for leaf in 0..servers / 64 {
            let name = |at: u64| format!("i-{:08x}q", (leaf * 64 + at) * 0x9E37_79B1 % 0xFFFF_FFFB);
            let nodes = Names::of((0..64).map(name));
            let group = |nic: u32| LinkGroup {
                nodes: nodes.clone(),
                nic: format!("mlx5_{nic}"),
                leaf: format!("r{nic}-leaf{leaf}"),
                ..LinkGroup::default()
            };
            fabric.link_groups.extend((0..8).map(group));
        }
        fabric
    }

    #[test]
    fn a_large_document_is_compressed_and_comes_back() {
        let small = irregular(64);
        let value = encode(&small);
        assert!(!value.starts_with(&GZIP));
        assert_eq!(decode(value.into()), Ok(small));
        let large = irregular(125_000);
        let value = Bytes::from(encode(&large));
        assert!(value.starts_with(&GZIP) && value.len() < 1_400_000, "{} bytes", value.len());
        assert_eq!(decode(value.clone()), Ok(large));
        for cut in [3, value.len() / 2, value.len() - 1] {
            assert!(decode(value.slice(..cut)).is_err(), "{cut}");
        }
    }
}
