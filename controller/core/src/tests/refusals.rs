//! What is refused, and that a refusal changes nothing; request ids; tenants, fabric, versions.

use std::time::Duration;

use proto_model::{ArraySpec, Fabric, Leaf, Link, Phase, Rail};

use super::*;
use crate::ErrorKind;

#[test]
fn the_same_request_is_the_same_job() {
    let mut w = World::new();
    let first = submit_as("red", "a", spec(1, 1), Some(("r1", 1)));
    let Reply::Job { job, existed: false } = w.ok(first.clone()) else { panic!() };
    let before = w.state.clone();
    let Reply::Job { job: again, existed: true } = w.ok(first.clone()) else { panic!() };
    assert_eq!(job, again);
    assert!(w.state.same(&before));
    let other = submit_as("red", "b", spec(1, 1), Some(("r1", 2)));
    assert!(matches!(w.refused(other), CoreError::RequestIdReused { .. }));
    // Another tenant's id is another id.
    w.ok(submit_as("blue", "a", spec(1, 1), Some(("r1", 2))));
    // It is remembered over a restart, for a day, also when the job is gone.
    w.state = w.reload(7);
    assert!(matches!(w.ok(first.clone()), Reply::Job { existed: true, .. }));
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None });
    let n = w.nodes("a")[0];
    w.session = 0;
    w.connect(n, Vec::new());
    w.ok(Event::DeleteJob { by: None, indices: Vec::new(), id: id("a") });
    assert!(matches!(w.refused(first.clone()), CoreError::JobGone { .. }));
    w.tick(Duration::from_secs(24 * 3600));
    assert!(matches!(w.ok(first), Reply::Job { existed: false, .. }));
}

#[test]
fn what_cannot_be_is_refused_with_all_causes_and_nothing_is_stored() {
    let mut w = World::new();
    let before = w.state.clone();
    let unknown = w.refused(submit_as("rad", "a", spec(1, 1), None));
    assert!(unknown.to_string().contains("did you mean 'red'"), "{unknown}");
    let CoreError::Infeasible { reasons } = w.refused(submit("a", spec(5, 8))) else { panic!() };
    let codes: Vec<_> = reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["QuotaTooSmall", "NodeCount", "GpuShape"]);
    let error = w.refused(submit("a", spec(1, 8)));
    assert_eq!(error.kind(), ErrorKind::Infeasible);
    assert!(error.to_string().contains("the largest node has 4"), "{error}");
    let mut zero = spec(0, 1);
    assert!(matches!(
        w.refused(submit("a", zero.clone())),
        CoreError::Invalid { field: "spec.gang.nodes", .. }
    ));
    zero.gang.nodes = u32::MAX;
    assert!(matches!(w.refused(submit("a", zero)), CoreError::Invalid { field: "spec.gang", .. }));
    // One more than the limit is refused by the limit's name; the limit itself by the cluster only.
    let (ranks, nodes) = (w.state.0.config.max_ranks, w.state.0.config.max_gang_nodes);
    for (nodes, ranks, limit) in [(1, ranks + 1, "max_ranks"), (nodes + 1, 1, "max_gang_nodes")] {
        let mut large = spec(nodes, 0);
        large.gang.ranks_per_node = ranks;
        let error = w.refused(submit("a", large));
        assert!(matches!(error, CoreError::Invalid { .. }) && error.to_string().contains(limit), "{error}");
    }
    let error = w.refused(submit("a", spec(nodes, 8)));
    assert!(matches!(error, CoreError::Infeasible { .. }), "{error}");
    assert!(matches!(
        w.refused(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None }),
        CoreError::JobNotFound { .. }
    ));
    assert!(w.state.same(&before));
}

#[test]
fn limits_are_typed() {
    let mut w = World::new();
    w.submit("a", spec(1, 1));
    assert!(matches!(w.refused(submit("a", spec(1, 1))), CoreError::NameTaken { .. }));
    assert!(matches!(
        w.refused(Event::DeleteJob { by: None, indices: Vec::new(), id: id("a") }),
        CoreError::JobActive { .. }
    ));
    let quota = Quota::new(16, 2);
    w.ok(Event::ApplyTenant {
        name: tenant("red"),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    });
    w.submit("b", spec(1, 1));
    assert!(matches!(w.refused(submit("c", spec(1, 1))), CoreError::QuotaExceeded { used: 2, limit: 2, .. }));
    w.state.0.config.max_queued = 0;
    assert_eq!(w.refused(submit_as("blue", "c", spec(1, 1), None)).kind(), ErrorKind::Exhausted);
}

