//! Strict JSON (RFC 8259) to the same located tree.

use crate::finding::{Position, Sink};
use crate::tree::{Budget, Content, Entry, Map, Node, Stop, add_entry, check_value};

/// Reads one JSON value and nothing else.
pub(crate) fn read(text: &str, sink: &mut Sink) -> Result<Node, Stop> {
    let mut reader = Reader { rest: text, at: Position::START, budget: Budget::default(), sink };
    reader.space();
    let node = reader.value(1)?;
    reader.space();
    match reader.peek() {
        None => Ok(node),
        Some(c) => {
            Err(reader.stop(format!("{c:?} after the end of the JSON value; a JSON file holds one document")))
        }
    }
}

struct Reader<'t, 's> {
    rest: &'t str,
    at: Position,
    budget: Budget,
    sink: &'s mut Sink,
}

impl Reader<'_, '_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        if c == '\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    fn stop(&self, what: impl Into<String>) -> Stop {
        Stop(self.at, what.into())
    }

    fn unexpected(&self, expected: &str) -> Stop {
        match self.peek() {
            None => self.stop(format!("the text ends here; expected {expected}")),
            Some(c) => self.stop(format!("found {c:?}; expected {expected}")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Stop> {
        let at = self.at;
        self.budget.take(at, depth)?;
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => {
                let text = self.string()?;
                if check_value(at, &text, self.sink) { Content::Quoted(text) } else { Content::Broken }
            }
            Some('-' | '0'..='9') => Content::Plain(self.number()?),
            Some('a'..='z' | 'A'..='Z' | '\'' | '+' | '.') => Content::Plain(self.word()?),
            _ => return Err(self.unexpected("a JSON value")),
        };
        Ok(Node { at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Content, Stop> {
        let mut map = Map::default();
        self.next();
        self.space();
        if self.peek() == Some('}') {
            self.next();
            return Ok(Content::Map(map.list));
        }
        loop {
            let key_at = self.at;
            if self.peek() != Some('"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            let key =
                if check_value(key_at, &key, self.sink) { key } else { crate::yaml::BROKEN_KEY.to_owned() };
            self.space();
            if self.peek() != Some(':') {
                return Err(self.unexpected("':' after the key"));
            }
            self.next();
            self.space();
            let value = self.value(depth + 1)?;
            add_entry(&mut map, Entry { key, key_at, value }, self.sink);
            if !self.goes_on('}')? {
                return Ok(Content::Map(map.list));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Content, Stop> {
        let mut items = Vec::new();
        self.next();
        self.space();
        if self.peek() == Some(']') {
            self.next();
            return Ok(Content::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.goes_on(']')? {
                return Ok(Content::List(items));
            }
        }
    }

    /// After an item: a comma and another one (true), or the end (false).
    fn goes_on(&mut self, end: char) -> Result<bool, Stop> {
        self.space();
        let more = match self.peek() {
            Some(',') => true,
            Some(c) if c == end => false,
            _ => return Err(self.unexpected(&format!("',' or '{end}'"))),
        };
        self.next();
        self.space();
        if more && self.peek() == Some(end) {
            return Err(self.stop(format!("a comma before '{end}'; JSON has no trailing comma")));
        }
        Ok(more)
    }

    fn word(&mut self) -> Result<String, Stop> {
        let length = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let word = self.rest[..length].to_owned();
        if !matches!(word.as_str(), "true" | "false" | "null") {
            return Err(self.stop("not a JSON value; text stands in double quotes"));
        }
        for _ in 0..length {
            self.next();
        }
        Ok(word)
    }

    fn digits(&mut self, out: &mut String) -> Result<(), Stop> {
        let before = out.len();
        while let Some(c @ '0'..='9') = self.peek() {
            out.push(c);
            self.next();
        }
        if out.len() == before { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<String, Stop> {
        let mut out = String::new();
        if self.peek() == Some('-') {
            out.extend(self.next());
        }
        let start = out.len();
        self.digits(&mut out)?;
        if out[start..].len() > 1 && out[start..].starts_with('0') {
            return Err(self.stop("a number with a leading zero"));
        }
        if self.peek() == Some('.') {
            out.extend(self.next());
            self.digits(&mut out)?;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            out.extend(self.next());
            if matches!(self.peek(), Some('+' | '-')) {
                out.extend(self.next());
            }
            self.digits(&mut out)?;
        }
        Ok(out)
    }

    fn string(&mut self) -> Result<String, Stop> {
        let mut out = String::new();
        self.next();
        loop {
            match self.peek() {
                None => return Err(self.unexpected("'\"'")),
                Some('\n' | '\r' | '\t') => {
                    return Err(self.stop("a line break or tab inside a string; write \\n or \\t"));
                }
                Some('"') => {
                    self.next();
                    return Ok(out);
                }
                Some('\\') => {
                    self.next();
                    out.push(self.escape()?);
                }
                Some(c) => {
                    out.push(c);
                    self.next();
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let c = match self.peek() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                self.next();
                return self.unicode();
            }
            _ => return Err(self.unexpected("one of \" \\ / b f n r t u after '\\'")),
        };
        self.next();
        Ok(c)
    }

    /// `\uXXXX`, or two of them for a character beyond U+FFFF.
    fn unicode(&mut self) -> Result<char, Stop> {
        let first = self.hex4()?;
        let code = if (0xD800..0xDC00).contains(&first) && self.rest.starts_with("\\u") {
            self.next();
            self.next();
            let second = self.hex4()?;
            if !(0xDC00..0xE000).contains(&second) {
                return Err(self.stop("half of a surrogate pair"));
            }
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.stop("half of a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, Stop> {
        let mut code = 0;
        for _ in 0..4 {
            let digit =
                self.peek().and_then(|c| c.to_digit(16)).ok_or_else(|| self.unexpected("a hex digit"))?;
            code = code * 16 + digit;
            self.next();
        }
        Ok(code)
    }
}
