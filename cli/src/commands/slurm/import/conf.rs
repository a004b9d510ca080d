//! `slurm.conf` as text: logical lines of `NAME=VALUE`, with comments, quotes, lines that go on, and files that are included.

use super::ledger::{Position, Token};

/// Files that are read at most, included ones too.
const MAX_FILES: usize = 256;
/// Files within files at most.
const MAX_DEPTH: usize = 8;
/// Settings of all files at most.
const MAX_TOKENS: usize = 1_000_000;
/// Characters of a line that goes on at most.
const MAX_LINE: usize = 1 << 20;

/// What gives the text of a file that is included, by the name that the line has.
pub type Open<'a> = &'a mut dyn FnMut(&str) -> Result<(String, Vec<u8>), String>;

/// The lines of a configuration, each with its settings in their order. A file that is included stands where it is included, behind a line
/// that has `Include` alone.
///
/// # Errors
/// All that cannot be read, each with its place.
pub fn read(file: &str, text: &[u8], open: Open<'_>) -> Result<Vec<Vec<Token>>, Vec<String>> {
    let mut reader =
        Reader { lines: Vec::new(), errors: Vec::new(), open, files: 0, tokens: 0, cluster: String::new() };
    reader.file(file, text, 0);
    if reader.errors.is_empty() { Ok(reader.lines) } else { Err(reader.errors) }
}

struct Reader<'a> {
    lines: Vec<Vec<Token>>,
    errors: Vec<String>,
    open: Open<'a>,
    files: usize,
    tokens: usize,
    /// What `%c` in the name of an included file stands for.
    cluster: String,
}

/// A character and where it stands.
#[derive(Clone, Copy)]
struct At {
    character: char,
    line: usize,
    column: usize,
}