#[test]
fn a_tenants_jobs_take_so_much_of_the_store_and_no_more() {
    let mut w = World::new();
    let one = spec(1, 1).footprint(&BTreeMap::new());
    let quota = Quota { stored_bytes: 2 * one, ..Quota::new(16, 0) };
    let apply = |quota| Event::ApplyTenant {
        name: tenant("red"),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    };
    w.ok(apply(quota));
    w.submit("a", spec(1, 1));
    w.submit("b", spec(1, 1));
    assert_eq!(w.state.usage(&tenant("red")).stored_bytes, 2 * one);
    let error = w.refused(submit("c", spec(1, 1)));
    assert!(matches!(&error, CoreError::StoredBytesExceeded { more, .. } if *more == one), "{error}");
    assert_eq!((error.kind(), error.code()), (ErrorKind::Exhausted, "STORED_BYTES_EXCEEDED"));
    // Others are not held up, and what one has ended still takes its room until it is deleted.
    w.ok(submit_as("blue", "c", spec(1, 1), None));
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("b"), grace: None });
    let n = w.nodes("b")[0];
    w.connect(n, Vec::new());
    assert_eq!(w.phase("b"), Phase::Cancelled);
    w.refused(submit("c", spec(1, 1)));
    assert_eq!(w.reload(8).usage(&tenant("red")).stored_bytes, 2 * one, "a restart counts the same");
    w.ok(Event::DeleteJob { by: None, indices: Vec::new(), id: id("b") });
    // An array counts with all of its elements.
    let array = ArraySpec { indices: vec![0, 1], at_once: 0 };
    w.refused(submit("c", JobSpec { array: Some(array), ..spec(1, 1) }));
    w.submit("c", spec(1, 1));
    // Names of servers count as well.
    let mut named = spec(1, 1);
    let nodes = (0..1000).map(|n| proto_model::NodeName::new(format!("node-{n}")).unwrap());
    named.placement.exclude = nodes.collect();
    assert!(named.footprint(&BTreeMap::new()) > one + 1000 * 8);
    // A long environment is what is meant.
    w.ok(apply(Quota { stored_bytes: 4 * one, ..Quota::new(16, 0) }));
    let mut long = spec(1, 1);
    let Work::Command(command) = &mut long.work else { panic!() };
    command.env.insert("DATA".into(), "x".repeat(usize::try_from(2 * one).unwrap()));
    w.refused(submit("d", long));
    w.submit("d", spec(1, 1));
}

#[test]
fn names_are_made() {
    let mut w = World::new();
    let Event::Submit(mut submit) = submit("x", spec(1, 0)) else { panic!() };
    submit.name = Naming::Generate("train-".into());
    let Reply::Job { job, .. } = w.ok(Event::Submit(submit.clone())) else { panic!() };
    assert!(job.id.name.as_str().starts_with("train-") && job.id.name.as_str().len() == 12, "{}", job.id);
    submit.name = Naming::Generate("-bad".into());
    assert!(matches!(
        w.refused(Event::Submit(submit)),
        CoreError::Invalid { field: "metadata.generateName", .. }
    ));
}

#[test]
fn quota_is_kept_in_the_step_of_the_placement() {
    let mut w = World::new();
    w.ok(submit_as("blue", "a", spec(1, 3), None));
    w.ok(submit_as("blue", "b", spec(1, 3), None));
    assert_eq!(w.state.usage(&tenant("blue")).gpus_used, 3);
    assert_eq!(w.state.usage(&tenant("blue")).jobs_active, 2);
    let quota = Quota::new(6, 0);
    w.ok(Event::ApplyTenant {
        name: tenant("blue"),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: true,
    });
    assert_eq!(w.state.usage(&tenant("blue")).gpus_used, 3, "a dry run changes nothing");
    w.ok(Event::ApplyTenant {
        name: tenant("blue"),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    });
    assert_eq!(w.state.usage(&tenant("blue")).gpus_used, 6);
}

#[test]
fn a_tenant_goes_with_its_ended_jobs() {
    let mut w = World::new();
    w.ok(submit_as("blue", "a", spec(1, 1), None));
    assert!(matches!(
        w.refused(Event::DeleteTenant { name: tenant("blue"), uid: None, dry_run: false }),
        CoreError::TenantBusy { jobs: 1, .. }
    ));
    let job = JobId { tenant: tenant("blue"), name: JobName::new("a").unwrap() };
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: job.clone(), grace: None });
    let place = w.state.job(&job).unwrap().status.placement.clone().unwrap().nodes[0].node.clone();
    let n: usize = place.as_str()[1..].parse().unwrap();
    w.connect(n, Vec::new());
    assert_eq!(w.state.job(&job).unwrap().status.phase, Phase::Cancelled);
    let uid = w.state.tenant(&tenant("blue")).unwrap().uid.clone();
    let delete =
        |uid: &str, dry_run| Event::DeleteTenant { name: tenant("blue"), uid: Some(uid.to_owned()), dry_run };
    let before = w.state.clone();
    assert!(matches!(w.refused(delete("other", false)), CoreError::TenantReplaced { .. }));
    let Reply::TenantDeleted(reported) = w.ok(delete(&uid, true)) else { panic!() };
    assert_eq!((reported.jobs, reported.queues), (1, 0));
    assert!(w.state.same(&before), "a dry run deletes nothing");
    let Reply::TenantDeleted(done) = w.ok(delete(&uid, false)) else { panic!() };
    assert_eq!(done, reported);
    let quota = Quota::new(1, 0);
    let again = Event::ApplyTenant {
        name: tenant("blue"),
        description: String::new(),
        quota,
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    };
    assert!(matches!(w.refused(again.clone()), CoreError::NameResting { .. }));
    w.ok(Event::ReleaseTenantName { name: tenant("blue") });
    assert!(matches!(w.refused(again.clone()), CoreError::TenantBusy { .. }), "its jobs must go first");
    w.tick(Duration::ZERO);
    assert!(w.state.job(&job).is_none());
    w.ok(again);
}

