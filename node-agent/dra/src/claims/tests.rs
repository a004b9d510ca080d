//! Claims against a model: whatever is prepared, removed and cut off in whichever order, nothing is left behind and nothing is given twice.

use std::collections::{BTreeMap, BTreeSet};

use proto_random::Random;

use super::*;
use crate::devices::{devices, tests::view};

const WORLDS: u64 = 1_000;
const EVENTS: usize = 60;

/// A disk on which each step is done whole or not at all.
#[derive(Debug, Default, Clone)]
struct Disk {
    records: BTreeMap<String, Record>,
    exposed: BTreeMap<String, Record>,
}

impl Disk {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Save(record) => _ = self.records.insert(record.key.uid.clone(), record),
            Step::Expose(record) => _ = self.exposed.insert(record.key.uid.clone(), record),
            Step::Conceal(uid) => _ = self.exposed.remove(&uid),
            Step::Forget(uid) => _ = self.records.remove(&uid),
        }
    }

    fn found(&self) -> Found {
        Found {
            records: self.records.values().cloned().collect(),
            unreadable: BTreeSet::new(),
            reserved: Vec::new(),
            exposed: self.exposed.keys().cloned().collect(),
        }
    }
}

fn record(uid: &str, names: &[usize], shared: bool) -> Record {
    let all = devices(&view());
    let given = |at: &usize| Given {
        device: all[*at].clone(),
        requests: vec!["rails".to_owned()],
        shared,
        files: vec![format!("/dev/infiniband/uverbs{at}")],
    };
    Record {
        version: VERSION,
        key: ClaimKey::new(uid, "ml", &format!("c-{uid}")).unwrap(),
        pool: "n0".to_owned(),
        devices: names.iter().map(given).collect(),
        environment: BTreeMap::new(),
        files: Vec::new(),
    }
}

/// What kubelet was answered and has not taken back.
#[derive(Default)]
struct World {
    claims: Claims,
    disk: Disk,
    answered: BTreeMap<String, Record>,
    /// Asked for, and neither answered nor taken back: kubelet will ask again, or unprepare.
    open: BTreeSet<String>,
}

impl World {
    /// Does the steps, of which the process may end before one; says whether it has done all.
    fn run(&mut self, steps: Vec<Step>, random: &mut Random) -> bool {
        for step in steps {
            if random.index(12) == 0 {
                self.restart();
                return false;
            }
            self.disk.apply(step);
        }
        true
    }

    fn restart(&mut self) {
        let (claims, steps) = Claims::recover(self.disk.found());
        steps.into_iter().for_each(|step| self.disk.apply(step));
        self.claims = claims;
    }

    fn prepare(&mut self, record: &Record, random: &mut Random) {
        let uid = record.key.uid.clone();
        self.open.insert(uid.clone());
        if let Some(known) = self.claims.prepared(&uid) {
            let known = known.clone();
            if let Some(before) = self.answered.get(&uid) {
                assert_eq!(&known, before, "an answer changes nothing");
            }
            self.answered.insert(uid, known);
            return;
        }
        assert!(!self.answered.contains_key(&uid), "what was answered is forgotten");
        let Ok(steps) = self.claims.begin(record.clone()) else { return };
        if self.run(steps, random) {
            self.claims.finish(&uid);
            self.answered.insert(uid, record.clone());
        }
    }

    fn unprepare(&mut self, uid: &str, random: &mut Random) {
        let steps = self.claims.release(uid);
        // From now on kubelet does not start anything with it.
        self.answered.remove(uid);
        if self.run(steps, random) {
            self.claims.removed(uid);
            self.open.remove(uid);
            assert!(!self.disk.records.contains_key(uid) && !self.disk.exposed.contains_key(uid));
        }
    }

    fn check(&self) {
        let mut owners = BTreeMap::new();
        for record in self.answered.values() {
            let uid = &record.key.uid;
            assert_eq!(self.disk.records.get(uid), Some(record));
            assert_eq!(self.disk.exposed.get(uid), Some(record));
            for given in record.devices.iter().filter(|given| !given.shared) {
                let other = owners.insert(given.device.name.clone(), uid.clone());
                assert_eq!(other, None, "{} is given twice", given.device.name);
            }
        }
        let on_disk = self.disk.records.keys().chain(self.disk.exposed.keys());
        on_disk.for_each(|uid| assert!(self.open.contains(uid), "{uid} is left behind"));
    }
}

