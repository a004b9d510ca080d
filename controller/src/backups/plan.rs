//! Backups on a schedule, as far as they are decisions: what one is called, when the next one is due, and which are removed. All of it
//! follows from the names in the folder and the time.

use std::time::Duration;

use controller_store::backup::PART;
use proto_model::Timestamp;

/// What the names of backups end with.
const END: &str = ".rail";
/// A backup that was begun so long ago and is not finished is of a controller that has died. One that is still written costs only that backup: it
/// does not get its name then, which is told and tried again.
const ABANDONED: Duration = Duration::from_secs(3600);

/// How often, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The time from one backup to the next.
    pub every: Duration,
    /// How many are kept, at least 1.
    pub keep: usize,
}

/// Whose backups count. Clusters often have the same name, and never the same authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The cluster's name.
    pub cluster: String,
    /// Short forms of the pins of its authorities, that of the one that issues first: while one follows another there are two.
    pub authorities: Vec<String>,
}

/// What a backup's name says. In a folder's order of names, backups of a cluster are in the order of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// When it was begun, in whole seconds.
    pub time: Timestamp,
    /// The store's revision that it shows.
    pub revision: u64,
}

/// What is to be done with a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The newest backup in it.
    pub newest: Option<Stamp>,
    /// When the next one is due; not later than now where there is none.
    pub due: Timestamp,
    /// Names of files that are not needed any more.
    pub remove: Vec<String>,
}

impl Stamp {
    fn file(self, cluster: &str, authority: &str) -> String {
        let time: String = self.time.utc().chars().filter(char::is_ascii_alphanumeric).collect();
        format!("{cluster}-{time}-{:020}-{authority}{END}", self.revision)
    }
}

impl Owner {
    /// The name of a backup of this cluster: `rail-20261130T175729Z-00000000000000005219-3fa9c2d1.rail`.
    #[must_use]
    pub fn name(&self, stamp: Stamp) -> String {
        stamp.file(&self.cluster, self.authorities.first().map_or("", String::as_str))
    }

    /// What the name of a finished backup of this cluster says; `None` for every other file.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Stamp> {
        let stem = name.strip_prefix(&self.cluster)?.strip_prefix('-')?.strip_suffix(END)?;
        let (time, rest) = stem.split_once('-')?;
        let (revision, authority) = rest.split_once('-')?;
        let found = Stamp { time: time_of(time)?, revision: revision.parse().ok()? };
        // Only what this program would write itself.
        let ours = self.authorities.iter().any(|known| known == authority);
        (ours && found.file(&self.cluster, authority) == name).then_some(found)
    }
}

/// What is to be done with a folder that holds these files. Backups of a time to come (somebody has set the clock back) neither count nor are
/// removed: they are not known to be older than others.
#[must_use]
pub fn plan(names: &[String], owner: &Owner, schedule: Schedule, now: Timestamp) -> Plan {
    let mut whole = Vec::new();
    let mut remove = Vec::new();
    for name in names {
        if let Some(stamp) = owner.read(name) {
            whole.push((stamp, name));
        } else if let Some(stamp) = name.strip_suffix(PART).and_then(|name| owner.read(name))
            && stamp.time.plus(ABANDONED) < now
        {
            remove.push(name.clone());
        }
    }
    whole.retain(|(stamp, _)| stamp.time <= now);
    whole.sort_unstable_by(|a, b| b.cmp(a));
    remove.extend(whole.iter().skip(schedule.keep).map(|(_, name)| (*name).clone()));
    let newest = whole.first().map(|(stamp, _)| *stamp);
    let due = newest.map_or(now, |stamp| stamp.time.plus(schedule.every));
    Plan { newest, due, remove }
}

