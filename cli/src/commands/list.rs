//! What list commands have in common: what was asked for, and how it is shown.

use crate::{
    args::{ListArgs, Output},
    error::Error,
    output::print,
    render::{self, Answer, Kind},
};

/// What a list command was asked for.
pub struct Asked<'a> {
    /// How the list is printed.
    pub list: &'a ListArgs,
    /// The names that were given; empty: all.
    pub names: &'a [String],
}

/// What a name stands for.
pub enum Found<T> {
    /// Exactly one thing of that name.
    One(T),
    /// Several, as an array's elements.
    Several(Vec<T>),
}

impl Asked<'_> {
    /// Shows what was named, or all.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Config`] if an item cannot be shown in the format;
    /// [`Error::Output`] if standard output cannot be written to.
    pub async fn show<L: Answer>(
        &self,
        kind: &Kind<'_, L::Item>,
        what: &str,
        one: impl AsyncFn(&str) -> Result<Found<L::Item>, Error>,
        all: impl AsyncFnOnce() -> Result<L, Error>,
    ) -> Result<(), Error> {
        let list = self.list;
        let mut answer = L::default();
        match self.names {
            [] => answer = all().await?,
            [name] => match one(name).await? {
                Found::One(item) => return print(&render::one(list, kind, &item)?),
                Found::Several(found) => answer.items().extend(found),
            },
            names => {
                for name in names {
                    match one(name).await? {
                        Found::One(item) => answer.items().push(item),
                        Found::Several(found) => answer.items().extend(found),
                    }
                }
            }
        }
        if answer.items().is_empty() && list.for_people() {
            eprintln!("no {what}");
        }
        print(&render::list(list, kind, &mut answer)?)
    }
}

/// An empty table says nothing; for a person a sentence does.
pub fn nothing(empty: bool, output: Output, what: &str) {
    if empty && matches!(output, Output::Table | Output::Wide) {
        eprintln!("no {what}");
    }
}