#[test]
fn nothing_leaks_and_nothing_is_given_twice_in_any_order_with_ends_in_the_middle() {
    for seed in 0..WORLDS {
        let mut random = Random::new(seed);
        let mut world = World::default();
        let wanted: Vec<Record> = (0..6)
            .map(|k| {
                let first = random.index(4);
                let names: Vec<usize> =
                    if random.index(2) == 0 { vec![first] } else { vec![first, (first + 1) % 4] };
                record(&format!("u{k}"), &names, random.index(5) == 0)
            })
            .collect();
        for _ in 0..EVENTS {
            let one = &wanted[random.index(wanted.len())];
            match random.index(8) {
                0..=3 => world.prepare(one, &mut random),
                4..=6 => world.unprepare(&one.key.uid, &mut random),
                _ => world.restart(),
            }
            world.check();
        }
        // Pods end: kubelet repeats until it has an answer.
        for one in &wanted {
            while world.open.contains(&one.key.uid) {
                world.unprepare(&one.key.uid, &mut random);
            }
        }
        assert!(world.disk.records.is_empty() && world.disk.exposed.is_empty(), "seed {seed} leaks");
        assert_eq!(world.claims, Claims::default(), "seed {seed}");
    }
}

#[test]
fn a_device_is_refused_by_the_name_of_who_has_it_until_that_is_removed() {
    let mut claims = Claims::default();
    claims.begin(record("u1", &[0, 1], false)).unwrap();
    let error = claims.begin(record("u2", &[1], false)).unwrap_err().to_string();
    assert!(error.contains("ml/c-u1 (UID u1)") && error.contains("nic-0000-18-00-0"), "{error}");
    // An administrator's claim takes nothing from anybody.
    assert!(claims.begin(record("u3", &[1], true)).is_ok());
    assert!(claims.prepared("u1").is_none(), "nothing is on disk yet");
    claims.finish("u1");
    assert!(claims.prepared("u1").is_some());
    let _ = claims.release("u1");
    assert!(claims.prepared("u1").is_none(), "half removed is not prepared");
    assert!(claims.begin(record("u2", &[1], false)).is_err(), "it may still be on disk");
    claims.removed("u1");
    assert!(claims.begin(record("u2", &[1], false)).is_ok());
}

#[test]
fn a_start_shows_again_what_is_recorded_and_removes_the_rest() {
    let found = Found {
        records: vec![record("u1", &[0], false)],
        unreadable: ["u2".to_owned()].into(),
        reserved: Vec::new(),
        exposed: ["u2", "u3"].map(str::to_owned).into(),
    };
    let (claims, steps) = Claims::recover(found);
    assert_eq!(claims.keys().map(|key| key.uid.as_str()).collect::<Vec<_>>(), ["u1"]);
    assert_eq!(steps, [Step::Expose(record("u1", &[0], false)), Step::Conceal("u3".to_owned())]);
}

#[test]
fn a_record_of_another_release_keeps_its_devices_until_its_claim_is_prepared_anew_or_removed() {
    let key = ClaimKey::new("u2", "ml", "c-u2").unwrap();
    let name = record("u2", &[1], false).devices[0].device.name.clone();
    let reserved = Reserved { key, devices: [name].into() };
    let found = Found { unreadable: ["u2".to_owned()].into(), reserved: vec![reserved], ..Found::default() };
    let (mut claims, steps) = Claims::recover(found);
    assert_eq!((steps, claims.keys().count()), (Vec::new(), 1), "the sweep sees it");
    let error = claims.begin(record("u1", &[1], false)).unwrap_err().to_string();
    assert!(error.contains("ml/c-u2 (UID u2)"), "{error}");
    assert!(claims.begin(record("u3", &[0], false)).is_ok());
    let mut anew = claims.clone();
    assert!(anew.begin(record("u2", &[1], false)).is_ok(), "its own are its own");
    assert_eq!(anew.keys().count(), 2);
    let _ = claims.release("u2");
    assert!(claims.begin(record("u1", &[1], false)).is_err(), "it may still be on disk");
    claims.removed("u2");
    assert!(claims.begin(record("u1", &[1], false)).is_ok());
}
