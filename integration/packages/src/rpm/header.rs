//! A header of RPM: values by number, each of a type, behind an index of where they are.

use std::collections::BTreeMap;

use crate::error::Error;

/// Numbers of values.
pub(super) mod tag {
    pub(in super::super) const SIGNATURE_SHA256: u32 = 273;
    pub(in super::super) const SIGNATURE_SIZE: u32 = 1000;
    pub(in super::super) const SIGNATURE_PAYLOAD_SIZE: u32 = 1007;
    pub(in super::super) const LANGUAGES: u32 = 100;
    pub(in super::super) const NAME: u32 = 1000;
    pub(in super::super) const VERSION: u32 = 1001;
    pub(in super::super) const RELEASE: u32 = 1002;
    pub(in super::super) const SUMMARY: u32 = 1004;
    pub(in super::super) const DESCRIPTION: u32 = 1005;
    pub(in super::super) const BUILD_TIME: u32 = 1006;
    pub(in super::super) const BUILD_HOST: u32 = 1007;
    pub(in super::super) const SIZE: u32 = 1009;
    pub(in super::super) const LICENSE: u32 = 1014;
    pub(in super::super) const GROUP: u32 = 1016;
    pub(in super::super) const OS: u32 = 1021;
    pub(in super::super) const ARCHITECTURE: u32 = 1022;
    pub(in super::super) const AFTER_INSTALL: u32 = 1024;
    pub(in super::super) const BEFORE_REMOVAL: u32 = 1025;
    pub(in super::super) const AFTER_REMOVAL: u32 = 1026;
    pub(in super::super) const FILE_SIZES: u32 = 1028;
    pub(in super::super) const FILE_MODES: u32 = 1030;
    pub(in super::super) const FILE_DEVICE_NUMBERS: u32 = 1033;
    pub(in super::super) const FILE_TIMES: u32 = 1034;
    pub(in super::super) const FILE_DIGESTS: u32 = 1035;
    pub(in super::super) const FILE_LINKS: u32 = 1036;
    pub(in super::super) const FILE_FLAGS: u32 = 1037;
    pub(in super::super) const FILE_USERS: u32 = 1039;
    pub(in super::super) const FILE_GROUPS: u32 = 1040;
    pub(in super::super) const SOURCE: u32 = 1044;
    pub(in super::super) const FILE_VERIFY_FLAGS: u32 = 1045;
    pub(in super::super) const GIVEN_NAMES: u32 = 1047;
    pub(in super::super) const NEED_FLAGS: u32 = 1048;
    pub(in super::super) const NEED_NAMES: u32 = 1049;
    pub(in super::super) const NEED_VERSIONS: u32 = 1050;
    pub(in super::super) const RPM_VERSION: u32 = 1064;
    pub(in super::super) const AFTER_INSTALL_PROGRAM: u32 = 1086;
    pub(in super::super) const BEFORE_REMOVAL_PROGRAM: u32 = 1087;
    pub(in super::super) const AFTER_REMOVAL_PROGRAM: u32 = 1088;
    pub(in super::super) const FILE_DEVICES: u32 = 1095;
    pub(in super::super) const FILE_INODES: u32 = 1096;
    pub(in super::super) const FILE_LANGUAGES: u32 = 1097;
    pub(in super::super) const GIVEN_FLAGS: u32 = 1112;
    pub(in super::super) const GIVEN_VERSIONS: u32 = 1113;
    pub(in super::super) const FOLDER_INDEXES: u32 = 1116;
    pub(in super::super) const BASE_NAMES: u32 = 1117;
    pub(in super::super) const FOLDER_NAMES: u32 = 1118;
    pub(in super::super) const PAYLOAD_FORMAT: u32 = 1124;
    pub(in super::super) const PAYLOAD_COMPRESSOR: u32 = 1125;
    pub(in super::super) const PAYLOAD_FLAGS: u32 = 1126;
    pub(in super::super) const FILE_DIGEST_ALGORITHM: u32 = 5011;
    pub(in super::super) const ENCODING: u32 = 5062;
    pub(in super::super) const RECOMMENDED_NAMES: u32 = 5046;
    pub(in super::super) const RECOMMENDED_VERSIONS: u32 = 5047;
    pub(in super::super) const RECOMMENDED_FLAGS: u32 = 5048;
    pub(in super::super) const PAYLOAD_DIGEST: u32 = 5092;
    pub(in super::super) const PAYLOAD_DIGEST_ALGORITHM: u32 = 5093;
}

