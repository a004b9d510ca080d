//! The little YAML that a configuration file needs: mappings, lists and texts, no aliases, no tags.

use saphyr_parser::{Event, Parser, Span};
use serde_json::{Map, Value};

/// Deeper than any configuration file.
const MAX_DEPTH: usize = 8;

/// Why a text is no configuration; with line and column, from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column of the line, from 1.
    pub column: usize,
    /// What is wrong at that place.
    pub message: String,
}

/// Reads one document; every scalar becomes a text, an empty one null.
///
/// # Errors
/// [`Wrong`] with the place if the text is not YAML, uses what a configuration does not need, or is more than one document.
pub fn parse(text: &str) -> Result<Value, Wrong> {
    let mut events = Parser::new_from_str(text);
    let value = match next(&mut events)? {
        (Event::StreamEnd, _) => return Ok(Value::Null),
        first => node(first, &mut events, 0)?,
    };
    match next(&mut events)? {
        (Event::StreamEnd, _) => Ok(value),
        (_, span) => Err(wrong(&span, "a configuration file is one document")),
    }
}

type Events<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

fn next<'a>(events: &mut Events<'a>) -> Result<(Event<'a>, Span), Wrong> {
    loop {
        match events.next_event() {
            None => return Ok((Event::StreamEnd, Span::default())),
            Some(Err(error)) => {
                let mark = error.marker();
                let message = error.info().to_owned();
                return Err(Wrong { line: mark.line(), column: mark.col() + 1, message });
            }
            Some(Ok((
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd,
                _,
            ))) => {}
            Some(Ok(event)) => return Ok(event),
        }
    }
}

fn node<'a>(first: (Event<'a>, Span), events: &mut Events<'a>, depth: usize) -> Result<Value, Wrong> {
    let (event, span) = first;
    if depth > MAX_DEPTH {
        return Err(wrong(&span, "nested too deep for a configuration file"));
    }
    match event {
        Event::Scalar(text, style, _, _) => {
            let plain = style == saphyr_parser::ScalarStyle::Plain;
            let null = plain && matches!(&*text, "" | "~" | "null");
            Ok(if null { Value::Null } else { Value::String(text.into_owned()) })
        }
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            loop {
                match next(events)? {
                    (Event::SequenceEnd, _) => return Ok(Value::Array(list)),
                    item => list.push(node(item, events, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) => mapping(events, depth),
        Event::Alias(_) => Err(wrong(&span, "aliases are not used in a configuration file")),
        _ => Err(wrong(&span, "expected a value")),
    }
}

fn mapping(events: &mut Events<'_>, depth: usize) -> Result<Value, Wrong> {
    let mut map = Map::new();
    loop {
        let (key, span) = match next(events)? {
            (Event::MappingEnd, _) => return Ok(Value::Object(map)),
            (Event::Scalar(key, ..), span) => (key.into_owned(), span),
            (_, span) => return Err(wrong(&span, "a key must be a plain text")),
        };
        let item = next(events)?;
        let value = node(item, events, depth + 1)?;
        if map.insert(key.clone(), value).is_some() {
            return Err(wrong(&span, &format!("`{key}` stands here twice")));
        }
    }
}

fn wrong(span: &Span, message: &str) -> Wrong {
    Wrong { line: span.start.line(), column: span.start.col() + 1, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_lists_and_texts() {
        let value =
            parse("# c\ncurrentContext: dev\ncontexts:\n  dev:\n    controller: [unix:/s, 'a b']\n    ca:\n")
                .unwrap();
        let expected = serde_json::json!({"currentContext": "dev", "contexts": {"dev": {"controller": ["unix:/s", "a b"], "ca": null}}});
        assert_eq!(value, expected);
        assert_eq!(parse("").unwrap(), Value::Null);
        assert_eq!(parse("{\"a\": \"b\"}").unwrap(), serde_json::json!({"a": "b"}), "JSON is YAML");
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let twice = parse("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!((twice.line, twice.column), (3, 1));
        assert!(parse("a: &x 1\nb: *x\n").unwrap_err().message.contains("aliases"));
        assert!(parse("a: [1\nb: 2").is_err());
        assert!(parse(&"[".repeat(2000)).is_err());
        assert!(parse("a: 1\n---\nb: 2\n").is_err());
    }
}
