//! YAML events to located trees, one per document. Aliases, anchors, tags and keys that are not text are refused:
//! a manifest says what it says, once.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::finding::{Position, Sink};
use crate::scalar::{Resolved, resolve};
use crate::tree::{Budget, Content, Entry, MAX_DEPTH, Map, Node, Stop, add_entry, check_value};

/// A list or mapping that is not closed yet.
enum Open {
    List(Position, Vec<Node>),
    Map(Position, Map, Option<(String, Position)>),
}

/// Builds trees from events.
struct Builder<'s> {
    sink: &'s mut Sink,
    budget: Budget,
    stack: Vec<Open>,
    documents: Vec<Node>,
}

/// All documents of the text. Syntax errors stop the reading; everything else is collected in `sink`.
pub(crate) fn read(text: &str, sink: &mut Sink) -> Result<Vec<Node>, Stop> {
    let mut builder = Builder { sink, budget: Budget::default(), stack: Vec::new(), documents: Vec::new() };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            let marker = error.marker();
            // The scanner has a limit of its own for brackets, which it looks ahead over.
            let too_deep = error.info() == "recursion limit exceeded";
            let what = if too_deep {
                format!("nested deeper than {MAX_DEPTH} levels")
            } else {
                error.info().to_owned()
            };
            Stop(Position { line: marker.line(), column: marker.col() + 1 }, what)
        })?;
        builder.event(event, span)?;
    }
    Ok(builder.documents)
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Stop> {
        let at = position(&span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(at, anchor != 0, tag.is_some());
                self.scalar(at, text.into_owned(), style)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse(at, anchor != 0, tag.is_some());
                self.open(Open::List(at, Vec::new()), at)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse(at, anchor != 0, tag.is_some());
                self.open(Open::Map(at, Map::default(), None), at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                Ok(())
            }
            Event::Alias(_) => {
                self.sink.add(at, "", "an alias (*name); aliases are not supported, write the value out");
                self.budget.take(at, self.stack.len() + 1)?;
                self.place(Node { at, value: Content::Broken });
                Ok(())
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn refuse(&mut self, at: Position, anchor: bool, tag: bool) {
        if anchor {
            self.sink.add(
                at,
                "",
                "an anchor (&name); anchors are not supported, write the value out where it is used",
            );
        }
        if tag {
            self.sink.add(at, "", "a tag (!name); tags are not supported, remove it");
        }
    }

    fn scalar(&mut self, at: Position, text: String, style: ScalarStyle) -> Result<(), Stop> {
        self.budget.take(at, self.stack.len() + 1)?;
        let value = if !check_value(at, &text, self.sink) {
            Content::Broken
        } else if style == ScalarStyle::Plain {
            Content::Plain(text)
        } else {
            Content::Quoted(text)
        };
        self.place(Node { at, value });
        Ok(())
    }

    fn open(&mut self, open: Open, at: Position) -> Result<(), Stop> {
        self.stack.push(open);
        self.budget.take(at, self.stack.len())
    }

    fn close(&mut self) {
        match self.stack.pop() {
            Some(Open::List(at, items)) => self.place(Node { at, value: Content::List(items) }),
            Some(Open::Map(at, map, _)) => self.place(Node { at, value: Content::Map(map.list) }),
            None => {}
        }
    }

    /// Puts a finished node where it belongs: into the list, as key or value of the mapping, or as a document.
    fn place(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, map, pending)) => match pending.take() {
                Some((key, key_at)) => add_entry(map, Entry { key, key_at, value: node }, self.sink),
                None => *pending = Some((key_text(&node, self.sink), node.at)),
            },
        }
    }
}

/// The text of a key; a key that is none is reported and gets a name that no field has.
fn key_text(node: &Node, sink: &mut Sink) -> String {
    match &node.value {
        Content::Quoted(text) => return text.clone(),
        Content::Plain(text) if text == "<<" => {
            sink.add(node.at, "", "a merge key (<<); merge keys are not supported, write the fields out");
        }
        Content::Plain(text) if resolve(text) == Resolved::Null => {
            sink.add(node.at, "", "the key is missing")
        }
        Content::Plain(text) => return text.clone(),
        Content::List(_) | Content::Map(_) => {
            sink.add(node.at, "", "a key must be text, not a list or a mapping")
        }
        Content::Broken => {}
    }
    BROKEN_KEY.to_owned()
}

/// Stands for a key that was reported already. No text can hold this character.
pub(crate) const BROKEN_KEY: &str = "\u{0}";
