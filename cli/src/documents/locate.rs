//! Where a field of a message stands in the text of its document.

use saphyr_parser::{Event, Parser, Span, StrInput};

/// Line and column, from 1, of the value of a field such as `spec.links[3].leaf` in the document of that number;
/// of the nearest thing around it where the field itself is not written. JSON is read as the YAML that it is.
#[must_use]
pub fn field(text: &str, document: usize, path: &str) -> Option<(usize, usize)> {
    let mut events = Parser::new_from_str(text);
    let (first, span) = enter(&mut events, document)?;
    descend(&mut events, first, &span, &steps(path))
}

/// Where a text stands for the first time as a value of the document of that number.
#[must_use]
pub fn name(text: &str, document: usize, name: &str) -> Option<(usize, usize)> {
    let mut events = Parser::new_from_str(text);
    enter(&mut events, document)?;
    loop {
        match events.next_event()?.ok()? {
            (Event::Scalar(found, ..), span) if found == name => return Some(place(&span)),
            (Event::DocumentEnd | Event::StreamEnd, _) => return None,
            _ => {}
        }
    }
}

/// Goes to the document of that number and gives its first event.
fn enter<'a>(events: &mut Events<'a>, document: usize) -> Option<(Event<'a>, Span)> {
    let mut seen = 0;
    loop {
        match events.next_event()?.ok()?.0 {
            Event::DocumentStart(_) => {}
            Event::StreamEnd => return None,
            _ => continue,
        }
        let (event, span) = events.next_event()?.ok()?;
        // `---` without content makes a document that nobody counts.
        let empty = matches!(&event, Event::Scalar(text, ..) if matches!(&**text, "" | "~" | "null"));
        if !empty {
            if seen == document {
                return Some((event, span));
            }
            seen += 1;
        }
        skip(events, &event)?;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

/// `spec.links[3].leaf` or `spec.command.env["A.B"]` in steps.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let (key, after) = quoted.split_once("\"]").unwrap_or((quoted, ""));
            steps.push(Step::Field(key.to_owned()));
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').unwrap_or((inner, ""));
            match index.parse() {
                Ok(index) => steps.push(Step::Index(index)),
                Err(_) => return steps,
            }
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Field(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    steps
}

type Events<'a> = Parser<'a, StrInput<'a>>;

fn descend<'a>(
    events: &mut Events<'a>,
    first: Event<'a>,
    span: &Span,
    steps: &[Step],
) -> Option<(usize, usize)> {
    let mut best = place(span);
    let mut event = first;
    for step in steps {
        let found = match (&event, step) {
            (Event::MappingStart(..), Step::Field(name)) => find_key(events, name),
            (Event::SequenceStart(..), Step::Index(index)) => find_item(events, *index),
            _ => None,
        };
        let Some((key, next, next_span)) = found else { return Some(best) };
        best = match &next {
            // A scalar is shown itself; a mapping or list below its key is shown at the key.
            Event::Scalar(text, ..) if !text.is_empty() => place(&next_span),
            _ => key.as_ref().map_or_else(|| place(&next_span), place),
        };
        event = next;
    }
    Some(best)
}

type Found<'a> = Option<(Option<Span>, Event<'a>, Span)>;

fn find_key<'a>(events: &mut Events<'a>, name: &str) -> Found<'a> {
    loop {
        let (key, key_span) = events.next_event()?.ok()?;
        let hit = match &key {
            Event::MappingEnd => return None,
            Event::Scalar(text, ..) => same(text, name),
            _ => false,
        };
        if !matches!(key, Event::Scalar(..)) {
            skip(events, &key)?;
        }
        let (value, span) = events.next_event()?.ok()?;
        if hit {
            return Some((Some(key_span), value, span));
        }
        skip(events, &value)?;
    }
}

fn find_item<'a>(events: &mut Events<'a>, index: usize) -> Found<'a> {
    for _ in 0..index {
        let (item, _) = events.next_event()?.ok()?;
        if matches!(item, Event::SequenceEnd) {
            return None;
        }
        skip(events, &item)?;
    }
    let (item, span) = events.next_event()?.ok()?;
    (!matches!(item, Event::SequenceEnd)).then_some((None, item, span))
}

/// Reads past what has begun with this event.
fn skip(events: &mut Events<'_>, begun: &Event<'_>) -> Option<()> {
    let mut depth = usize::from(matches!(begun, Event::MappingStart(..) | Event::SequenceStart(..)));
    while depth > 0 {
        match events.next_event()?.ok()?.0 {
            Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
            Event::MappingEnd | Event::SequenceEnd => depth -= 1,
            Event::StreamEnd => return None,
            _ => {}
        }
    }
    Some(())
}

/// A field may be written in lowerCamelCase or as in the proto.
fn same(written: &str, name: &str) -> bool {
    written == name || written.split('_').map(str::to_lowercase).collect::<String>() == name.to_lowercase()
}

fn place(span: &Span) -> (usize, usize) {
    (span.start.line(), span.start.col() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\n---\na: 1\n---\nspec:\n  links:\n  - leaf: x\n  - {leaf: y, gpus_per_node: 4}\n  env:\n    A.B: \"1\"\n";

    #[test]
    fn fields_are_found_in_their_document() {
        let at = |path| field(TEXT, 1, path);
        assert_eq!(at("spec.links[1].leaf"), Some((8, 12)));
        assert_eq!(at("spec.links[0].leaf"), Some((7, 11)));
        assert_eq!(at("spec.links[1].gpusPerNode"), Some((8, 30)));
        assert_eq!(at("spec.env[\"A.B\"]"), Some((10, 10)));
        assert_eq!(field(TEXT, 0, "a"), Some((3, 4)));
        assert_eq!(field(TEXT, 2, "a"), None);
    }

    #[test]
    fn what_is_not_written_is_shown_at_what_is_around_it() {
        let at = |path| field(TEXT, 1, path);
        assert_eq!(at("spec.gang.nodes"), Some((5, 1)));
        assert_eq!(at("spec.links[7].leaf"), Some((6, 3)));
        assert_eq!(at(""), Some((5, 1)));
    }

    #[test]
    fn json_and_garbage() {
        assert_eq!(field("{\"spec\": {\"nodes\": 0}}", 0, "spec.nodes"), Some((1, 20)));
        assert_eq!(field("a: [", 1, "a[0]"), None);
        assert_eq!(steps("a[x]"), [Step::Field("a".into())]);
    }
}
