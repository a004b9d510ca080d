//! The nearest right thing.

/// Lower case without separators, so that `gpus_per_node`, `GpusPerNode` and `gpus-per-node` are one.
fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The candidate that was most likely meant, if one is near enough.
pub(crate) fn nearest<'c>(given: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Nobody mistypes this much; comparing would only cost time.
    const LONGEST: usize = 100;
    if given.len() > LONGEST {
        return None;
    }
    let given = folded(given);
    let mut candidates: Vec<_> =
        candidates.into_iter().map(|candidate| (folded(candidate), candidate)).collect();
    let distance = |folded: &str| strsim::damerau_levenshtein(&given, folded);
    candidates.sort_by_cached_key(|(folded, _)| distance(folded));
    let (folded, candidate) = candidates.first()?;
    let (distance, length) = (distance(folded), folded.len().max(given.len()));
    if distance <= 1.max(length / 3) && distance < length {
        return Some(candidate);
    }
    // A word's beginning: `mem` for `memoryBytes`.
    let begins = |(folded, _): &&(String, &str)| given.len() >= 3 && folded.starts_with(&given);
    candidates.iter().find(begins).map(|(_, candidate)| *candidate)
}

/// `a, b or c`, cut where it is long.
pub(crate) fn list<'c>(candidates: impl IntoIterator<Item = &'c str>) -> String {
    const MOST: usize = 16;
    let mut names: Vec<_> = candidates.into_iter().take(MOST + 1).collect();
    if names.len() > MOST {
        names.truncate(MOST);
        return format!("{}, ...", names.join(", "));
    }
    match names.pop() {
        None => "nothing".to_owned(),
        Some(last) if names.is_empty() => last.to_owned(),
        Some(last) => format!("{} or {last}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_mean() {
        let fields = ["nodes", "gpusPerNode", "ranksPerNode"];
        for (given, meant) in [
            ("node", Some("nodes")),
            ("gpus_per_node", Some("gpusPerNode")),
            ("GPUsPerNode", Some("gpusPerNode")),
            ("gpuPerNode", Some("gpusPerNode")),
            ("rank", Some("ranksPerNode")),
            ("priority", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, fields), meant, "{given}");
        }
        assert_eq!(nearest("Jbo", ["Fabric", "Job", "Node"]), Some("Job"));
        assert_eq!(nearest("all-reduce", ["ALL_GATHER", "ALL_REDUCE"]), Some("ALL_REDUCE"));
        assert_eq!(list(["a", "b", "c"]), "a, b or c");
    }
}
