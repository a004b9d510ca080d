//! Between the messages and what they mean. Nothing of a switch is taken unread: what cannot be is an error that names it.

use crate::error::Error;
use crate::path::{Elem, Path};
use crate::value::{Update, Value};
use crate::wire;

/// Lists in lists are read so deep.
const DEPTH: usize = 8;
/// What JSON is cut to in an error, in characters.
const SHOWN: usize = 80;

pub(crate) fn to_wire(path: &Path) -> wire::Path {
    let elem = |elem: &Elem| wire::PathElem {
        name: elem.name.clone(),
        key: elem.keys.clone().into_iter().collect(),
    };
    wire::Path {
        origin: path.origin.clone(),
        elem: path.elems.iter().map(elem).collect(),
        target: String::new(),
    }
}

pub(crate) fn json(value: &serde_json::Value) -> wire::TypedValue {
    let value = wire::typed_value::Value::JsonIetfVal(value.to_string().into_bytes());
    wire::TypedValue { value: Some(value) }
}

fn path(message: wire::Path) -> Result<Path, Error> {
    let mut path = Path { origin: message.origin, elems: Vec::with_capacity(message.elem.len()) };
    for elem in message.elem {
        if elem.name.is_empty() {
            return Err(Error::Malformed(format!("below {path} is an element without a name")));
        }
        path.elems.push(Elem { name: elem.name, keys: elem.key.into_iter().collect() });
    }
    Ok(path)
}

/// What a notification says is there, and what it says is gone.
///
/// # Errors
/// [`Error::Malformed`] names the path of the first value that cannot be.
pub fn notification(message: wire::Notification) -> Result<(Vec<Update>, Vec<Path>), Error> {
    let prefix = path(message.prefix.unwrap_or_default())?;
    let mut updates = Vec::with_capacity(message.update.len());
    for update in message.update {
        let path = prefix.clone().join(path(update.path.unwrap_or_default())?);
        let Some(value) = update.val.and_then(|value| value.value) else {
            return Err(Error::Malformed(format!("{path} comes without a value")));
        };
        let value = read(value, &path, 0)?;
        updates.push(Update { path, value });
    }
    let gone = message.delete.into_iter().map(|gone| Ok(prefix.clone().join(path(gone)?)));
    Ok((updates, gone.collect::<Result<_, Error>>()?))
}

fn read(value: wire::typed_value::Value, path: &Path, depth: usize) -> Result<Value, Error> {
    use wire::typed_value::Value as Wire;
    Ok(match value {
        Wire::StringVal(text) | Wire::AsciiVal(text) => Value::Text(text),
        Wire::IntVal(number) => Value::Int(number),
        Wire::UintVal(number) => Value::Uint(number),
        Wire::BoolVal(yes) => Value::Bool(yes),
        Wire::BytesVal(bytes) | Wire::ProtoBytes(bytes) => Value::Bytes(bytes),
        Wire::FloatVal(number) => Value::Double(f64::from(number)),
        Wire::DoubleVal(number) => Value::Double(number),
        Wire::DecimalVal(decimal) => Value::Double(fraction(&decimal, path)?),
        Wire::JsonVal(bytes) | Wire::JsonIetfVal(bytes) => Value::Json(parse(&bytes, path)?),
        Wire::LeaflistVal(list) => {
            if depth == DEPTH {
                return Err(Error::Malformed(format!("{path} has lists in lists deeper than {DEPTH}")));
            }
            let entries = list.element.into_iter().filter_map(|entry| entry.value);
            Value::List(entries.map(|entry| read(entry, path, depth + 1)).collect::<Result<_, _>>()?)
        }
    })
}

fn fraction(decimal: &wire::Decimal64, path: &Path) -> Result<f64, Error> {
    // RFC 7950, 9.3.4: 1 to 18 digits stand after the point.
    if decimal.precision > 18 {
        return Err(Error::Malformed(format!("{path} has {} digits after the point", decimal.precision)));
    }
    let text = format!("{}e-{}", decimal.digits, decimal.precision);
    text.parse().map_err(|_| Error::Malformed(format!("{path} is no number: {text}")))
}

fn parse(bytes: &[u8], path: &Path) -> Result<serde_json::Value, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        let shown: String = String::from_utf8_lossy(bytes).chars().take(SHOWN).collect();
        Error::Malformed(format!("{path} is no JSON: {error}: {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message as _;

    fn nested(depth: usize) -> wire::TypedValue {
        let value = (0..depth).fold(wire::typed_value::Value::UintVal(7), |value, _| {
            let element = vec![wire::TypedValue { value: Some(value) }];
            wire::typed_value::Value::LeaflistVal(wire::ScalarArray { element })
        });
        wire::TypedValue { value: Some(value) }
    }

    fn one(val: Option<wire::TypedValue>) -> Result<(Vec<Update>, Vec<Path>), Error> {
        let prefix = Some(to_wire(&Path::of("o", &["a"])));
        let update = wire::Update { path: Some(to_wire(&Path::of("", &["b"]))), val, duplicates: 0 };
        let delete = vec![to_wire(&Path::of("", &["c"]))];
        notification(wire::Notification { prefix, update: vec![update], delete, ..Default::default() })
    }

    #[test]
    fn the_prefix_stands_before_every_path() {
        let (updates, gone) = one(Some(json(&serde_json::json!({"x": "1"})))).unwrap();
        assert_eq!(updates[0].path.to_string(), "o:/a/b");
        assert_eq!(updates[0].value, Value::Json(serde_json::json!({"x": "1"})));
        assert_eq!(gone[0].to_string(), "o:/a/c");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let malformed = |val| match one(val) {
            Err(Error::Malformed(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(malformed(None), "o:/a/b comes without a value");
        assert_eq!(malformed(Some(nested(9))), "o:/a/b has lists in lists deeper than 8");
        assert!(one(Some(nested(8))).is_ok());
        let half = wire::typed_value::Value::JsonIetfVal(b"{\"x\": ".to_vec());
        assert!(malformed(Some(wire::TypedValue { value: Some(half) })).starts_with("o:/a/b is no JSON: "));
        let digits = wire::Decimal64 { digits: 1, precision: 19 };
        let decimal = wire::typed_value::Value::DecimalVal(digits);
        assert!(malformed(Some(wire::TypedValue { value: Some(decimal) })).contains("19 digits"));
        let nameless = wire::Path { elem: vec![wire::PathElem::default()], ..Default::default() };
        let message = wire::Notification { prefix: Some(nameless), ..Default::default() };
        assert!(matches!(notification(message), Err(Error::Malformed(_))));
    }

    #[test]
    fn numbers_are_read_in_every_form_that_switches_send() {
        for (value, number) in [
            (Value::Text("18446744073709551615".into()), Some(u64::MAX)),
            (Value::Json(serde_json::json!("12")), Some(12)),
            (Value::Json(serde_json::json!(12)), Some(12)),
            (Value::Int(-1), None),
            (Value::Uint(3), Some(3)),
            (Value::Text("N/A".into()), None),
        ] {
            assert_eq!(value.as_u64(), number, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_notification_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = wire::Notification::decode(bytes.as_slice()) {
                let _ = notification(message);
            }
        }
    }
}
