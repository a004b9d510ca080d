//! Arrays, dependencies and begin times.

use std::time::Duration;

use proto_model::{ArraySpec, Dependency, DependencyWhen, Observed, Phase, Timestamp};

use super::*;

fn array(text: &str, nodes: u32, gpus: u32) -> JobSpec {
    JobSpec { array: Some(ArraySpec::new(text).unwrap()), ..spec(nodes, gpus) }
}

fn after(spec: JobSpec, jobs: &[(&str, DependencyWhen)]) -> JobSpec {
    let on =
        |(job, when): &(&str, DependencyWhen)| Dependency { job: JobName::new(job).unwrap(), when: *when };
    JobSpec { after: jobs.iter().map(on).collect(), ..spec }
}

fn end(w: &mut World, text: &str, code: i32) {
    w.run(text);
    for n in w.nodes(text) {
        let exit = w.exited(text, n, code);
        w.report(n, exit);
    }
    w.tick(Duration::from_millis(1));
}

fn held(w: &World) -> usize {
    w.state.base.jobs.values().filter(|entry| entry.held).count()
}

#[test]
fn one_submit_makes_all_elements_and_so_many_run_at_once() {
    let mut w = World::new();
    let first = w.submit("a", array("0-5:2,7,9%2", 1, 1));
    assert_eq!((first.id.name.as_str(), first.status.array.as_ref().unwrap().size), ("a-0", 5));
    let names: Vec<String> = w.state.array(&id("a")).map(|job| job.id.name.to_string()).collect();
    assert_eq!(names, ["a-0", "a-2", "a-4", "a-7", "a-9"]);
    assert_eq!(w.job("a-4").spec.array.as_ref().unwrap().indices, [4]);
    let phases = |w: &World| w.state.array(&id("a")).map(|job| job.status.phase).collect::<Vec<_>>();
    use Phase::{Completed, Failed, Pending, Reserved};
    assert_eq!(phases(&w), [Reserved, Reserved, Pending, Pending, Pending]);
    assert_eq!(w.codes("a-4"), ["ArrayTurn"]);
    assert!(w.reload(8).index.arrays == w.state.index.arrays && held(&w) == 3);
    end(&mut w, "a-2", 0);
    assert_eq!(phases(&w), [Reserved, Completed, Reserved, Pending, Pending]);
    end(&mut w, "a-0", 1);
    end(&mut w, "a-4", 0);
    assert_eq!(phases(&w), [Failed, Completed, Completed, Reserved, Reserved]);
    let fresh = w.reload(8);
    assert_eq!(fresh.index.arrays, w.state.index.arrays);
}

#[test]
fn parts_of_an_array_are_cancelled_and_removed() {
    let mut w = World::new();
    w.submit("a", array("0-9%1", 1, 1));
    let cancel =
        |indices: &[u32]| Event::Cancel { by: None, id: id("a"), indices: indices.to_vec(), grace: None };
    let delete = |indices: &[u32]| Event::DeleteJob { by: None, id: id("a"), indices: indices.to_vec() };
    w.ok(cancel(&[3, 7, 8, 9]));
    let cancelled =
        |w: &World| w.state.array(&id("a")).filter(|job| job.status.phase == Phase::Cancelled).count();
    assert_eq!(cancelled(&w), 4);
    let error = w.refused(cancel(&[2, 12]));
    assert!(error.to_string().contains("no element 12; it has 10 elements, from 0 to 9"), "{error}");
    assert!(matches!(w.refused(delete(&[])), CoreError::JobActive { .. }));
    w.ok(delete(&[3, 7]));
    assert_eq!(w.state.array(&id("a")).count(), 8);
    w.ok(cancel(&[]));
    w.all("a-0", Observed::Ended);
    assert_eq!(cancelled(&w), 8);
    w.ok(delete(&[]));
    assert_eq!((w.state.array(&id("a")).count(), w.state.jobs(None).count()), (0, 0));
    w.submit("a", spec(1, 1));
}

#[test]
fn an_array_comes_whole_or_not_at_all() {
    let mut w = World::new();
    w.submit("a-3", spec(1, 1));
    assert!(matches!(w.refused(submit("a", array("0-9", 1, 1))), CoreError::NameTaken { .. }));
    w.submit("b", array("0-9", 1, 1));
    assert!(matches!(w.refused(submit("b", spec(1, 1))), CoreError::NameTaken { .. }));
    assert!(matches!(w.refused(submit("c", array("0-9", 1, 5))), CoreError::Infeasible { .. }));
    assert_eq!(w.state.array(&id("c")).count(), 0);
    let long = "x".repeat(62);
    assert!(matches!(w.refused(submit(&long, array("1-20", 1, 1))), CoreError::Invalid { .. }));
    // Repeated: the same.
    let Reply::Job { job, existed: false } = w.ok(submit_as("red", "d", array("1-3", 1, 0), Some(("r", 1))))
    else {
        panic!()
    };
    let Reply::Job { job: again, existed: true } =
        w.ok(submit_as("red", "d", array("1-3", 1, 0), Some(("r", 1))))
    else {
        panic!()
    };
    assert_eq!((job.uid, w.state.array(&id("d")).count()), (again.uid, 3));
}

