//! What namespaces say, remembered for a while: each object of them would ask anew. [pure]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::documents::Namespace;

/// How long a namespace is taken to be as it was.
pub const FRESH: Duration = Duration::from_secs(30);
/// Namespaces that are remembered.
const REMEMBERED: usize = 10_000;

/// Namespaces as they were read last.
#[derive(Debug, Default)]
pub struct Namespaces {
    known: BTreeMap<String, (Instant, Namespace)>,
}

impl Namespaces {
    /// What a namespace says, where that was read not long ago.
    #[must_use]
    pub fn get(&self, name: &str, now: Instant) -> Option<Namespace> {
        let (read, namespace) = self.known.get(name)?;
        (now.saturating_duration_since(*read) < FRESH).then(|| namespace.clone())
    }

    /// Remembers what a namespace says.
    pub fn put(&mut self, name: &str, namespace: Namespace, now: Instant) {
        if self.known.len() >= REMEMBERED {
            self.known.retain(|_, (read, _)| now.saturating_duration_since(*read) < FRESH);
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(name.to_owned(), (now, namespace));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_read_again_after_a_while_and_no_list_grows() {
        let (mut all, begun) = (Namespaces::default(), Instant::now());
        let said = Namespace { tenant: Some("nlp".to_owned()), ..Namespace::default() };
        all.put("ml", said.clone(), begun);
        assert_eq!(all.get("ml", begun + FRESH / 2), Some(said));
        assert_eq!((all.get("ml", begun + FRESH), all.get("other", begun)), (None, None));
        for index in 0..=REMEMBERED {
            all.put(&format!("n{index}"), Namespace::default(), begun + FRESH);
        }
        assert!(all.known.len() <= REMEMBERED);
    }
}
