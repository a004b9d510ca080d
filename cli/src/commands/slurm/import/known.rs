//! The table of all parameters that are known: what each does in Slurm, and what becomes of it here. The table is `known.txt`.

use std::{collections::BTreeMap, sync::LazyLock};

use super::fate::Fate;

/// What kind of line a setting stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `slurm.conf`: of the whole cluster.
    Cluster,
    /// Lines of `NodeName`.
    Node,
    /// Lines of `NodeSet`.
    NodeSet,
    /// Lines of `DownNodes`.
    Down,
    /// Lines of `FrontendName`.
    Frontend,
    /// Lines of `PartitionName`.
    Partition,
    /// `sacctmgr dump`.
    Accounts,
    /// `sacctmgr show qos -P`.
    Qos,
    /// `scontrol show reservation -o`.
    Reservation,
    /// `squeue`.
    Queue,
}

impl Section {
    const ALL: [Self; 10] = [
        Self::Cluster,
        Self::Node,
        Self::NodeSet,
        Self::Down,
        Self::Frontend,
        Self::Partition,
        Self::Accounts,
        Self::Qos,
        Self::Reservation,
        Self::Queue,
    ];

    /// As the table and reports call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Cluster => "slurm.conf",
            Self::Node => "slurm.conf, NodeName",
            Self::NodeSet => "slurm.conf, NodeSet",
            Self::Down => "slurm.conf, DownNodes",
            Self::Frontend => "slurm.conf, FrontendName",
            Self::Partition => "slurm.conf, PartitionName",
            Self::Accounts => "sacctmgr dump",
            Self::Qos => "sacctmgr show qos",
            Self::Reservation => "scontrol show reservation",
            Self::Queue => "squeue",
        }
    }
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// As Slurm's manual writes it.
    pub name: String,
    /// What becomes of it where nothing closer is said.
    pub fate: Fate,
    /// What it does in Slurm.
    pub there: String,
    /// What says it here, or is nearest to it.
    pub here: String,
}

/// By section and lower-case name.
type Table = BTreeMap<(Section, String), Known>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let (table, _) = table(include_str!("known.txt"));
    table
});

/// The table, and its lines that are none.
fn table(text: &str) -> (Table, Vec<&str>) {
    let mut words: Vec<(String, &str)> = Vec::new();
    let (mut all, mut wrong, mut section) = (Table::new(), Vec::new(), None);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((word, meaning)) = line.strip_prefix('$').and_then(|line| line.split_once(" = ")) {
            words.push((format!("${word}"), meaning));
            continue;
        }
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = Section::ALL.into_iter().find(|one| one.title() == title);
            continue;
        }
        match section.zip(known(line, &words)) {
            Some((section, known)) => {
                if all.insert((section, known.name.to_ascii_lowercase()), known).is_some() {
                    wrong.push(line);
                }
            }
            None => wrong.push(line),
        }
    }
    (all, wrong)
}

fn known(line: &str, words: &[(String, &str)]) -> Option<Known> {
    let (head, here) = line.split_once(" | ")?;
    let mut parts = head.splitn(3, ' ');
    let (name, fate, there) = (parts.next()?, parts.next()?, parts.next()?);
    let fate = match fate {
        "=" => Fate::Carried,
        "~" => Fate::Differs,
        "-" => Fate::Lost,
        "." => Fate::Meaningless,
        _ => return None,
    };
    let here =
        words.iter().fold(here.to_owned(), |text, (word, meaning)| text.replace(word.as_str(), meaning));
    let is_whole = !here.contains('$') && !name.is_empty() && !there.is_empty();
    is_whole.then(|| Known { name: name.to_owned(), fate, there: there.to_owned(), here })
}

/// The parameter of this name in this kind of line; upper and lower case are the same.
#[must_use]
pub fn find(section: Section, name: &str) -> Option<&'static Known> {
    TABLE.get(&(section, name.to_ascii_lowercase()))
}

/// The name in this kind of line that is nearest to one that is not known.
#[must_use]
pub fn nearest(section: Section, name: &str) -> &'static str {
    let lower = name.to_ascii_lowercase();
    let all = TABLE.iter().filter(|((of, _), _)| *of == section);
    let nearest = all.min_by_key(|((_, known), _)| strsim::damerau_levenshtein(known, &lower));
    nearest.map_or("", |(_, known)| known.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_sound() {
        let (all, wrong) = table(include_str!("known.txt"));
        assert!(wrong.is_empty(), "{wrong:#?}");
        for section in Section::ALL {
            assert!(all.keys().any(|(of, _)| *of == section), "{section:?}");
        }
        assert_eq!(find(Section::Cluster, "slurmctldport").unwrap().name, "SlurmctldPort");
        assert_eq!(nearest(Section::Partition, "MaxTme"), "MaxTime");
    }

    #[test]
    fn every_parameter_of_the_manuals_is_in_the_table() {
        let names = include_str!("tests/parameters.txt");
        let missing: Vec<&str> =
            names.lines().filter(|name| find(Section::Cluster, name).is_none()).collect();
        assert!(names.lines().count() > 230 && missing.is_empty(), "{missing:?}");
    }
}
