//! What was probably meant, and refusals of fields.

use crate::error::refusal::CoreError;

/// The refusal of one field, as the result of whatever was to be checked.
///
/// # Errors
/// Always [`CoreError::Invalid`].
pub fn invalid<T>(field: &'static str, message: impl Into<String>) -> Result<T, CoreError> {
    Err(CoreError::Invalid { field, message: message.into() })
}

/// The name among these that is written most like the one that is missing.
pub fn nearest<'a, N: AsRef<str> + Clone + 'a>(name: &str, known: impl Iterator<Item = &'a N>) -> Option<N> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other.as_ref()), other))
        .filter(|(distance, _)| *distance <= 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other.clone())
}
