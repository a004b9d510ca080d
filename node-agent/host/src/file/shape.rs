//! The shape of an inventory file: field names of the canonical JSON mapping of `rail.v1.Inventory`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileInventory {
    #[serde(default)]
    pub(super) gpus: Vec<FileGpu>,
    #[serde(default)]
    pub(super) nics: Vec<FileNic>,
    #[serde(default)]
    pub(super) neighbors: Vec<FileNeighbor>,
    #[serde(default)]
    pub(super) numa_nodes: u32,
    #[serde(default)]
    pub(super) cpus: u32,
    #[serde(default, deserialize_with = "number", serialize_with = "text")]
    pub(super) memory_bytes: u64,
    /// What a controller shows beside the hardware, and what a file does not say again.
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "it is taken, so that what `railctl` shows is a file, and left")]
    pub(super) health: Option<de::IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "as health")]
    pub(super) findings: Option<de::IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[allow(dead_code, reason = "as health")]
    pub(super) changes: Option<de::IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileGpu {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default)]
    pub(super) uuid: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) pci_address: String,
    #[serde(default = "unknown")]
    pub(super) numa_node: i32,
    #[serde(default, deserialize_with = "number", serialize_with = "text")]
    pub(super) memory_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<super::facts::FileGpuFacts>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileNeighbor {
    pub(super) netdev: String,
    pub(super) switch: String,
    pub(super) port: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileNic {
    pub(super) device: String,
    #[serde(default)]
    pub(super) netdev: String,
    #[serde(default)]
    pub(super) pci_address: String,
    #[serde(default = "unknown")]
    pub(super) numa_node: i32,
    #[serde(default)]
    pub(super) rail: u32,
    #[serde(default)]
    pub(super) address: String,
    #[serde(default)]
    pub(super) mtu: u32,
    #[serde(default, deserialize_with = "number", serialize_with = "text")]
    pub(super) speed_mbps: u64,
    #[serde(default = "yes")]
    pub(super) up: bool,
    #[serde(default = "unknown")]
    pub(super) gid_index: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) facts: Option<super::facts::FileNicFacts>,
}

fn unknown() -> i32 {
    -1
}

fn yes() -> bool {
    true
}

/// A 64-bit number is a string in the canonical mapping.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// A 64-bit number, or the same as a string.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Number;
    impl de::Visitor<'_> for Number {
        type Value = u64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a number that is not negative")
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
            Ok(value)
        }

        fn visit_str<E: de::Error>(self, value: &str) -> Result<u64, E> {
            value.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(value), &self))
        }
    }
    deserializer.deserialize_any(Number)
}