/// A value.
pub(super) enum Value {
    Shorts(Vec<u16>),
    Numbers(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// A text in the one language that there is.
    Translated(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// The number of its type, the boundary that it begins at, how many values it is, and their bytes.
    fn encoded(&self) -> (u32, usize, usize, Vec<u8>) {
        let text = |text: &String| text.bytes().chain([0]).collect::<Vec<u8>>();
        match self {
            Value::Shorts(all) => (3, 2, all.len(), all.iter().flat_map(|one| one.to_be_bytes()).collect()),
            Value::Numbers(all) => (4, 4, all.len(), all.iter().flat_map(|one| one.to_be_bytes()).collect()),
            Value::Text(one) => (6, 1, 1, text(one)),
            Value::Bytes(bytes) => (7, 1, bytes.len(), bytes.clone()),
            Value::Texts(all) => (8, 1, all.len(), all.iter().flat_map(text).collect()),
            Value::Translated(one) => (9, 1, 1, text(one)),
        }
    }
}

/// Which of the two headers: each begins with a region that spans all of it.
#[derive(Clone, Copy)]
pub(super) enum Region {
    Signature = 62,
    Main = 63,
}

/// Values by their numbers.
#[derive(Default)]
pub(super) struct Header {
    values: BTreeMap<u32, Value>,
}

/// Bytes of an entry of the index.
const ENTRY: usize = 16;

impl Header {
    pub(super) fn set(&mut self, tag: u32, value: Value) {
        self.values.insert(tag, value);
    }

    /// As it stands in a package.
    pub(super) fn bytes(&self, region: Region) -> Result<Vec<u8>, Error> {
        let number = |value: usize| {
            u32::try_from(value).map_err(|_| Error::TooLarge { what: "a header".to_owned(), bytes: value })
        };
        // Values without any are left out: there is no such entry.
        let values: Vec<_> = self.values.iter().map(|(tag, value)| (*tag, value.encoded())).collect();
        let values: Vec<_> = values.into_iter().filter(|(_, (_, _, count, _))| *count > 0).collect();
        let entries = values.len() + 1;
        let (mut index, mut store) = (Vec::new(), Vec::new());
        for (tag, (kind, boundary, count, content)) in values {
            store.resize(store.len().next_multiple_of(boundary), 0);
            index.extend(entry(tag, kind, number(store.len())?, number(count)?));
            store.extend(content);
        }
        let first = entry(region as u32, 7, number(store.len())?, number(ENTRY)?);
        // Behind all values: how far back the index begins.
        let back = 0_u32.wrapping_sub(number(entries * ENTRY)?);
        let (_, _, _, trailer) =
            Value::Bytes(entry(region as u32, 7, back, number(ENTRY)?).to_vec()).encoded();
        store.extend(trailer);
        let mut bytes = vec![0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0];
        bytes.extend(number(entries)?.to_be_bytes());
        bytes.extend(number(store.len())?.to_be_bytes());
        bytes.extend(first);
        bytes.extend(index);
        bytes.extend(store);
        Ok(bytes)
    }
}

fn entry(tag: u32, kind: u32, offset: u32, count: u32) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    for (at, value) in [tag, kind, offset, count].into_iter().enumerate() {
        bytes[at * 4..at * 4 + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}