/// The time that `20261130T175729Z` says.
fn time_of(text: &str) -> Option<Timestamp> {
    let part = |range: std::ops::Range<usize>| -> Option<u64> { text.get(range)?.parse().ok() };
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, second) = (part(9..11)?, part(11..13)?, part(13..15)?);
    // Howard Hinnant's `days_from_civil`, for years from 1970 on; years begin in March. A month or day that there is not is found by
    // `Owner::read`, which writes the name again.
    let year = year.checked_sub(u64::from(month <= 2)).filter(|_| year >= 1970)?;
    let of_year = (153 * (if month > 2 { month.checked_sub(3)? } else { month + 9 }) + 2) / 5 + day;
    let (era, of_era) = (year / 400, year % 400);
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year.checked_sub(1)?;
    let days = days.checked_sub(719_468)?;
    Some(Timestamp((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOW: Timestamp = Timestamp(1_796_061_449_000);

    fn schedule(keep: usize) -> Schedule {
        Schedule { every: HOUR, keep }
    }

    fn name(hours: i64, revision: u64) -> String {
        ours().name(of(hours, revision))
    }

    fn owner(cluster: &str, authorities: &[&str]) -> Owner {
        let authorities = authorities.iter().map(ToString::to_string).collect();
        Owner { cluster: cluster.to_owned(), authorities }
    }

    fn ours() -> Owner {
        owner("rail", &["3fa9c2d1"])
    }

    /// A backup of some hours ago; negative: of a time to come.
    fn of(hours: i64, revision: u64) -> Stamp {
        let time = NOW.0.checked_add_signed(-hours * 3_600_000).unwrap();
        Stamp { time: Timestamp(time), revision }
    }

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is() {
        assert_eq!(name(0, 5219), "rail-20261130T175729Z-00000000000000005219-3fa9c2d1.rail");
        for seconds in (0..4_000_000_000).step_by(86_400 * 13 + 3671) {
            let stamp = Stamp { time: Timestamp(seconds * 1000), revision: u64::MAX - seconds };
            let owner = owner("a-b", &["00000000"]);
            assert_eq!(owner.read(&owner.name(stamp)), Some(stamp));
        }
        for other in
            [owner("rai", &["3fa9c2d1"]), owner("rail2", &["3fa9c2d1"]), owner("rail", &["3fa9c2d2"])]
        {
            assert_eq!(other.read(&name(0, 5219)), None, "{other:?}");
        }
        for bad in [
            "monday.rail",
            "rail-20261130T175729Z-00000000000000005219.rail",
            "rail-20261130T175729Z-00000000000000005219-.rail",
            "rail-20261130T175729Z-00000000000000005219-3fa9c2d1-3fa9c2d1.rail",
            "rail-20261130T175729Z-5219-3fa9c2d1.rail",
            "rail-20261131T175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail-20261130T246060Z-00000000000000005219-3fa9c2d1.rail",
            "rail-20261330T175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail-20260030T175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail-19691130T175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail-20261130T175729Z-00000000000000005219-3fa9c2d1.rail.part",
            "rail-20261130T175729Z-00000000000000005219-3fa9c2d1.rail.bak",
            "rail-20261130 175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail-2026é130T175729Z-00000000000000005219-3fa9c2d1.rail",
            "rail--00000000000000005219-3fa9c2d1.rail",
            "rail-.rail",
            "",
        ] {
            assert_eq!(ours().read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_first_is_due_at_once_and_the_next_when_the_newest_is_old_enough() {
        let empty = plan(&[], &ours(), schedule(2), NOW);
        assert_eq!(empty, Plan { newest: None, due: NOW, remove: vec![] });
        let names = [of(3, 30), of(2, 40)].map(|stamp| ours().name(stamp));
        let late = plan(&names, &ours(), schedule(2), NOW);
        assert_eq!((late.newest, late.due), (Some(of(2, 40)), of(1, 0).time));
        let fresh = plan(&[name(0, 50)], &ours(), schedule(2), NOW);
        assert_eq!(fresh.due, of(-1, 0).time);
    }

    #[test]
    fn the_newest_stay_and_nothing_is_removed_that_is_somebody_else_s() {
        // A store that was made anew counts from the beginning: what is new is told by the time.
        let own = [of(5, 900), of(4, 1000), of(3, 1), of(1, 2), of(2, 3)].map(|stamp| ours().name(stamp));
        // Another cluster of the same name writes here too.
        let others = [
            "monday.rail".to_owned(),
            owner("rail", &["00000000"]).name(of(9, 1)),
            owner("other", &["3fa9c2d1"]).name(of(9, 1)),
            "store.keys".to_owned(),
        ];
        let names = [&others[..], &own].concat();
        let plan = plan(&names, &ours(), schedule(3), NOW);
        assert_eq!(plan.remove, [name(4, 1000), name(5, 900)]);
        assert_eq!(plan.newest, Some(of(1, 2)));
    }

    #[test]
    fn what_a_dead_controller_has_left_is_removed_after_an_hour() {
        let part = |hours| name(hours, 7) + PART;
        let other = owner("rail", &["00000000"]).name(of(30, 7)) + PART;
        let names = [part(0), part(1), part(2), other, name(30, 1)];
        let found = plan(&names, &ours(), schedule(1), NOW);
        assert_eq!(found.remove, [part(2)]);
        assert_eq!(found.newest, Some(of(30, 1)));
    }

    #[test]
    fn a_clock_that_was_set_back_costs_no_backup() {
        let names = [of(-48, 9), of(-47, 8), of(2, 3), of(1, 4)].map(|stamp| ours().name(stamp));
        let found = plan(&names, &ours(), schedule(1), NOW);
        assert_eq!((found.newest, found.due), (Some(of(1, 4)), NOW));
        assert_eq!(found.remove, [name(2, 3)]);
        // And when it is right again, all are of one order.
        let later = plan(&names, &ours(), schedule(1), of(-49, 0).time);
        assert_eq!(later.newest, Some(of(-48, 9)));
        assert_eq!(later.remove.len(), 3);
    }

    #[test]
    fn while_one_authority_follows_another_backups_of_both_count() {
        let names = [name(3, 1), name(2, 2), owner("rail", &["00000000"]).name(of(1, 3))];
        let both = owner("rail", &["00000000", "3fa9c2d1"]);
        let found = plan(&names, &both, schedule(2), NOW);
        assert_eq!((found.newest, found.remove), (Some(of(1, 3)), vec![name(3, 1)]));
        assert_eq!(both.name(of(1, 3)), names[2]);
    }
}
