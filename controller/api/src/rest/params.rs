//! Path and query parameters as fields of a request message.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value};
use proto_rpc::RpcError;

use crate::fault;

/// Parameters of one request.
const MAX_PARAMETERS: usize = 256;

/// Splits a query string into decoded pairs.
///
/// # Errors
/// Malformed percent-encoding, or too many parameters.
pub fn query(text: &str) -> Result<Vec<(String, String)>, RpcError> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(key, true, "query")?, decode(value, true, "query")?))
    });
    let pairs: Vec<_> = pairs.collect::<Result<_, RpcError>>()?;
    if pairs.len() > MAX_PARAMETERS {
        return Err(fault::field("query", format!("more than {MAX_PARAMETERS} query parameters")));
    }
    Ok(pairs)
}

/// Undoes percent-encoding.
///
/// # Errors
/// A `%` without two hex digits, or bytes that are not UTF-8.
pub fn decode(text: &str, plus: bool, field: &str) -> Result<String, RpcError> {
    let wrong = || {
        let shown: String = text.chars().take(64).collect();
        fault::field(field, format!("'{shown}' is not percent-encoded UTF-8"))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            b'+' if plus => b' ',
            other => other,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// The fields that can be query parameters: scalars, enums, durations and times, and lists of them.
pub fn is_parameter(field: &FieldDescriptor) -> bool {
    let simple = match field.kind() {
        Kind::Message(message) => {
            matches!(message.full_name(), "google.protobuf.Duration" | "google.protobuf.Timestamp")
        }
        Kind::Bytes => false,
        _ => true,
    };
    simple && !field.is_map()
}

/// The field of a parameter's name, in canonical JSON's spelling or the schema's.
fn find(message: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    message.fields().find(|field| field.json_name() == name || field.name() == name).filter(is_parameter)
}

/// Sets one parameter; a list takes several, one each time or separated by commas.
///
/// # Errors
/// There is no such field, or its value is wrong; says what there is.
pub fn set(message: &mut DynamicMessage, name: &str, text: &str, taken: &[&str]) -> Result<(), RpcError> {
    let descriptor = message.descriptor();
    let found = find(&descriptor, name).filter(|field| !taken.contains(&field.name()));
    let Some(field) = found else {
        let known = descriptor.fields().filter(|f| is_parameter(f) && !taken.contains(&f.name()));
        let known: Vec<String> = known.map(|field| field.json_name().to_owned()).collect();
        let shown: String = name.chars().take(64).collect();
        let text = match known.is_empty() {
            true => "this call takes no query parameters".to_owned(),
            false => format!("is not a parameter of this call; it takes {}", known.join(", ")),
        };
        return Err(fault::field(&shown, text));
    };
    if field.is_list() {
        for item in text.split(',') {
            let value = value(&field, item)?;
            if let Some(list) = message.get_field_mut(&field).as_list_mut() {
                list.push(value);
            }
        }
        return Ok(());
    }
    if message.has_field(&field) {
        return Err(fault::field(name, "is given twice"));
    }
    message.set_field(&field, value(&field, text)?);
    Ok(())
}

fn value(field: &FieldDescriptor, text: &str) -> Result<Value, RpcError> {
    let wrong = |expected: &str| fault::field(field.json_name(), format!("'{text}' is not {expected}"));
    Ok(match field.kind() {
        Kind::String => Value::String(text.to_owned()),
        Kind::Bool => Value::Bool(text.parse().map_err(|_| wrong("true or false"))?),
        Kind::Uint32 | Kind::Fixed32 => {
            Value::U32(text.parse().map_err(|_| wrong("a number from 0 to 4294967295"))?)
        }
        Kind::Uint64 | Kind::Fixed64 => Value::U64(text.parse().map_err(|_| wrong("a whole number"))?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(text.parse().map_err(|_| wrong("a whole number"))?)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            Value::I64(text.parse().map_err(|_| wrong("a whole number"))?)
        }
        Kind::Float => Value::F32(text.parse().map_err(|_| wrong("a number"))?),
        Kind::Double => Value::F64(text.parse().map_err(|_| wrong("a number"))?),
        Kind::Enum(of) => {
            let named = of.get_value_by_name(text).filter(|value| value.number() != 0);
            let names: Vec<String> = of.values().skip(1).map(|value| value.name().to_owned()).collect();
            let number = named.map(|value| value.number());
            Value::EnumNumber(number.ok_or_else(|| wrong(&format!("one of {}", names.join(", "))))?)
        }
        Kind::Message(of) => {
            // Durations and times have a text form in canonical JSON.
            let json = serde_json::Value::String(text.to_owned());
            let expected = "a duration like \"60s\" or a time like \"2026-01-02T03:04:05Z\"";
            Value::Message(DynamicMessage::deserialize(of, json).map_err(|_| wrong(expected))?)
        }
        Kind::Bytes => return Err(wrong("a parameter")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str) -> DynamicMessage {
        let pool = proto_wire::descriptor_pool();
        DynamicMessage::new(pool.get_message_by_name(&format!("rail.v1.{name}")).unwrap())
    }

    #[test]
    fn parameters_become_fields() {
        let mut list = message("ListJobsRequest");
        set(&mut list, "pageSize", "7", &[]).unwrap();
        set(&mut list, "phases", "RUNNING,PENDING", &[]).unwrap();
        set(&mut list, "phases", "FAILED", &[]).unwrap();
        let json = serde_json::to_value(&list).unwrap();
        assert_eq!(json, serde_json::json!({"pageSize": 7, "phases": ["RUNNING", "PENDING", "FAILED"]}));
        let mut cancel = message("CancelJobRequest");
        set(&mut cancel, "grace_period", "2.5s", &[]).unwrap();
        assert_eq!(serde_json::to_value(&cancel).unwrap()["gracePeriod"], "2.500s");
    }

    #[test]
    fn wrong_parameters_say_what_is_right() {
        let mut list = message("ListJobsRequest");
        let error = |result: Result<(), RpcError>| result.unwrap_err().message;
        assert!(error(set(&mut list, "pagesize", "7", &[])).contains("pageSize"));
        assert!(error(set(&mut list, "pageSize", "-1", &[])).contains("not a number"));
        assert!(error(set(&mut list, "phases", "running", &[])).contains("RUNNING"));
        set(&mut list, "tenant", "a", &[]).unwrap();
        assert!(error(set(&mut list, "tenant", "b", &[])).contains("twice"));
        assert!(error(set(&mut list, "pageSize", "7", &["page_size"])).contains("is not a parameter"));
        assert!(error(set(&mut message("CreateJobRequest"), "job", "x", &[])).contains("onBehalfOf"));
    }

    #[test]
    fn queries_are_decoded() {
        let pairs = query("a=b%20c+d&e&f=%C3%A9").unwrap();
        let expected = [("a", "b c d"), ("e", ""), ("f", "\u{e9}")];
        assert_eq!(pairs, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(query(bad).is_err(), "{bad}");
        }
    }
}