#[test]
fn jobs_start_when_those_they_wait_for_have_come_so_far() {
    use DependencyWhen::{Ended, Failed, Started, Succeeded};
    let mut w = World::new();
    w.submit("prep", spec(1, 1));
    w.submit("train", after(spec(1, 1), &[("prep", Succeeded)]));
    w.submit("watch", after(spec(1, 0), &[("prep", Started)]));
    w.submit("clean", after(spec(1, 0), &[("prep", Ended), ("train", Ended)]));
    w.submit("mourn", after(spec(1, 0), &[("prep", Failed)]));
    assert_eq!((w.phase("train"), w.codes("train")), (Phase::Pending, vec!["Dependency".to_owned()]));
    assert!(w.job("train").status.reasons[0].message.contains("waits until 'prep' has succeeded"));
    w.run("prep");
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("watch"), w.phase("train")), (Phase::Reserved, Phase::Pending));
    assert_eq!(w.reload(8).index.queue, w.state.index.queue);
    let n = w.nodes("prep")[0];
    let exit = w.exited("prep", n, 0);
    w.report(n, exit);
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("train"), w.phase("clean")), (Phase::Reserved, Phase::Pending));
    assert_eq!((w.phase("mourn"), w.codes("mourn")), (Phase::Failed, vec!["DependencyNeverMet".to_owned()]));
    end(&mut w, "train", 3);
    assert_eq!(w.phase("clean"), Phase::Reserved);
}

#[test]
fn what_can_never_be_met_ends_the_whole_chain() {
    use DependencyWhen::Succeeded;
    let mut w = World::new();
    w.submit("a", array("1-2", 1, 1));
    w.submit("b", after(spec(1, 1), &[("a", Succeeded)]));
    w.submit("c", after(spec(1, 1), &[("b", Succeeded)]));
    w.submit("d", after(spec(1, 1), &[("a-1", Succeeded)]));
    end(&mut w, "a-1", 0);
    assert_eq!((w.phase("b"), w.phase("d")), (Phase::Pending, Phase::Reserved));
    end(&mut w, "a-2", 1);
    assert_eq!((w.phase("b"), w.phase("c")), (Phase::Failed, Phase::Failed));
    assert!(
        w.job("c").status.reasons[0].message.contains("'b' has failed"),
        "{:?}",
        w.job("c").status.reasons
    );
    // One that comes too late ends as well.
    w.submit("e", after(spec(1, 1), &[("a", Succeeded)]));
    w.tick(Duration::from_millis(1));
    assert_eq!(w.phase("e"), Phase::Failed);
}

#[test]
fn unknown_jobs_circles_and_removal_are_refused() {
    use DependencyWhen::Ended;
    let mut w = World::new();
    w.submit("prepare", spec(1, 1));
    let error = w.refused(submit("x", after(spec(1, 1), &[("prepair", Ended)])));
    assert!(error.to_string().contains("no job 'red/prepair'; did you mean 'prepare'?"), "{error}");
    let error = w.refused(submit("x", after(spec(1, 1), &[("x", Ended)])));
    assert!(error.to_string().contains("wait for itself: 'x' waits for 'x'"), "{error}");
    let looped = after(array("1-3", 1, 1), &[("y-2", Ended)]);
    assert!(matches!(w.refused(submit("y", looped)), CoreError::DependencyCycle { .. }));
    w.submit(
        "x",
        JobSpec {
            begin: Some(w.now.plus(Duration::from_secs(60))),
            ..after(spec(1, 1), &[("prepare", Ended)])
        },
    );
    end(&mut w, "prepare", 0);
    let delete = || Event::DeleteJob { by: None, id: id("prepare"), indices: Vec::new() };
    let error = w.refused(delete());
    assert!(error.to_string().contains("job 'red/x' waits for job 'red/prepare'"), "{error}");
    w.tick(Duration::from_secs(61));
    assert_eq!(w.phase("x"), Phase::Reserved);
    w.ok(delete());
}

#[test]
fn a_job_does_not_start_before_its_time() {
    let mut w = World::new();
    let begin = Timestamp(w.now.0 + 30_000);
    w.submit("a", JobSpec { begin: Some(begin), ..spec(1, 1) });
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Pending, vec!["BeginTime".to_owned()]));
    assert_eq!(w.state.next_tick().unwrap().0.min(begin.0), w.state.next_tick().unwrap().0);
    w.tick(Duration::from_secs(29));
    assert_eq!(w.phase("a"), Phase::Pending);
    w.tick(Duration::from_secs(1));
    assert_eq!(w.phase("a"), Phase::Reserved);
}

#[test]
fn a_list_tells_also_why_a_later_job_will_have_no_place() {
    let mut w = World::new();
    let codes = |w: &World, name| -> Vec<String> {
        let reasons = w.state.prospects(&[id(name)], w.now).remove(0).reasons;
        reasons.into_iter().map(|reason| reason.code.to_string()).collect()
    };
    (0..4).for_each(|n| w.disconnect(n));
    w.tick(Duration::from_secs(60));
    let begin = Timestamp(w.now.0 + 3_000_000);
    w.submit("later", JobSpec { begin: Some(begin), ..spec(1, 1) });
    assert_eq!(w.codes("later"), ["BeginTime"]);
    let reported = codes(&w, "later");
    assert!(!reported.is_empty() && reported.iter().all(|code| code != "BeginTime"), "{reported:?}");
    // Of one whose stored reasons say so already, nothing is added.
    w.submit("now", spec(1, 1));
    assert!(!w.codes("now").is_empty());
    assert_eq!(codes(&w, "now"), [""; 0]);
}

#[test]
fn ten_thousand_elements_take_their_turns() {
    let mut w = World::new();
    w.submit("big", array("0-9999%3", 1, 0));
    let running = |w: &World| w.state.index.holding.len();
    assert_eq!((running(&w), held(&w)), (3, 9997));
    w.ok(Event::Cancel { by: None, id: id("big"), indices: Vec::new(), grace: None });
    assert_eq!((running(&w), held(&w)), (3, 0));
}
