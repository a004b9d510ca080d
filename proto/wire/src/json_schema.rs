//! The rules of a field (`rules`), and types of values, as JSON Schema says them: for the OpenAPI document, and for Kubernetes' schemas.

use prost_reflect::{EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, OneofDescriptor};
use serde_json::{Value as Json, json};

use crate::rules::{FieldRules, TextRules, ValueRules, field_rules, oneof_is_required, refuses_empty};

/// Nine digits behind the point, as canonical JSON has them.
const FRACTION: &str = "(\\.[0-9]{1,9})?";
/// Control characters that no text of a body holds.
const CONTROL: &str = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
/// Digits of a fraction that is not zero, with up to two zeros behind, as canonical JSON writes them.
const SOME: &str = "([0-9]{0,8}[1-9]|[0-9]{0,7}[1-9]0|[0-9]{0,6}[1-9]00)";
/// Seconds of the longest `google.protobuf.Duration`.
const LONGEST: u64 = 315_576_000_000;
/// The texts of 64-bit numbers without a sign, in canonical JSON.
pub const UINT64: &str = "^(0|[1-9][0-9]{0,18}|1[0-7][0-9]{18}|18[0-3][0-9]{17}|184[0-3][0-9]{16}|1844[0-5][0-9]{15}|18446[0-6][0-9]{14})$";

/// The schema of one value of a type without parts; `None` of messages and enumerations.
#[must_use]
pub fn scalar(kind: &Kind) -> Option<Json> {
    Some(match kind {
        Kind::Message(_) | Kind::Enum(_) => return None,
        Kind::Bool => json!({"type": "boolean"}),
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "format": "byte", "contentEncoding": "base64"}),
        Kind::Float => json!({"type": "number", "format": "float"}),
        Kind::Double => json!({"type": "number", "format": "double"}),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({"type": "integer", "format": "int32"}),
        Kind::Uint32 | Kind::Fixed32 => {
            json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX})
        }
        // Canonical JSON writes 64-bit numbers as strings, because a double cannot hold them.
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({"type": "string", "format": "int64", "pattern": "^-?(0|[1-9][0-9]*)$"})
        }
        Kind::Uint64 | Kind::Fixed64 => {
            json!({"type": "string", "format": "uint64", "pattern": UINT64})
        }
    })
}

/// The schema of a message that has a form of its own in canonical JSON.
#[must_use]
pub fn well_known(name: &str) -> Option<Json> {
    match name {
        "google.protobuf.Timestamp" => Some(json!({"type": "string", "format": "date-time"})),
        "google.protobuf.Duration" => Some(
            json!({"type": "string", "format": "duration-seconds", "pattern": length_of_time(None, None, None)}),
        ),
        _ => None,
    }
}

/// The names of an enumeration that may be given: the zero is what a field is that is not given.
#[must_use]
pub fn names(of: &EnumDescriptor) -> Vec<String> {
    of.values().filter(|value| value.number() != 0).map(|value| value.name().to_owned()).collect()
}

/// The comment above a declaration in its proto file; empty where there is none.
#[must_use]
pub fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let proto = file.file_descriptor_proto();
    let locations = proto.source_code_info.as_ref().map_or(&[][..], |info| &info.location);
    let found = locations.iter().find(|location| location.path == path);
    found.map_or_else(String::new, |location| location.leading_comments().trim().to_owned())
}

/// The rules of a field. What the schema's options say wrong a test finds; here it is as if they said nothing.
#[must_use]
pub fn of(field: &FieldDescriptor) -> FieldRules {
    field_rules(field).unwrap_or_default()
}

