//! Which field of a JSON text a place in it is in: for refusals of what cannot be read at all.

/// What is open at a place.
enum Open {
    /// An object, with the key that was read last.
    Object(String),
    /// A list, with how many of its items are before.
    List(usize),
}

/// The path of the field at a line and a column (from 1, in characters), for example `spec.command.argv[2]`; empty outside of any.
#[must_use]
pub fn field_at(text: &str, line: usize, column: usize) -> String {
    let mut open: Vec<Open> = Vec::new();
    // A string is a key until a value is expected.
    let (mut word, mut value, mut escaped) = (None::<String>, false, false);
    for (at, one) in text.lines().enumerate().take_while(|(at, _)| *at < line) {
        for (column_at, c) in one.chars().enumerate() {
            if at + 1 == line && column_at + 1 >= column {
                return path(&open);
            }
            match (word.as_mut(), c) {
                (Some(_), _) if escaped => escaped = false,
                (Some(_), '\\') => escaped = true,
                (Some(read), '"') => {
                    let read = std::mem::take(read);
                    word = None;
                    if let (false, Some(Open::Object(key))) = (value, open.last_mut()) {
                        *key = read;
                    }
                }
                (Some(read), c) => read.push(c),
                (None, '"') => word = Some(String::new()),
                (None, ':') => value = true,
                (None, '{') => {
                    open.push(Open::Object(String::new()));
                    value = false;
                }
                (None, '[') => {
                    open.push(Open::List(0));
                    value = true;
                }
                (None, '}' | ']') => {
                    open.pop();
                    value = true;
                }
                (None, ',') => match open.last_mut() {
                    Some(Open::List(items)) => *items += 1,
                    Some(Open::Object(_)) => value = false,
                    None => {}
                },
                (None, _) => {}
            }
        }
    }
    path(&open)
}

fn path(open: &[Open]) -> String {
    let mut path = String::new();
    for one in open {
        match one {
            Open::Object(key) if path.is_empty() => path.push_str(key),
            Open::Object(key) if !key.is_empty() => {
                path.push('.');
                path.push_str(key);
            }
            Open::Object(_) => {}
            Open::List(items) => path.push_str(&format!("[{items}]")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::field_at;

    #[test]
    fn a_place_is_in_a_field() {
        let text = "{\"metadata\": {\"name\": \"a\"},\n \"spec\": {\"command\": {\"argv\": [\"sh\", \"-\u{1}c\"]}}, \"x\": \"\\\"{\"}";
        let at = |needle: &str| {
            let start = text.find(needle).unwrap();
            let line = text[..start].matches('\n').count() + 1;
            let column = text[..start].chars().rev().take_while(|c| *c != '\n').count() + 1;
            field_at(text, line, column)
        };
        assert_eq!(at("a\"}"), "metadata.name");
        assert_eq!(at("\u{1}c"), "spec.command.argv[1]");
        assert_eq!(at("\\\"{"), "x");
        assert_eq!(
            (field_at(text, 1, 1), field_at("", 1, 1), field_at("[[", 9, 9)),
            (String::new(), String::new(), "[0][0]".into())
        );
    }
}
