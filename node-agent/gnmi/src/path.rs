//! Paths into what a switch has: `/interfaces/interface[name=Ethernet0]/state`, before them the origin, as in
//! `sonic-db:/CONFIG_DB/localhost`. Source: OpenConfig, "gNMI Path Encoding Conventions".

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Elements of a path at most.
const ELEMENTS: usize = 64;
/// Bytes of a path as text at most.
const BYTES: usize = 4096;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Elem {
    /// Name of the node; never empty.
    pub name: String,
    /// Names and values of the keys that choose one entry of a list.
    pub keys: BTreeMap<String, String>,
}

/// Where something stands in what a switch has.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Whose names the elements are, such as `sonic-db`; empty for the switch's default.
    pub origin: String,
    /// From the root down.
    pub elems: Vec<Elem>,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// It does not begin with a slash, after the origin where there is one.
    #[error("`{0}` is not a path: it begins with `/`, or with an origin as in `sonic-db:/CONFIG_DB`")]
    NotAbsolute(String),
    /// Between two slashes stands nothing.
    #[error("`{0}` has an element without a name")]
    Empty(String),
    /// A bracket is not closed, or holds no `name=value`.
    #[error("`{0}` has a key that is not `[name=value]`")]
    Key(String),
    /// It is longer than any path of a switch.
    #[error("a path has at most {ELEMENTS} elements and {BYTES} bytes")]
    TooLong,
}

impl Path {
    /// The path with these elements, none of which has keys.
    #[must_use]
    pub fn of(origin: &str, names: &[&str]) -> Self {
        let elem = |name: &&str| Elem { name: (*name).to_owned(), keys: BTreeMap::new() };
        Path { origin: origin.to_owned(), elems: names.iter().map(elem).collect() }
    }

    /// This path with one more element, which has no keys.
    #[must_use]
    pub fn child(mut self, name: impl Into<String>) -> Self {
        self.elems.push(Elem { name: name.into(), keys: BTreeMap::new() });
        self
    }

    /// This path with another one below it.
    #[must_use]
    pub fn join(mut self, below: Path) -> Self {
        if self.origin.is_empty() {
            self.origin = below.origin;
        }
        self.elems.extend(below.elems);
        self
    }

    /// The names of the elements.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.elems.iter().map(|elem| elem.name.as_str())
    }
}

impl FromStr for Path {
    type Err = BadPath;

    /// # Errors
    /// [`BadPath`] says what is wrong.
    fn from_str(text: &str) -> Result<Self, BadPath> {
        if text.len() > BYTES {
            return Err(BadPath::TooLong);
        }
        let (origin, rest) = match text.find('/') {
            Some(0) => ("", &text[1..]),
            Some(slash) if text.as_bytes()[slash - 1] == b':' => (&text[..slash - 1], &text[slash + 1..]),
            _ => return Err(BadPath::NotAbsolute(text.to_owned())),
        };
        let mut path = Path { origin: origin.to_owned(), elems: Vec::new() };
        let mut chars = rest.chars().peekable();
        while chars.peek().is_some() {
            path.elems.push(elem(&mut chars, text)?);
            if path.elems.len() > ELEMENTS {
                return Err(BadPath::TooLong);
            }
        }
        Ok(path)
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// One element and the slash after it.
fn elem(chars: &mut Chars<'_>, text: &str) -> Result<Elem, BadPath> {
    let (name, mut end) = until(chars, &['/', '[']);
    if name.is_empty() {
        return Err(BadPath::Empty(text.to_owned()));
    }
    let mut keys = BTreeMap::new();
    while end == Some('[') {
        let (key, equals) = until(chars, &['=', ']']);
        if key.is_empty() || equals != Some('=') {
            return Err(BadPath::Key(text.to_owned()));
        }
        let (value, closed) = until(chars, &[']']);
        if closed.is_none() || keys.insert(key, value).is_some() {
            return Err(BadPath::Key(text.to_owned()));
        }
        end = chars.next();
        if !matches!(end, None | Some('/' | '[')) {
            return Err(BadPath::Key(text.to_owned()));
        }
    }
    Ok(Elem { name, keys })
}

/// What stands before one of these characters, and which of them it was. A backslash takes the next one as it is.
fn until(chars: &mut Chars<'_>, ends: &[char]) -> (String, Option<char>) {
    let mut found = String::new();
    while let Some(char) = chars.next() {
        if char == '\\' {
            found.extend(chars.next());
        } else if ends.contains(&char) {
            return (found, Some(char));
        } else {
            found.push(char);
        }
    }
    (found, None)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.origin.is_empty() {
            write!(f, "{}:", self.origin)?;
        }
        if self.elems.is_empty() {
            return f.write_str("/");
        }
        for elem in &self.elems {
            f.write_str("/")?;
            escaped(f, &elem.name, &['/', '[', '\\'])?;
            for (key, value) in &elem.keys {
                f.write_str("[")?;
                escaped(f, key, &['=', ']', '\\'])?;
                f.write_str("=")?;
                escaped(f, value, &[']', '\\'])?;
                f.write_str("]")?;
            }
        }
        Ok(())
    }
}

fn escaped(f: &mut fmt::Formatter<'_>, text: &str, special: &[char]) -> fmt::Result {
    for char in text.chars() {
        if special.contains(&char) {
            f.write_str("\\")?;
        }
        write!(f, "{char}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_read_and_written() {
        let text = "openconfig:/interfaces/interface[name=Ethernet1\\/1][unit=0]/state";
        let path: Path = text.parse().unwrap();
        assert_eq!(path.origin, "openconfig");
        assert_eq!(path.elems[1].keys["name"], "Ethernet1/1");
        assert_eq!(path.to_string(), "openconfig:/interfaces/interface[name=Ethernet1/1][unit=0]/state");
        assert_eq!(path.to_string().parse(), Ok(path));
        assert_eq!("/".parse(), Ok(Path::default()));
        assert_eq!(Path::of("sonic-db", &["CONFIG_DB"]).to_string(), "sonic-db:/CONFIG_DB");
    }

    #[test]
    fn what_is_no_path_is_named() {
        for (text, error) in [
            ("interfaces", BadPath::NotAbsolute("interfaces".into())),
            ("", BadPath::NotAbsolute(String::new())),
            ("/a//b", BadPath::Empty("/a//b".into())),
            ("/a[x]", BadPath::Key("/a[x]".into())),
            ("/a[x=1", BadPath::Key("/a[x=1".into())),
            ("/a[x=1]b", BadPath::Key("/a[x=1]b".into())),
            ("/a[x=1][x=2]", BadPath::Key("/a[x=1][x=2]".into())),
        ] {
            assert_eq!(text.parse::<Path>(), Err(error), "{text}");
        }
        assert_eq!("/a".repeat(65).parse::<Path>(), Err(BadPath::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            names in prop::collection::vec(("[ -~é]{1,8}", prop::collection::btree_map("[ -~]{1,4}", "[ -~]{0,6}", 0..3)), 0..6),
        ) {
            let elems = names.into_iter().map(|(name, keys)| Elem { name, keys }).collect();
            let path = Path { origin: String::new(), elems };
            prop_assert_eq!(path.to_string().parse(), Ok(path));
        }

        #[test]
        fn any_text_is_a_path_or_an_error(text in ".{0,64}") {
            let _ = text.parse::<Path>();
        }
    }
}