#[test]
fn a_faulty_fabric_is_refused_with_all_findings() {
    let mut w = World::new();
    let link = |nic: &str, leaf: &str| Link {
        node: name(0),
        nic: nic.into(),
        leaf: leaf.into(),
        port: String::new(),
        speed_mbps: 0,
        down: false,
        rail: None,
    };
    let mut fabric = Fabric {
        name: "f".into(),
        rails: vec![Rail { index: 0, name: "a".into() }, Rail { index: 1, name: "b".into() }],
        leaves: vec![
            Leaf { name: "l0".into(), rail: 0, pod: "p".into(), ..Leaf::default() },
            Leaf { name: "l1".into(), rail: 1, pod: "p".into(), ..Leaf::default() },
        ],
        links: vec![link("rail0", "l0"), link("rail1", "l1")],
        ..Fabric::default()
    };
    let apply = |fabric: &Fabric, dry_run| Event::ApplyFabric {
        fabric: Box::new(fabric.clone()),
        allow_shrink: false,
        dry_run,
    };
    let mut bad = fabric.clone();
    bad.links.push(link("rail0", "l1"));
    bad.leaves.push(Leaf { name: "l0".into(), rail: 1, pod: "p".into(), ..Leaf::default() });
    let CoreError::FabricInvalid { findings } = w.refused(apply(&bad, false)) else { panic!() };
    assert!(findings.len() >= 2, "{findings:?}");
    let before = w.state.clone();
    let Reply::Fabric { findings, .. } = w.ok(apply(&fabric, true)) else { panic!() };
    assert_eq!(findings.len(), 3, "three nodes are not cabled: {findings:?}");
    assert!(w.state.same(&before), "a dry run changes nothing");
    let Reply::Fabric { fabric: first, .. } = w.ok(apply(&fabric, false)) else { panic!() };
    assert_eq!(first.generation, 1);
    let Reply::Fabric { fabric: same, .. } = w.ok(apply(&fabric, false)) else { panic!() };
    assert_eq!(same.generation, 1);
    fabric.links.pop();
    let Reply::Fabric { fabric: next, .. } = w.ok(apply(&fabric, false)) else { panic!() };
    assert_eq!(next.generation, 2);
    let delete = || Event::DeleteFabric { name: "f".to_owned(), if_version: 0, dry_run: false };
    w.ok(delete());
    assert!(matches!(w.refused(delete()), CoreError::FabricNotFound));
}

#[test]
fn a_change_of_what_was_changed_meanwhile_is_refused() {
    let mut w = World::new();
    let update = |version| Event::UpdateNode {
        name: name(0),
        change: crate::NodeChange::unschedulable(true, "repair"),
        if_version: version,
    };
    let version = w.state.version(&Key::Node(name(0))).unwrap();
    assert!(matches!(w.refused(update(version + 1)), CoreError::Conflict { .. }));
    let Reply::Node(node) = w.ok(update(version)) else { panic!() };
    assert!(node.unschedulable && node.generation == 2);
    assert!(matches!(w.refused(update(version)), CoreError::Conflict { .. }));
    assert!(w.state.version(&Key::Node(name(0))).unwrap() > version);
    w.submit("a", spec(4, 0));
    assert!(w.codes("a").contains(&"NodeUnschedulable".to_owned()));
}

#[test]
fn a_store_with_a_job_twice_is_named_and_nothing_is_built() {
    let mut w = World::new();
    for name in ["one", "two", "three"] {
        w.ok(submit(name, spec(1, 1)));
    }
    let load = |edit: &dyn Fn(&mut Stored)| {
        let mut stored = stored(&w.stored);
        edit(&mut stored);
        State::load(Config::default(), 9, w.now, stored).map_err(|error| error.findings)
    };
    let twice = |id: &str| vec![format!("job '{id}': its name or uid is stored twice")];
    assert_eq!(load(&|_| {}).map(|_| ()), Ok(()));
    let same_name = load(&|stored| {
        let mut other = Job::clone(&stored.jobs[0].0);
        other.uid = JobUid::from_random([7; 16]);
        stored.jobs.push((Arc::new(other), 3));
    });
    let name = |at: usize| stored(&w.stored).jobs[at].0.id.to_string();
    let found = same_name.unwrap_err();
    assert!(found.contains(&twice(&name(0))[0]), "{found:?}");
    let same_uid = load(&|stored| {
        let mut other = Job::clone(&stored.jobs[2].0);
        other.uid = stored.jobs[0].0.uid;
        stored.jobs[2] = (Arc::new(other), 3);
    });
    assert!(same_uid.unwrap_err().iter().any(|finding| finding.contains("stored twice")));
}
