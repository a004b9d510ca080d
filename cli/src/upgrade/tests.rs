//! Clusters that are not there, and what is to be done with them.

use super::{json, model::*, plan::plan, text, version::Version};

fn v(text: &str) -> Version {
    Version::parse(text).unwrap()
}

const NOW: i64 = 1_796_000_000;

fn target(version: &str) -> Target {
    Target { version: v(version), railctl: v(version), backup_within: 7200 }
}

fn controller(at: &str, version: &str, leads: bool) -> Controller {
    Controller { at: format!("https://{at}:7443"), version: Ok(v(version)), leads }
}

fn agent(node: &str, version: &str, jobs: usize) -> Agent {
    Agent { node: node.into(), version: Version::parse(version), ready: true, jobs }
}

/// Three controllers and two servers of 0.1.0, with a backup of an hour ago.
fn facts() -> Facts {
    Facts {
        now: NOW,
        controllers: vec![
            controller("c0", "0.1.0", false),
            controller("c1", "0.1.0", true),
            controller("c2", "0.1.0", false),
        ],
        leader: Ok("c1:77".into()),
        revision: 5219,
        unwritable: None,
        agents: vec![agent("n0", "0.1.0", 2), agent("n1", "0.1.0", 0)],
        switches: vec![
            Switch { name: "s0".into(), version: Version::parse("0.1.0") },
            Switch { name: "s1".into(), version: None },
        ],
        rollouts: Vec::new(),
        backup: Backup::Newest { at: NOW - 3600, revision: 5000 },
    }
}

fn codes(facts: &Facts, to: &str) -> Vec<&'static str> {
    plan(facts, &target(to)).refusals.iter().map(|refusal| refusal.why.code()).collect()
}

fn kinds(plan: &Plan) -> Vec<What> {
    plan.steps.iter().map(|step| step.what).collect()
}

#[test]
fn versions_are_read_and_neighbours_are_known() {
    assert_eq!(Version::parse("1.2.3-rc1+5").map(|version| version.to_string()), Some("1.2.3-pre".into()));
    assert!(v("1.2.3-rc1") < v("1.2.3") && v("1.2.3-rc1") > v("1.2.2") && v("1.2.3+5-a") == v("1.2.3"));
    for bad in ["", "1.2", "1.2.3.4", "1.x.3", "-1.2.3", "v1.2.3"] {
        assert_eq!(Version::parse(bad), None, "{bad}");
    }
    for (one, other, fits) in [
        ("0.1.0", "0.1.9", true),
        ("0.1.0", "0.2.0", true),
        ("0.1.0", "0.3.0", false),
        ("1.7.2", "2.0.0", true),
        ("1.7.2", "2.1.0", false),
        ("1.0.0", "3.0.0", false),
    ] {
        assert_eq!((v(one).fits(v(other)), v(other).fits(v(one))), (fits, fits), "{one} {other}");
    }
}

#[test]
fn standbys_come_first_then_the_leader_then_agents() {
    let plan = plan(&facts(), &target("0.2.0"));
    assert!(plan.refusals.is_empty(), "{plan:?}");
    assert_eq!(kinds(&plan), [What::Backup, What::Standby, What::Leader, What::Agents, What::SwitchAgents]);
    assert_eq!(plan.steps[1].names, ["https://c0:7443", "https://c2:7443"]);
    assert_eq!(plan.steps[2].names, ["https://c1:7443"]);
    assert_eq!(plan.steps[3].names, ["n0", "n1"]);
    assert!(plan.steps[3].effect.contains("2 placements"), "{}", plan.steps[3].effect);
    // A switch without an agent has none to upgrade.
    assert_eq!(plan.steps[4].names, ["s0"]);
    let rows = format!("from version {ROWS_BEFORE} to {ROWS}");
    assert!(plan.steps[2].effect.contains(&rows) && plan.steps[2].back.starts_with("none but"), "{plan:?}");
}

#[test]
fn a_leader_that_no_address_tells_is_named_as_it_names_itself() {
    let mut facts = facts();
    facts.controllers.iter_mut().for_each(|one| one.leads = false);
    let plan = plan(&facts, &target("0.2.0"));
    assert_eq!(kinds(&plan)[..3], [What::Backup, What::Controllers, What::Agents]);
    assert_eq!(plan.steps[1].names.len(), 3);
    assert!(plan.steps[1].effect.contains("the one that leads (it calls itself c1:77) last"), "{plan:?}");
}

#[test]
fn one_controller_is_a_pause_and_is_said_so() {
    let mut facts = facts();
    facts.controllers = vec![controller("c1", "0.1.0", true)];
    let plan = plan(&facts, &target("0.2.0"));
    assert_eq!(kinds(&plan)[..2], [What::Backup, What::Leader]);
    assert!(plan.steps[1].effect.starts_with("nothing is scheduled"), "{plan:?}");
    assert_eq!(plan.notes.len(), 1);
}

#[test]
fn a_correction_of_the_same_release_migrates_nothing_and_goes_back() {
    let plan = plan(&facts(), &target("0.1.1"));
    assert!(plan.refusals.is_empty(), "{plan:?}");
    assert_eq!(plan.steps[2].back, "start the older program again");
    assert!(!plan.steps[2].effect.contains("rows"), "{plan:?}");
}