impl Reader<'_> {
    fn file(&mut self, file: &str, text: &[u8], depth: usize) {
        let Ok(text) = std::str::from_utf8(text) else {
            self.errors.push(format!("{file}:1:1: is not UTF-8 text"));
            return;
        };
        self.files += 1;
        if self.files > MAX_FILES {
            self.errors.push(format!("{file}:1:1: is one file too many; {MAX_FILES} are read at most"));
            return;
        }
        let mut line = Vec::new();
        for (number, raw) in (1..).zip(text.lines()) {
            let goes_on = gather(raw, number, &mut line);
            if line.len() > MAX_LINE {
                self.errors
                    .push(format!("{file}:{number}:1: the line goes on for more than {MAX_LINE} characters"));
                return;
            }
            if !goes_on {
                self.line(file, &line, depth);
                line.clear();
            }
            if self.tokens > MAX_TOKENS {
                self.errors.push(format!("{file}:{number}:1: there are more than {MAX_TOKENS} settings"));
                return;
            }
        }
        self.line(file, &line, depth);
    }

    fn line(&mut self, file: &str, line: &[At], depth: usize) {
        if let Some((name, at)) = included(line) {
            let token = Token { name: "Include".to_owned(), value: name.clone(), place: place(file, at) };
            self.include(token, &name, depth);
            return;
        }
        match tokens(file, line) {
            Ok(tokens) if tokens.is_empty() => {}
            Ok(tokens) => {
                self.tokens += tokens.len();
                let cluster = tokens.iter().find(|token| token.name.eq_ignore_ascii_case("ClusterName"));
                if let Some(token) = cluster {
                    self.cluster.clone_from(&token.value);
                }
                self.lines.push(tokens);
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn include(&mut self, token: Token, name: &str, depth: usize) {
        let at = token.place.clone();
        self.tokens += 1;
        self.lines.push(vec![token]);
        if depth >= MAX_DEPTH {
            self.errors.push(format!(
                "{at}: Include: more than {MAX_DEPTH} files are within each other; does one include itself?"
            ));
            return;
        }
        match (self.open)(&name.replace("%c", &self.cluster)) {
            Ok((shown, text)) => self.file(&shown, &text, depth + 1),
            Err(why) => self.errors.push(format!("{at}: Include: {why}")),
        }
    }
}

fn place(file: &str, at: At) -> Position {
    Position { file: file.to_owned(), line: at.line, column: at.column }
}

/// Adds a line of the file to the logical one, without its comment; whether that goes on.
fn gather(raw: &str, number: usize, line: &mut Vec<At>) -> bool {
    let mut characters = (1..).zip(raw.chars()).peekable();
    while let Some((column, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        match (character, next) {
            ('#', _) => return false,
            ('\\', None) => {
                line.push(At { character: ' ', line: number, column });
                return true;
            }
            ('\\', Some('#')) => {
                characters.next();
                line.push(At { character: '#', line: number, column });
            }
            _ => line.push(At { character, line: number, column }),
        }
    }
    false
}

/// The file of `Include FILE`, if it is such a line.
fn included(line: &[At]) -> Option<(String, At)> {
    let start = line.iter().position(|at| !at.character.is_whitespace())?;
    let text: String = line.get(start..)?.iter().map(|at| at.character).collect();
    let (word, rest) = text.split_once(char::is_whitespace)?;
    let name = rest.trim();
    let is_include = word.eq_ignore_ascii_case("include") && !name.starts_with('=') && !name.is_empty();
    is_include.then(|| (name.to_owned(), line[start]))
}

/// `NAME=VALUE`, `NAME = "VALUE WITH SPACES"`, several in a line.
fn tokens(file: &str, line: &[At]) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        let Some(start) = rest.iter().position(|at| !at.character.is_whitespace()) else { return Ok(found) };
        rest = &rest[start..];
        let first = rest[0];
        let end = rest.iter().position(|at| !is_name(at.character)).unwrap_or(rest.len());
        let name: String = rest[..end].iter().map(|at| at.character).collect();
        let wrong = |why: &str| Err(format!("{}: {why}", place(file, first)));
        let behind = skip(&rest[end..]);
        // `+=` and its like add to a value.
        let operator = behind.first().map(|at| at.character).filter(|c| "+-*/".contains(*c));
        let behind = if operator.is_some() { &behind[1..] } else { behind };
        if name.is_empty() || behind.first().is_none_or(|at| at.character != '=') {
            let word: String =
                rest.iter().map(|at| at.character).take_while(|c| !c.is_whitespace()).take(40).collect();
            return wrong(&format!("`{word}` is no NAME=VALUE"));
        }
        let behind = skip(&behind[1..]);
        let (value, after) = if behind.first().is_some_and(|at| at.character == '"') {
            let Some(length) = behind[1..].iter().position(|at| at.character == '"') else {
                return wrong(&format!("{name}: a quotation mark is not closed"));
            };
            (&behind[1..=length], &behind[length + 2..])
        } else {
            let length = behind.iter().position(|at| at.character.is_whitespace()).unwrap_or(behind.len());
            behind.split_at(length)
        };
        let value: String = value.iter().map(|at| at.character).collect();
        found.push(Token { name, value, place: place(file, first) });
        rest = after;
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.')
}

fn skip(rest: &[At]) -> &[At] {
    let start = rest.iter().position(|at| !at.character.is_whitespace()).unwrap_or(rest.len());
    &rest[start..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn none(name: &str) -> Result<(String, Vec<u8>), String> {
        Err(format!("there is no {name}"))
    }

    fn shown(lines: &[Vec<Token>]) -> Vec<String> {
        let one = |token: &Token| format!("{} {}={}", token.place, token.name, token.value);
        lines.iter().map(|line| line.iter().map(one).collect::<Vec<_>>().join(" | ")).collect()
    }

    #[test]
    fn lines_are_read_with_their_places() {
        let text = "# all\nClusterName=alpha # one\n\nNodeName=n[0-3] \\\n   CPUs=8 Gres = gpu:4\nPrologFlags=\"a b\" X=c\\#d Y=e,f\n";
        let lines = read("s.conf", text.as_bytes(), &mut none).unwrap();
        assert_eq!(
            shown(&lines),
            [
                "s.conf:2:1 ClusterName=alpha",
                "s.conf:4:1 NodeName=n[0-3] | s.conf:5:4 CPUs=8 | s.conf:5:11 Gres=gpu:4",
                "s.conf:6:1 PrologFlags=a b | s.conf:6:19 X=c#d | s.conf:6:26 Y=e,f",
            ]
        );
    }

    #[test]
    fn files_within_files_stand_where_they_are_included() {
        let mut open = |name: &str| match name {
            "alpha.conf" => Ok(("/etc/alpha.conf".to_owned(), b"PartitionName=p Nodes=ALL\n".to_vec())),
            "self" => Ok(("self".to_owned(), b"include self\n".to_vec())),
            other => none(other),
        };
        let lines = read("s", b"ClusterName=alpha\n  Include %c.conf\nA=1", &mut open).unwrap();
        assert_eq!(
            shown(&lines)[1..],
            [
                "s:2:3 Include=%c.conf",
                "/etc/alpha.conf:1:1 PartitionName=p | /etc/alpha.conf:1:17 Nodes=ALL",
                "s:3:1 A=1"
            ]
        );
        assert!(read("s", b"Include self", &mut open).unwrap_err()[0].contains("does one include itself?"));
        assert_eq!(
            read("s", b"\nInclude x.conf", &mut open).unwrap_err(),
            ["s:2:1: Include: there is no x.conf"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_said_all_at_once_with_its_place() {
        let errors = read("s", b"A=1 junk\n =3\nB=\"x\n\xc3\xa9=1\n", &mut none).unwrap_err();
        assert_eq!(
            errors,
            [
                "s:1:5: `junk` is no NAME=VALUE",
                "s:2:2: `=3` is no NAME=VALUE",
                "s:3:1: B: a quotation mark is not closed"
            ]
        );
        assert_eq!(read("s", b"\xff", &mut none).unwrap_err(), ["s:1:1: is not UTF-8 text"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([A-Za-z=\"#\\\\\\[\\] \n,0-9-]|\\PC){0,200}") {
            if let Ok(lines) = read("s", text.as_bytes(), &mut none) {
                for token in lines.iter().flatten() {
                    prop_assert!(!token.name.is_empty() && token.place.line >= 1 && token.place.column >= 1);
                }
            }
        }
    }
}