/// Adds to the schema of one value what the rules say of it.
pub fn limit(schema: &mut Json, rules: &FieldRules, kind: &Kind) {
    match (&rules.value, kind) {
        (ValueRules::Number { least, most }, Kind::Uint64) => {
            let range = decimal(unsigned(*least, 0), unsigned(*most, u64::MAX));
            let zero = if rules.zero_is_right { "0|" } else { "" };
            schema["pattern"] = format!("^({zero}{range})$").into();
        }
        (ValueRules::Number { least, most }, _) => {
            let least = least.filter(|least| !(rules.zero_is_right && *least > 0));
            for (name, bound) in [("minimum", least), ("maximum", *most)] {
                if let Some(bound) = bound.and_then(|bound| i64::try_from(bound).ok()) {
                    schema[name] = bound.into();
                }
            }
        }
        (ValueRules::Text(text), _) => limit_text(schema, text, rules.zero_is_right),
        (ValueRules::Choice { only, never }, Kind::Enum(of))
            if !only.is_empty() || never.iter().any(|n| *n != 0) =>
        {
            let right = |number: i32| {
                number != 0 && !never.contains(&number) && (only.is_empty() || only.contains(&number))
            };
            let names: Vec<String> = of
                .values()
                .filter(|value| right(value.number()))
                .map(|value| value.name().to_owned())
                .collect();
            *schema = json!({"type": "string", "enum": names});
        }
        (ValueRules::Time { least, more_than, most }, _) => {
            schema["pattern"] = length_of_time(*least, *more_than, *most).into();
        }
        _ => {}
    }
}

/// What of a list or a map is the list's or the map's own.
pub fn limit_entries(schema: &mut Json, rules: &FieldRules) {
    let (least, most, names) = match &rules.value {
        ValueRules::List { least, most, unique, .. } => {
            if *unique {
                schema["uniqueItems"] = true.into();
            }
            (least, most, ["minItems", "maxItems"])
        }
        ValueRules::Map { least, most, keys, .. } => {
            let mut key = json!({});
            limit(&mut key, keys, &Kind::String);
            if key != json!({}) {
                schema["propertyNames"] = key;
            }
            (least, most, ["minProperties", "maxProperties"])
        }
        _ => return,
    };
    for (name, bound) in names.into_iter().zip([least, most]) {
        if let Some(bound) = bound {
            schema[name] = (*bound).into();
        }
    }
}

/// What the rules of a message's field say of the message's own fields.
pub fn limit_members(schema: &mut Json, rules: &FieldRules) {
    if rules.members.is_empty() {
        return;
    }
    let needed = rules.members.iter().filter(|(_, pattern)| refuses_empty(pattern));
    let names: Vec<&str> = needed.map(|(name, _)| name.as_str()).collect();
    let mut own = json!({"properties": {}});
    if !names.is_empty() {
        own["required"] = names.into();
    }
    for (name, pattern) in &rules.members {
        own["properties"][name] = json!({"type": "string", "pattern": pattern});
    }
    // Beside a reference some readers look at nothing.
    *schema = json!({"allOf": [schema.take(), own]});
}

/// That exactly one of a oneof's fields is given, if one must be. Within `allOf`: makers of clients take a schema that is a choice itself
/// for several types.
#[must_use]
pub fn one_of(oneof: &OneofDescriptor) -> Option<Json> {
    let each: Vec<Json> = oneof.fields().map(|field| json!({"required": [field.json_name()]})).collect();
    oneof_is_required(oneof).then(|| json!([{"oneOf": each}]))
}

/// That texts of a body hold no control characters but tabs and ends of lines: whoever reads bodies refuses them.
pub fn plain(schema: &mut Json) {
    if let Some(names) = schema.get_mut("propertyNames") {
        plain_text(names);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inner).filter(|inner| inner.is_object()) {
            plain(inner);
        }
    }
    let free = ["enum", "format", "$ref"].iter().all(|name| schema.get(name).is_none());
    if schema["type"] == "string" && free {
        plain_text(schema);
    }
}

fn plain_text(schema: &mut Json) {
    let pattern = match schema["pattern"].as_str() {
        None => format!("^[^{CONTROL}]*$"),
        // A class of all but some.
        Some(pattern) => match pattern.strip_prefix("^[^") {
            Some(rest) => format!("^[^{CONTROL}{rest}"),
            None => return,
        },
    };
    schema["pattern"] = pattern.into();
}

fn limit_text(schema: &mut Json, text: &TextRules, zero_is_right: bool) {
    if !text.only.is_empty() {
        match zero_is_right {
            true => schema["pattern"] = format!("^({})?$", text.only.join("|")).into(),
            false => schema["enum"] = text.only.clone().into(),
        }
        return;
    }
    if let Some(least) = text.min_len {
        schema["minLength"] = least.into();
    }
    if let Some(most) = text.max_len.or(text.max_bytes) {
        schema["maxLength"] = most.into();
    }
    if let Some(pattern) = &text.pattern {
        schema["pattern"] =
            match (zero_is_right, pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'))) {
                (true, Some(inner)) => format!("^({inner})?$"),
                (true, None) => format!("^$|{pattern}"),
                (false, _) => pattern.clone(),
            }
            .into();
    }
}