#[test]
fn what_is_there_already_is_left_out_and_a_half_done_upgrade_goes_on() {
    let mut facts = facts();
    for one in [0, 2] {
        facts.controllers[one].version = Ok(v("0.2.0"));
    }
    facts.agents[0].version = Some(v("0.2.0"));
    let half = plan(&facts, &target("0.2.0"));
    assert!(half.refusals.is_empty(), "{half:?}");
    assert_eq!(kinds(&half), [What::Backup, What::Leader, What::Agents, What::SwitchAgents]);
    assert_eq!(half.steps[2].names, ["n1"]);
    assert!(half.notes.iter().any(|note| note.contains("has begun")), "{half:?}");
    facts.controllers[1].version = Ok(v("0.2.0"));
    facts.agents[1].version = Some(v("0.2.0"));
    facts.switches.clear();
    facts.backup = Backup::Unknown;
    let done = plan(&facts, &target("0.2.0"));
    assert_eq!((done.refusals.len(), done.steps.len()), (0, 0), "{done:?}");
    assert!(text::plan(&done).contains("nothing to upgrade"));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    assert_eq!(codes(&facts(), "0.2.0"), [""; 0]);
    // Controllers, agents and switch agents, each kind once.
    assert_eq!(codes(&facts(), "0.3.0"), ["TooFar", "TooFar", "TooFar"]);
    let mut mixed = facts();
    mixed.controllers[0].version = Ok(v("0.2.0"));
    mixed.agents[0].version = Some(v("0.2.0"));
    assert_eq!(codes(&mixed, "0.2.0"), [""; 0], "it goes on");
    mixed.controllers[0].version = Ok(v("1.6.0"));
    mixed.controllers[1].version = Ok(v("1.7.0"));
    mixed.controllers.truncate(2);
    (mixed.agents, mixed.switches) = (Vec::new(), Vec::new());
    assert_eq!(codes(&mixed, "2.0.0"), ["Mixed"]);
    // The upgrade before was ended at controllers, not at agents.
    let mut left = facts();
    left.controllers.iter_mut().for_each(|one| one.version = Ok(v("1.7.0")));
    left.switches.clear();
    left.agents[0].version = Some(v("1.7.0"));
    left.agents[1].version = Some(v("1.6.0"));
    assert_eq!(codes(&left, "2.0.0"), ["Mixed"]);
}

#[test]
fn the_way_back_is_refused() {
    let mut facts = facts();
    facts.controllers[1].version = Ok(v("0.2.0"));
    assert_eq!(codes(&facts, "0.1.0"), ["NoWayBack"]);
}

#[test]
fn another_releases_railctl_is_not_asked() {
    let target = Target { railctl: v("0.1.0"), ..target("0.2.0") };
    let plan = plan(&facts(), &target);
    let codes: Vec<_> = plan.refusals.iter().map(|refusal| refusal.why.code()).collect();
    assert_eq!((codes, plan.steps.len()), (vec!["OtherRailctl"], 0));
    assert!(!text::plan(&plan).contains("nothing to upgrade"));
}

#[test]
fn a_cluster_that_is_not_well_is_refused() {
    let mut facts = facts();
    facts.controllers[0].version = Err("no answer".into());
    facts.unwritable = Some("etcd has no leader".into());
    facts.rollouts = vec!["NICs"];
    assert_eq!(codes(&facts, "0.2.0"), ["ControllerAway", "StoreUnwritable", "RolloutUnderWay"]);
}

#[test]
fn without_a_backup_of_late_it_is_refused() {
    for (backup, refused) in [
        (Backup::Unknown, true),
        (Backup::Absent, true),
        (Backup::Newest { at: NOW - 7201, revision: 1 }, true),
        (Backup::Newest { at: NOW - 7200, revision: 1 }, false),
        (Backup::Waived, false),
    ] {
        let facts = Facts { backup: backup.clone(), ..facts() };
        assert_eq!(codes(&facts, "0.2.0") == ["NoBackup"], refused, "{backup:?}");
    }
}

#[test]
fn many_servers_are_counted_in_words_and_all_in_json() {
    let mut facts = facts();
    facts.agents = (0..100).map(|n| agent(&format!("n{n}"), "0.1.0", 0)).collect();
    let plan = plan(&facts, &target("0.2.0"));
    let words = text::plan(&plan);
    assert!(words.contains("100 agents: n0, n1, n2, n3, n4, n5, n6, n7 and 92 more"), "{words}");
    let read: serde_json::Value = serde_json::from_str(&json::plan(&plan)).unwrap();
    assert_eq!(read["steps"][3]["names"].as_array().unwrap().len(), 100);
    assert_eq!((&read["to"], &read["steps"][2]["what"]), (&"0.2.0".into(), &"leader".into()));
}

