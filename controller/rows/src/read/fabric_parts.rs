//! Fields that things of a fabric share, and lists of them.

use proto_model::Names;

use proto_model::fields::Fields;

/// Rails of a fabric at most.
pub(crate) const MAX_RAILS: u32 = 64;

/// A list of names, of which there must be one.
pub(crate) fn names(fields: &mut Fields, field: &str, text: &str) -> Names {
    if text.is_empty() {
        fields.fail(field, "is required");
    }
    fields.take(field, Names::new(text)).unwrap_or_default()
}

/// The rails of a switch, ascending: the first, and the others. `rail` alone is one; beside a list it is one of it.
pub(crate) fn rails(fields: &mut Fields, field: &str, rail: u32, list: &[u32]) -> (u32, Vec<u32>) {
    let mut all = list.to_vec();
    all.sort_unstable();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        fields.fail(field, format!("lists rail {} twice", pair[0]));
    }
    if let Some(large) = all.iter().find(|rail| **rail >= MAX_RAILS) {
        fields.fail(field, format!("{large} is too large; rails are numbered from 0 to {}", MAX_RAILS - 1));
    }
    if rail > 0 && !all.is_empty() && !all.contains(&rail) {
        fields.fail(field, format!("does not list rail {rail}, which `rail` says; either one is enough"));
    }
    if all.is_empty() { (rail, all) } else { (all.remove(0), all) }
}

/// NICs have at most two ports.
pub(crate) fn plane(fields: &mut Fields, field: &str, plane: u32) {
    if plane > 1 {
        fields.fail(field, format!("{plane} is too large; a NIC has at most two ports, on planes 0 and 1"));
    }
}

/// Switch, port and pod names come from vendors: any printable text of up to 128 bytes will do.
pub(crate) fn label(fields: &mut Fields, field: &str, text: &str) {
    if text.is_empty() {
        fields.fail(field, "is required");
    } else if text.len() > 128 || text.chars().any(char::is_control) {
        fields.fail(field, "must be printable and at most 128 bytes long");
    }
}
