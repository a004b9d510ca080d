//! A kind and a name as one word: `job/sum`, as well as `job sum`.

use std::{ffi::OsStr, marker::PhantomData};

use clap::{
    Arg, Command, ValueEnum,
    builder::{EnumValueParser, PossibleValue, StringValueParser, TypedValueParser},
};

use crate::error::Error;

/// A kind, and perhaps a name with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noun<K> {
    /// The kind.
    pub kind: K,
    /// What follows the slash.
    pub name: Option<String>,
    /// No kind was said: it is a name alone, of what is meant most often.
    pub bare: bool,
}

/// Reads KIND or KIND/NAME.
#[derive(Debug)]
pub struct NounParser<K> {
    kinds: PhantomData<fn() -> K>,
    /// What a name alone is of, where it may stand alone.
    usual: Option<K>,
}

impl<K> NounParser<K> {
    /// For kinds of this type.
    pub const fn new() -> Self {
        Self { kinds: PhantomData, usual: None }
    }

    /// The same where a name alone is one of this kind.
    pub const fn or_name_of(usual: K) -> Self {
        Self { kinds: PhantomData, usual: Some(usual) }
    }
}

impl<K: Clone> Clone for NounParser<K> {
    fn clone(&self) -> Self {
        Self { kinds: PhantomData, usual: self.usual.clone() }
    }
}

impl<K: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for NounParser<K> {
    type Value = Noun<K>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Noun<K>, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        let (kind, name) =
            text.split_once('/').map_or((text.as_str(), None), |(kind, name)| (kind, Some(name)));
        let parser = EnumValueParser::<K>::new();
        let found = parser.parse_ref(command, arg, OsStr::new(kind));
        match (found, &self.usual) {
            (Err(_), Some(usual)) if !text.is_empty() => {
                Ok(Noun { kind: usual.clone(), name: Some(text), bare: true })
            }
            (found, _) => {
                let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
                // What is no kind is told as it was written.
                let kind = found.or_else(|_| parser.parse_ref(command, arg, value))?;
                Ok(Noun { kind, name, bare: false })
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(K::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

impl<K: ValueEnum + PartialEq> Noun<K> {
    /// All names that were given, with the kind or after it. Those after it may repeat the kind: `job/a job/b`.
    ///
    /// # Errors
    /// A name says another kind.
    pub fn names(&self, more: &[String]) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = self.name.iter().cloned().collect();
        for name in more {
            let word =
                name.split_once('/').and_then(|(kind, name)| Some((K::from_str(kind, false).ok()?, name)));
            match word {
                Some((kind, name)) if kind == self.kind => names.push(name.to_owned()),
                // With a name of its own kind only: a tenant may have the name of a kind.
                Some(_) if self.name.is_some() => {
                    return Err(Error::Usage(format!(
                        "`{name}` is of another kind; name one kind at a time"
                    )));
                }
                _ => names.push(name.clone()),
            }
        }
        Ok(names)
    }
}

impl<K: ValueEnum> Noun<K> {
    /// That no name was given.
    #[must_use]
    pub fn which(&self) -> Error {
        let value = self.kind.to_possible_value();
        let kind = value.as_ref().map_or("KIND", |value| value.get_name());
        Error::Usage(format!("which {kind}? write {kind} NAME, or {kind}/NAME; see --help"))
    }
}

/// Names of jobs, before which the word `job` may stand.
#[must_use]
pub fn jobs(words: &[String]) -> &[String] {
    match words {
        [first, rest @ ..] if !rest.is_empty() && matches!(first.as_str(), "job" | "jobs") => rest,
        all => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::GetNoun;

    fn parse(text: &str) -> Result<Noun<GetNoun>, clap::Error> {
        NounParser::<GetNoun>::new().parse_ref(&Command::new("x"), None, OsStr::new(text))
    }

    #[test]
    fn a_kind_and_a_name_are_one_word_or_two() {
        let noun = parse("job/nlp/sum").unwrap();
        assert_eq!(noun, Noun { kind: GetNoun::Jobs, name: Some("nlp/sum".into()), bare: false });
        let more = ["job/b".to_owned(), "c".to_owned(), "nlp/d".to_owned()];
        assert_eq!(noun.names(&more).unwrap(), ["nlp/sum", "b", "c", "nlp/d"]);
        assert!(noun.names(&["node/b".to_owned()]).unwrap_err().to_string().contains("another kind"));
        let plain = parse("nodes").unwrap();
        assert_eq!((plain.kind, plain.name.clone()), (GetNoun::Nodes, None));
        assert_eq!(plain.names(&["n0".to_owned()]).unwrap(), ["n0"]);
        assert!(parse("jbo/sum").is_err() && parse("").is_err());
        let wrong = parse("../../etc/passwd").unwrap_err().to_string();
        assert!(wrong.contains("../../etc/passwd"), "{wrong}");
        assert_eq!(
            parse("job").unwrap().which().to_string(),
            "which jobs? write jobs NAME, or jobs/NAME; see --help"
        );
    }

    #[test]
    fn a_name_alone_is_a_job_where_it_may_stand_alone() {
        let parser = NounParser::or_name_of(GetNoun::Jobs);
        let parse = |text: &str| parser.parse_ref(&Command::new("x"), None, OsStr::new(text)).unwrap();
        let named = |name: &str| Noun { kind: GetNoun::Jobs, name: Some(name.into()), bare: true };
        assert_eq!((parse("sum"), parse("nlp/sum")), (named("sum"), named("nlp/sum")));
        assert_eq!(parse("node/n0"), Noun { kind: GetNoun::Nodes, name: Some("n0".into()), bare: false });
    }

    #[test]
    fn the_word_job_may_stand_before_jobs() {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(jobs(&words(&["job", "a", "b"])), ["a", "b"]);
        assert_eq!(jobs(&words(&["a", "job"])), ["a", "job"]);
        assert_eq!(jobs(&words(&["job"])), ["job"], "a job may have that name");
    }
}