#[test]
fn the_status_counts_servers_by_release() {
    let mut facts = facts();
    facts.agents.push(Agent { node: "n2".into(), version: None, ready: false, jobs: 0 });
    facts.controllers[2].version = Err("no answer".into());
    let words = text::status(&facts, v("0.2.0"));
    for line in ["agents         0.1.0", "controller     ? (no answer)", "c1:7443, leads", "leader: c1:77"] {
        assert!(words.contains(line), "{line} in\n{words}");
    }
    let read: serde_json::Value = serde_json::from_str(&json::status(&facts, v("0.2.0"))).unwrap();
    assert_eq!((&read["agents"][2]["version"], &read["controllers"][1]["leads"]), (&().into(), &true.into()));
}

/// What the plan says of rows is what controllers of this release and of the one before do.
#[test]
fn versions_of_rows_are_the_controllers_own() {
    assert_eq!(ROWS, controller_rows::format::CURRENT);
    let released = include_str!("../../../proto/released/commits");
    let last = released.lines().rfind(|line| !line.starts_with('#')).unwrap();
    assert_eq!(last.split(' ').nth(1).unwrap().parse::<u32>(), Ok(ROWS_BEFORE));
}

#[test]
fn a_leader_that_is_upgraded_is_left_alone_and_needs_no_backup() {
    let mut facts = facts();
    facts.controllers[1].version = Ok(v("0.2.0"));
    facts.backup = Backup::Unknown;
    let plan = plan(&facts, &target("0.2.0"));
    assert!(plan.refusals.is_empty(), "{plan:?}");
    assert_eq!(kinds(&plan), [What::Standby, What::Agents, What::SwitchAgents]);
    assert!(plan.steps[0].back.starts_with("none but"), "{plan:?}");
    facts.controllers.iter_mut().for_each(|one| one.version = Ok(v("0.2.0")));
    assert_eq!(codes(&facts, "0.2.0"), [""; 0], "agents alone need none either");
}

#[test]
fn a_controller_that_ended_over_newer_rows_is_started_with_the_newer_program() {
    let mut facts = facts();
    facts.controllers[1].version = Ok(v("0.2.0"));
    facts.controllers[2].version = Err("no answer".into());
    let plan = plan(&facts, &target("0.2.0"));
    assert!(plan.refusals.is_empty(), "{plan:?}");
    assert!(has_note(&plan, "start it with 0.2.0"), "{plan:?}");
}

fn has_note(plan: &Plan, words: &str) -> bool {
    plan.notes.iter().any(|note| note.contains(words))
}

#[test]
fn what_is_newer_and_builds_of_one_number_are_said() {
    let mut facts = facts();
    facts.controllers.iter_mut().for_each(|one| one.version = Ok(v("0.1.1")));
    facts.agents[0].version = Some(v("0.2.0"));
    let plan = plan(&facts, &target("0.1.0"));
    assert!(plan.refusals.is_empty() && plan.steps.is_empty(), "{plan:?}");
    for words in ["agents of servers are newer than 0.1.0", "to go back within one release", "of one number"]
    {
        assert!(has_note(&plan, words), "{words} in {plan:?}");
    }
    assert!(text::plan(&plan).contains("nothing that answers is older than 0.1.0"));
}

#[test]
fn a_build_before_the_release_is_upgraded_to_it() {
    let mut facts = facts();
    facts.agents[0].version = Some(v("0.1.0-rc1"));
    let plan = plan(&facts, &target("0.1.0"));
    assert_eq!((kinds(&plan), &plan.steps[0].names[..]), (vec![What::Agents], &["n0".to_owned()][..]));
}

#[test]
fn corrections_of_one_release_are_not_mixed() {
    let mut facts = facts();
    facts.controllers[0].version = Ok(v("0.1.1"));
    assert_eq!(codes(&facts, "0.2.0"), [""; 0]);
}

#[test]
fn a_backup_from_ahead_of_the_store_or_of_another_cluster_is_none() {
    for backup in [Backup::Newest { at: NOW - 1, revision: 5220 }, Backup::OfOthers] {
        let facts = Facts { backup, ..facts() };
        assert_eq!(codes(&facts, "0.2.0"), ["NoBackup"]);
    }
}

#[test]
fn a_server_that_is_gone_for_good_can_be_deleted() {
    let mut facts = facts();
    facts.agents[0].ready = false;
    assert!(has_note(&plan(&facts, &target("0.2.0")), "railctl delete node"));
}

#[test]
fn a_major_version_follows_the_last_release_before_it() {
    let mut facts = facts();
    facts.controllers.iter_mut().for_each(|one| one.version = Ok(v("1.7.2")));
    assert!(has_note(&plan(&facts, &target("2.0.0")), "if 1.7.2 was not it"));
    assert!(!has_note(&plan(&facts, &target("1.8.0")), "was not it"));
}

#[test]
fn the_status_says_what_it_can_without_a_leader() {
    let facts = Facts::without_leader(facts().controllers, "nobody leads".into());
    let words = text::status(&facts, v("0.2.0"));
    assert!(words.contains("c0:7443") && words.contains("none answers (nobody leads)"), "{words}");
    let read: serde_json::Value = serde_json::from_str(&json::status(&facts, v("0.2.0"))).unwrap();
    assert_eq!((&read["leader"], &read["leaderError"]), (&().into(), &"nobody leads".into()));
}
