//! YAML into a JSON value, for tables that are built in.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

type Events<'a> = Parser<'a, StrInput<'a>>;

/// Reads one document. Plain numbers become numbers, other scalars texts.
///
/// # Errors
/// Where it is no YAML of that kind, and why.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut events = Parser::new_from_str(text);
    let first = next(&mut events)?;
    node(first, &mut events)
}

fn next<'a>(events: &mut Events<'a>) -> Result<Event<'a>, String> {
    loop {
        match events.next_event() {
            None => return Ok(Event::StreamEnd),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok((
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd,
                _,
            ))) => {}
            Some(Ok((event, _))) => return Ok(event),
        }
    }
}

fn node<'a>(first: Event<'a>, events: &mut Events<'a>) -> Result<Value, String> {
    match first {
        Event::Scalar(text, style, ..) => {
            let number = (style == ScalarStyle::Plain).then(|| text.parse::<i64>().ok()).flatten();
            Ok(number.map_or_else(|| Value::from(text.into_owned()), Value::from))
        }
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            loop {
                match next(events)? {
                    Event::SequenceEnd => return Ok(Value::Array(list)),
                    item => list.push(node(item, events)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                let key = match next(events)? {
                    Event::MappingEnd => return Ok(Value::Object(map)),
                    Event::Scalar(key, ..) => key.into_owned(),
                    other => return Err(format!("a key must be a text, not {other:?}")),
                };
                let item = next(events)?;
                let value = node(item, events)?;
                if map.insert(key.clone(), value).is_some() {
                    return Err(format!("`{key}` stands twice in one mapping"));
                }
            }
        }
        other => Err(format!("expected a value, not {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn mappings_lists_texts_and_numbers() {
        let value = parse("- {id: a, code: 3}\n- id: '4'\n  run: |\n    one\n    two\n").unwrap();
        assert_eq!(value, json!([{"id": "a", "code": 3}, {"id": "4", "run": "one\ntwo\n"}]));
        assert!(parse("a: 1\na: 2\n").unwrap_err().contains("twice"));
        assert!(parse("a: [1").is_err() && parse("a: &x 1\nb: *x\n").is_err());
    }
}
