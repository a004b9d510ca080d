//! Values as Slurm writes them: times, numbers, lists of resources, and names that become ours.

use std::collections::BTreeMap;

use crate::documents::script;

/// The longest time that documents say, in seconds: 366 days.
pub const LONGEST: u64 = 31_622_400;

/// A limit: a number, or none.
///
/// # Errors
/// It is neither a number nor one of Slurm's words for none.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<Option<T>, String> {
    match text.to_ascii_uppercase().as_str() {
        "" | "-1" | "UNLIMITED" | "INFINITE" | "NONE" | "(NULL)" => Ok(None),
        digits => digits
            .parse()
            .map(Some)
            .map_err(|_| format!("`{text}` is no number that can be read here, and not UNLIMITED")),
    }
}

/// A time in seconds, or none: `30` are minutes, `1:30:00`, `2-12:00:00`.
///
/// # Errors
/// It is no time as Slurm writes them.
pub fn time(text: &str) -> Result<Option<u64>, String> {
    match text.to_ascii_uppercase().as_str() {
        "" | "-1" | "NONE" | "NOT_SET" | "N/A" | "(NULL)" => Ok(None),
        upper => Ok(script::time(upper)?.map(|time| time.as_secs())),
    }
}

/// `YES` and `NO`.
///
/// # Errors
/// It is neither.
pub fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_uppercase().as_str() {
        "YES" | "Y" | "TRUE" | "T" | "1" | "UP" => Ok(true),
        "NO" | "N" | "FALSE" | "F" | "0" | "DOWN" => Ok(false),
        _ => Err(format!("`{text}` is neither YES nor NO")),
    }
}

/// Entries of a list with commas; empty ones are left out.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty() && *one != "(null)")
}

/// `cpu=64,gres/gpu=8,node=2` by resource; a number that is none, or -1, is no limit.
///
/// # Errors
/// An entry is no resource and number.
pub fn resources(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let mut all = BTreeMap::new();
    for one in list(text) {
        let (name, amount) = one
            .split_once('=')
            .ok_or_else(|| format!("`{one}` is no RESOURCE=NUMBER, for example gres/gpu=8"))?;
        let digits = amount.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        if let Some(amount) = number(if digits.is_empty() { amount } else { digits })? {
            all.insert(name.to_ascii_lowercase(), amount);
        }
    }
    Ok(all)
}

/// GPUs of `Gres=gpu:h100:8(S:0-1),nic:2`: how many in all, and their models.
///
/// # Errors
/// A number of GPUs is none.
pub fn gpus(text: &str) -> Result<(u32, Vec<String>), String> {
    let (mut count, mut models) = (0_u32, Vec::new());
    for one in list(text) {
        let plain = one.split('(').next().unwrap_or(one);
        let parts: Vec<&str> = plain.split(':').filter(|part| *part != "no_consume").collect();
        let (model, number) = match parts.as_slice() {
            ["gpu"] => (None, "1"),
            ["gpu", last] if last.starts_with(|first: char| first.is_ascii_digit()) => (None, *last),
            ["gpu", model] => (Some(*model), "1"),
            ["gpu", model, number] => (Some(*model), *number),
            _ => continue,
        };
        let number: u32 =
            number.parse().map_err(|_| format!("`{number}` in `{one}` is no number of GPUs"))?;
        count = count.saturating_add(number);
        models.extend(model.map(str::to_owned));
    }
    Ok((count, models))
}

/// Whether a label may be called so.
#[must_use]
pub fn is_label(key: &str) -> bool {
    const LONGEST: usize = 128;
    let plain = |c: char| c.is_ascii_alphanumeric();
    key.len() <= LONGEST
        && key.starts_with(plain)
        && key.ends_with(plain)
        && key.chars().all(|c| plain(c) || matches!(c, '-' | '_' | '.' | '/'))
}

/// A word of a command of the shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Names that were made, each once.
#[derive(Debug, Default)]
pub struct Labels(std::collections::BTreeSet<String>);

impl Labels {
    /// The nearest name that a document may have and no other has.
    pub fn take(&mut self, given: &str) -> String {
        const LONGEST_NAME: usize = 63;
        let plain = match script::job_name(given) {
            empty if empty.is_empty() => "x".to_owned(),
            plain => plain,
        };
        let mut name = plain.clone();
        for number in 2_u32.. {
            if self.0.insert(name.clone()) {
                break;
            }
            let end = format!("-{number}");
            let head: String = plain.chars().take(LONGEST_NAME - end.len()).collect();
            name = format!("{}{end}", head.trim_end_matches('-'));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_read_as_slurm_means_them() {
        assert_eq!(time("30"), Ok(Some(1800)));
        assert_eq!(time("2-12:00:00"), Ok(Some(216_000)));
        assert_eq!((time("infinite"), time("NOT_SET"), time("")), (Ok(None), Ok(None), Ok(None)));
        assert!(time("soon").unwrap_err().contains("`SOON` is no time"));
        assert_eq!(
            (number::<u32>("unlimited"), number::<u32>("7"), number::<u32>("-1")),
            (Ok(None), Ok(Some(7)), Ok(None))
        );
        assert!(number::<u32>("4294967296").is_err() && number::<u32>("x").is_err());
        assert_eq!(
            resources("cpu=64,gres/gpu=8,mem=4T,node=-1").unwrap().into_iter().collect::<Vec<_>>(),
            [("cpu".to_owned(), 64), ("gres/gpu".to_owned(), 8), ("mem".to_owned(), 4)]
        );
        assert!(resources("gpu").is_err() && resources("gpu=x").is_err());
        assert_eq!(gpus("gpu:h100:8(S:0-1),nic:2"), Ok((8, vec!["h100".to_owned()])));
        assert_eq!(
            (gpus("gpu:4"), gpus("gpu"), gpus("(null)")),
            (Ok((4, vec![])), Ok((1, vec![])), Ok((0, vec![])))
        );
        assert!(gpus("gpu:4x").is_err());
        assert_eq!(quoted("node/n1"), "node/n1");
        assert_eq!(quoted("node/n[0-1]"), "'node/n[0-1]'");
        assert_eq!(quoted("a'; rm -r b"), "'a'\\''; rm -r b'");
        let mut labels = Labels::default();
        let taken = ["Physics_1", "physics.1", "__", "physics-1"].map(|name| labels.take(name));
        assert_eq!(taken, ["physics-1", "physics-1-2", "x", "physics-1-3"]);
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_name_of_its_own(names in prop::collection::vec("\\PC{0,80}", 0..8)) {
            let mut labels = Labels::default();
            let mut seen = std::collections::BTreeSet::new();
            for name in names {
                let made = labels.take(&name);
                prop_assert!(proto_model::TenantName::new(&made).is_ok(), "{made}");
                prop_assert!(seen.insert(made));
            }
        }

        #[test]
        fn any_value_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = (time(&text), number::<u32>(&text), resources(&text), gpus(&text), truth(&text));
        }
    }
}
