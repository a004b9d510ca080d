//! What stands at a path.

use crate::path::Path;

/// A value, as the switch has encoded it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A tree, by RFC 7951 or in the switch's own JSON.
    Json(serde_json::Value),
    /// Text.
    Text(String),
    /// A whole number that may be negative.
    Int(i64),
    /// A whole number.
    Uint(u64),
    /// Yes or no.
    Bool(bool),
    /// A number with a fraction.
    Double(f64),
    /// Bytes of a meaning that only the switch knows.
    Bytes(Vec<u8>),
    /// Several values.
    List(Vec<Value>),
}

impl Value {
    /// The value as a whole number: SONiC sends numbers as text, OpenConfig those of 64 bits as text within JSON (RFC 7951, 6.1).
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Uint(number) => Some(*number),
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::Text(text) | Value::Json(serde_json::Value::String(text)) => text.parse().ok(),
            Value::Json(json) => json.as_u64(),
            Value::Bool(_) | Value::Double(_) | Value::Bytes(_) | Value::List(_) => None,
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Where, from the root.
    pub path: Path,
    /// What.
    pub value: Value,
}
