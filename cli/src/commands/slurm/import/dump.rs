//! The file that `sacctmgr dump CLUSTER` writes: lines of `KIND - 'NAME':KEY='VALUE':...`.

use super::{
    known::{self, Section},
    ledger::{Position, Token},
};

/// Lines at most.
const MAX_LINES: usize = 2_000_000;

/// A line of the dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Kind and name, as `Account=physics`; the kind is one of [`KINDS`].
    pub head: Token,
    /// What is said of it, in its order.
    pub settings: Vec<Token>,
}

/// Kinds of lines.
pub const KINDS: [&str; 4] = ["Cluster", "Parent", "Account", "User"];

/// All lines but comments.
///
/// # Errors
/// All that cannot be read, each with its place.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<Record>, Vec<String>> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(vec![format!("{file}:1:1: is not UTF-8 text")]);
    };
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        if number > MAX_LINES {
            errors.push(format!("{file}:{number}:1: there are more than {MAX_LINES} lines"));
            break;
        }
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match record(file, number, line) {
            Ok(record) => records.push(record),
            Err((column, why)) => errors.push(format!("{file}:{number}:{column}: {why}")),
        }
    }
    if errors.is_empty() { Ok(records) } else { Err(errors) }
}

fn record(file: &str, line: usize, text: &str) -> Result<Record, (usize, String)> {
    let place = |column| Position { file: file.to_owned(), line, column };
    let (kind, rest) =
        text.split_once('-').ok_or((1, "is no line such as Account - 'physics':Fairshare=10".to_owned()))?;
    let written = kind.trim();
    // As sacctmgr has it: an account is also called a project, a cluster a machine.
    let plain = match written.to_ascii_lowercase().as_str() {
        "machine" => "Cluster".to_owned(),
        "project" => "Account".to_owned(),
        _ => written.to_owned(),
    };
    let Some(kind) = KINDS.iter().find(|known| known.eq_ignore_ascii_case(&plain)) else {
        let nearest = KINDS.iter().min_by_key(|known| {
            strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &plain.to_ascii_lowercase())
        });
        return Err((
            1,
            format!("`{written}` begins no line of a dump; did you mean {}?", nearest.unwrap_or(&"Account")),
        ));
    };
    let mut column = text.chars().count() - rest.chars().count() + 1;
    let (mut head, mut settings): (Option<Token>, Vec<Token>) = (None, Vec::new());
    // Whether the value before stands in quotation marks, so that it ends there.
    let mut is_whole = true;
    for part in parts(rest).map_err(|at| (column + at, "a quotation mark is not closed".to_owned()))? {
        let indent = part.chars().take_while(|c| c.is_whitespace()).count();
        let at = place(column + indent);
        column += part.chars().count() + 1;
        let part = part.trim();
        if head.is_none() {
            head = Some(Token { name: (*kind).to_owned(), value: unquoted(part), place: place(1) });
        } else if let Some(last) = settings.last_mut().filter(|last| !is_whole && goes_on(last, part)) {
            last.value.push(':');
            last.value.push_str(part);
        } else if let Some((name, value)) = part.split_once('=') {
            is_whole = value.trim_end().ends_with(['\'', '"']);
            settings.push(Token { name: name.trim().to_owned(), value: unquoted(value), place: at });
        } else if !part.is_empty() {
            return Err((at.column, format!("`{part}` is no KEY=VALUE")));
        }
    }
    let head = head
        .filter(|head| !head.value.is_empty())
        .ok_or((1, format!("names no {}", kind.to_ascii_lowercase())))?;
    Ok(Record { head, settings })
}

/// Whether a part is the rest of a value with a colon in it, as in `GrpTRES=gres/gpu:h100=8`.
fn goes_on(last: &Token, part: &str) -> bool {
    let Some((name, _)) = part.split_once('=') else { return !part.is_empty() };
    let resource = last.value.rsplit([',', '=']).next().unwrap_or_default();
    resource.contains('/') && known::find(Section::Accounts, name.trim()).is_none()
}

/// The text at colons outside quotation marks; an error is where one begins that is not closed.
fn parts(text: &str) -> Result<Vec<&str>, usize> {
    let (mut found, mut start, mut open) = (Vec::new(), 0, None);
    for (index, (at, character)) in text.char_indices().enumerate() {
        match (character, open) {
            ('\'' | '"', None) => open = Some((character, index)),
            (_, Some((mark, _))) if character == mark => open = None,
            (':', None) => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some((_, index)) = open {
        return Err(index);
    }
    found.push(&text[start..]);
    Ok(found)
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['\'', '"']).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_read_with_their_places() {
        let text = "# To edit this file\nCluster - 'alpha':Fairshare=1:QOS='normal'\nParent - 'root'\nUser - 'root':AdminLevel='Administrator'\nAccount - 'a:b':Description='it\"s: here':GrpTRES=cpu=4,gres/gpu=8\n";
        let records = read("d", text.as_bytes()).unwrap();
        assert_eq!(records.len(), 4);
        assert_eq!(
            records[0].settings[1],
            Token {
                name: "QOS".into(),
                value: "normal".into(),
                place: Position { file: "d".into(), line: 2, column: 31 }
            }
        );
        assert_eq!((records[3].head.name.as_str(), records[3].head.value.as_str()), ("Account", "a:b"));
        assert_eq!(records[3].settings[0].value, "it\"s: here");
        assert_eq!(records[3].settings[1].value, "cpu=4,gres/gpu=8");
    }

    #[test]
    fn a_colon_within_a_resource_ends_no_value() {
        let text = "Account - 'a':Fairshare=1:GrpTRES=cpu=4,gres/gpu:h100=8,gres/gpu:a100=4:MaxJobs=2:NewKey=3\n\
                    User - 'b':GrpTRES=gres/gpu:MaxJobs=2\nUser - 'c':DefaultAccount='x/y':NewKey='3'\n";
        let records = read("d", text.as_bytes()).unwrap();
        let said = |at: usize| {
            let tokens = records[at].settings.iter();
            tokens.map(|token| format!("{}={}", token.name, token.value)).collect::<Vec<_>>()
        };
        assert_eq!(
            said(0),
            ["Fairshare=1", "GrpTRES=cpu=4,gres/gpu:h100=8,gres/gpu:a100=4", "MaxJobs=2", "NewKey=3"]
        );
        assert_eq!(said(1), ["GrpTRES=gres/gpu", "MaxJobs=2"]);
        assert_eq!(said(2), ["DefaultAccount=x/y", "NewKey=3"]);
        assert_eq!(records[0].settings[2].place.column, 73);
    }

    #[test]
    fn what_cannot_be_read_is_said_all_at_once_with_its_place() {
        let errors =
            read("d", b"Acount - 'x'\nnothing\nUser - 'a\nUser - 'a':Fair\nUser - ''\n").unwrap_err();
        assert_eq!(
            errors,
            [
                "d:1:1: `Acount` begins no line of a dump; did you mean Account?",
                "d:2:1: is no line such as Account - 'physics':Fairshare=10",
                "d:3:8: a quotation mark is not closed",
                "d:4:12: `Fair` is no KEY=VALUE",
                "d:5:1: names no user",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((User|Account|Parent) - |[a-z'\":=, \n-]|\\PC){0,80}") {
            if let Ok(records) = read("d", text.as_bytes()) {
                prop_assert!(records.iter().all(|record| !record.head.value.is_empty()));
            }
        }
    }
}