fn unsigned(bound: Option<i128>, absent: u64) -> u64 {
    bound.and_then(|bound| u64::try_from(bound).ok()).unwrap_or(absent)
}

/// A pattern of the canonical texts of a length of time.
#[must_use]
pub fn length_of_time(least: Option<i64>, more_than: Option<i64>, most: Option<i64>) -> String {
    let seconds = |bound: Option<i64>, absent| bound.and_then(|n| u64::try_from(n).ok()).unwrap_or(absent);
    let most = seconds(most, LONGEST);
    let (least, first) = match more_than {
        Some(_) => {
            let least = seconds(more_than, 0);
            (least + 1, format!("{least}\\.{SOME}|"))
        }
        None => (seconds(least, 0), String::new()),
    };
    let whole = decimal(least, most.saturating_sub(1).max(least));
    format!("^({first}{whole}{FRACTION}|{most}(\\.0{{1,9}})?)s$")
}

/// A pattern of the numbers from one to another, in decimal digits without zeros before them.
fn decimal(least: u64, most: u64) -> String {
    let mut parts = Vec::new();
    let mut low = least;
    loop {
        let text = low.to_string();
        let longest =
            10_u64.checked_pow(u32::try_from(text.len()).unwrap_or(u32::MAX)).map_or(u64::MAX, |n| n - 1);
        let high = longest.min(most);
        parts.push(digits(text.as_bytes(), high.to_string().as_bytes()));
        if high >= most {
            return format!("({})", parts.join("|"));
        }
        low = high + 1;
    }
}

/// As `decimal`, of two numbers with as many digits.
fn digits(low: &[u8], high: &[u8]) -> String {
    let (Some((first, low_rest)), Some((last, high_rest))) = (low.split_first(), high.split_first()) else {
        return String::new();
    };
    let any = |count: usize| match count {
        0 => String::new(),
        1 => "[0-9]".to_owned(),
        count => format!("[0-9]{{{count}}}"),
    };
    if first == last {
        return format!("{}{}", char::from(*first), digits(low_rest, high_rest));
    }
    let from_zero = low_rest.iter().all(|digit| *digit == b'0');
    let to_nine = high_rest.iter().all(|digit| *digit == b'9');
    let (mut parts, mut from, mut to) = (Vec::new(), *first, *last);
    if !from_zero {
        parts.push(format!("{}{}", char::from(from), digits(low_rest, &vec![b'9'; low_rest.len()])));
        from += 1;
    }
    if !to_nine {
        to -= 1;
    }
    if from <= to {
        let class = if from == to {
            char::from(from).to_string()
        } else {
            format!("[{}-{}]", char::from(from), char::from(to))
        };
        parts.push(format!("{class}{}", any(low_rest.len())));
    }
    if !to_nine {
        parts.push(format!("{}{}", char::from(*last), digits(&vec![b'0'; high_rest.len()], high_rest)));
    }
    if parts.len() == 1 { parts.remove(0) } else { format!("({})", parts.join("|")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_patterns() {
        assert_eq!(decimal(0, 9), "([0-9])");
        assert_eq!(decimal(1, 31), "([1-9]|([1-2][0-9]|3[0-1]))");
        assert_eq!(decimal(0, 1000), "([0-9]|[1-9][0-9]|[1-9][0-9]{2}|1000)");
        assert_eq!(decimal(95, 3599), "(9[5-9]|[1-9][0-9]{2}|([1-2][0-9]{3}|3[0-5][0-9]{2}))");
        assert!(decimal(0, u64::MAX).ends_with(')'));
    }

    #[test]
    fn lengths_of_time_become_patterns() {
        assert_eq!(length_of_time(Some(1), None, Some(10)), "^(([1-9])(\\.[0-9]{1,9})?|10(\\.0{1,9})?)s$");
        assert!(length_of_time(None, Some(0), Some(10)).starts_with("^(0\\.([0-9]{0,8}[1-9]|"));
    }
}
