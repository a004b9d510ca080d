//! YAML as JSON: what values files, manifests and alert rules are written in, without aliases and tags.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// A list or map that is not closed yet; of a map also the key whose value comes next.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// Every document of a text that holds something.
///
/// # Errors
/// What is wrong with the text, with its line.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let (mut found, mut open): (Vec<Value>, Vec<Open>) = (Vec::new(), Vec::new());
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let done = match event {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Value::Array(list),
                Some(Open::Map(map, _)) => Value::Object(map),
                None => return Err("something is closed that was not opened".to_owned()),
            },
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::Alias(_) => return Err(format!("line {}: an alias", span.start.line())),
            _ => continue,
        };
        match open.last_mut() {
            None => found.push(done),
            Some(Open::List(list)) => list.push(done),
            Some(Open::Map(map, key)) => match key.take() {
                None => *key = Some(done.as_str().map_or_else(|| done.to_string(), str::to_owned)),
                Some(name) => {
                    let before = map.insert(name.clone(), done);
                    if before.is_some() {
                        return Err(format!("line {}: {name} is there twice", span.start.line()));
                    }
                }
            },
        }
    }
    found.retain(|document| !document.is_null());
    Ok(found)
}

/// The one document of a text.
///
/// # Errors
/// What is wrong with the text; or there is none, or more than one.
pub fn document(text: &str) -> Result<Value, String> {
    let mut found = documents(text)?;
    if found.len() == 1 { Ok(found.remove(0)) } else { Err(format!("{} documents", found.len())) }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::from(text);
    }
    match text {
        "true" => Value::from(true),
        "false" => Value::from(false),
        "" | "~" | "null" => Value::Null,
        _ => {
            // Kubernetes reads YAML 1.1, in which 0400 is octal.
            let octal = text.strip_prefix('0').and_then(|digits| u64::from_str_radix(digits, 8).ok());
            let number = octal.or_else(|| text.parse().ok()).map(Value::from);
            number.or_else(|| text.parse::<i64>().ok().map(Value::from)).unwrap_or_else(|| Value::from(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_read_as_kubernetes_reads_it() {
        let read =
            document("a: {b: [1, 0400, 'x', yes, 1Gi]}\nc: |\n  two\n  lines\nd:\ne: \"true\"\n").unwrap();
        let expected = serde_json::json!({"a": {"b": [1, 256, "x", "yes", "1Gi"]}, "c": "two\nlines\n", "d": null, "e": "true"});
        assert_eq!(read, expected);
        assert!(document("a: 1\na: 2\n").unwrap_err().contains("a is there twice"));
        assert_eq!(documents("---\n# nothing\n---\na: 1\n").unwrap().len(), 1);
    }
}
