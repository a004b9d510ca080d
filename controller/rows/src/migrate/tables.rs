//! Keys of the tables of a version.

/// Whether a key is of one of these tables: those that end with `/` have many keys.
pub(super) fn is_of(tables: &[&str], key: &[u8]) -> bool {
    tables.iter().any(|table| match table.ends_with('/') {
        true => key.starts_with(table.as_bytes()),
        false => key == table.as_bytes(),
    })
}
