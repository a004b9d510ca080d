//! Names of switches and the rails that they are on.

use std::{collections::BTreeMap, fmt, str::FromStr};

use super::error::{RAILS_MOST, RailRuleError};

/// Stars of one pattern at most.
const STARS_MOST: usize = 4;

/// Which switch is on which rail, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switches {
    /// Names with a number where `{k}` stands; `*` stands for anything.
    Pattern(String),
    /// The rail that each switch serves, by the switch's name.
    Map(BTreeMap<String, u32>),
}

impl Switches {
    /// The rail of a switch.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        match self {
            Self::Map(map) => map.get(name).copied(),
            Self::Pattern(pattern) => {
                let (before, after) = pattern.split_once("{k}")?;
                runs(name).find_map(|(start, end)| {
                    let fits = glob(before, &name[..start]) && glob(after, &name[end..]);
                    fits.then(|| name[start..end].parse().ok()).flatten().filter(|rail| *rail < RAILS_MOST)
                })
            }
        }
    }
}

/// Where the whole numbers in a text begin and end, from the left.
fn runs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..text.len()).filter(move |at| digit(*at) && (*at == 0 || !digit(at - 1)));
    starts.map(move |start| (start, (start..text.len()).find(|at| !digit(*at)).unwrap_or(text.len())))
}

/// Whether a text is what a pattern with stars says, byte by byte.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        // The first place where it fits leaves the most for what follows.
        let Some((_, after)) = text.split_once(part) else { return false };
        text = after;
    }
    true
}

impl FromStr for Switches {
    type Err = RailRuleError;

    /// Reads a pattern (`leaf*-r{k}`) or a list of switches with their rails (`leaf-a=0,leaf-b=1`).
    fn from_str(text: &str) -> Result<Self, RailRuleError> {
        let wrong = |part: &str| RailRuleError::Switch(part.to_owned());
        if text.contains("{k}") {
            let right = text.matches("{k}").count() == 1 && text.matches('*').count() <= STARS_MOST;
            return if right { Ok(Self::Pattern(text.to_owned())) } else { Err(wrong(text)) };
        }
        let entry = |entry: &str| {
            let (name, rail) = entry.rsplit_once('=').ok_or_else(|| wrong(entry))?;
            let rail = rail.parse().ok().filter(|rail| *rail < RAILS_MOST && !name.is_empty());
            Ok((name.to_owned(), rail.ok_or_else(|| wrong(entry))?))
        };
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self::Map)
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => f.write_str(pattern),
            Self::Map(map) => {
                let entries: Vec<String> = map.iter().map(|(name, rail)| format!("{name}={rail}")).collect();
                f.write_str(&entries.join(","))
            }
        }
    }
}
