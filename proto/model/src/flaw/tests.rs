//! Every flaw by example, and that a spec without any has none.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{
    CommandSpec, Dependency, FailurePolicy, Gang, Group, RailRequest, Requeue, Taint, Toleration, Work,
};

fn spec(nodes: u32) -> JobSpec {
    let argv = vec!["x".to_owned()];
    let work = Work::Command(CommandSpec {
        argv,
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    JobSpec::new(Gang::new(nodes, 8, 8), work)
}

fn fields(change: impl FnOnce(&mut JobSpec)) -> Vec<String> {
    let mut spec = spec(12);
    change(&mut spec);
    let flaws = spec.flaws();
    assert_eq!(spec.check().is_ok(), flaws.is_empty());
    assert!(flaws.iter().all(|flaw| !flaw.to_string().is_empty()));
    flaws.iter().map(SpecFlaw::field).collect()
}

fn set(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn gangs() {
    assert_eq!(fields(|_| ()), [""; 0]);
    assert_eq!(fields(|s| s.gang = Gang::new(0, 8, 8)), ["gang.nodes"]);
    assert_eq!(fields(|s| s.gang.min_nodes = 13), ["gang.minNodes"]);
    assert_eq!(fields(|s| s.gang.min_nodes = 0), ["gang.minNodes"]);
    assert_eq!(fields(|s| s.gang.min_nodes = 1), [""; 0]);
    let none = RailRequest { none: true, ..RailRequest::default() };
    assert_eq!(fields(|s| s.rails = none), ["rails.none"]);
    let one = |rails: RailRequest| fields(|s| (s.gang, s.rails) = (Gang::new(1, 1, 1), rails));
    assert_eq!(one(none), [""; 0]);
    assert_eq!(one(RailRequest { required: 1, ..none }), ["rails.none"]);
    assert_eq!(one(RailRequest { allow_partial: true, ..none }), ["rails.none"]);
}

#[test]
fn groups() {
    let group = |size, within| Group { size, within, required: true };
    let of = |groups: &[Group]| fields(|s| s.placement.groups = groups.to_vec());
    assert_eq!(of(&[group(4, Within::Leaves), group(12, Within::Pod)]), [""; 0]);
    assert_eq!(of(&[group(5, Within::Pod)]), ["placement.groups[0].size"]);
    assert_eq!(of(&[group(0, Within::Pod)]), ["placement.groups[0].size"]);
    assert_eq!(of(&[group(24, Within::Pod)]), ["placement.groups[0].size"]);
    assert_eq!(of(&[group(4, Within::Pod), group(4, Within::Leaves)]), ["placement.groups[1].size"]);
    assert_eq!(of(&[group(4, Within::Pod), group(6, Within::Pod)]), ["placement.groups[1].size"]);
    assert_eq!(of(&[group(4, Within::Fabric)]), ["placement.groups[0].within"]);
    let many = vec![group(1, Within::Pod); 65];
    assert!(of(&many).contains(&"placement.groups".to_owned()));
    let elastic = |least: u32| {
        fields(|s| {
            s.gang.min_nodes = least;
            s.placement.groups = vec![group(4, Within::Pod)];
            s.placement.pattern = Pattern::Pipeline(4);
        })
    };
    assert_eq!(elastic(8), [""; 0]);
    assert_eq!(elastic(6), ["placement.groups[0].size", "placement.stageNodes"]);
    assert_eq!(fields(|s| s.placement.pattern = Pattern::Pipeline(0)), ["placement.stageNodes"]);
    assert_eq!(fields(|s| s.placement.pattern = Pattern::Pipeline(5)), ["placement.stageNodes"]);
    let spread = |within| fields(|s| (s.placement.arrange, s.placement.within) = (Arrange::Spread, within));
    assert_eq!(spread(Within::Pod), ["placement.arrange"]);
    assert_eq!(spread(Within::Fabric), [""; 0]);
}

#[test]
fn spares_and_replacements() {
    let of = |spares, replace, limit| {
        fields(|s| {
            s.placement.spares = spares;
            s.failure =
                FailurePolicy { replace, max_replacements: limit, ..FailurePolicy::new(Requeue::Never, 0) };
        })
    };
    assert_eq!(of(2, Replace::Spares, 2), [""; 0]);
    assert_eq!(of(0, Replace::Any, 1), [""; 0]);
    assert_eq!(of(13, Replace::Any, 1), ["placement.spares"]);
    assert_eq!(of(1, Replace::Never, 0), ["placement.spares"]);
    assert_eq!(of(0, Replace::Spares, 1), ["failure.replace"]);
    assert_eq!(of(0, Replace::Never, 1), ["failure.maxReplacements"]);
    assert_eq!(of(1, Replace::Spares, 0), ["failure.maxReplacements"]);
}

#[test]
fn selectors() {
    let of = |terms: &[Term]| fields(|s| s.placement.selector = terms.to_vec());
    let within = |key: &str, values: &[&str]| Term::In(key.into(), set(values));
    let without = |key: &str, values: &[&str]| Term::NotIn(key.into(), set(values));
    let second = ["placement.selector[1]"];
    assert_eq!(of(&[within("a", &["x", "y"]), without("a", &["x"]), Term::Exists("a".into())]), [""; 0]);
    assert_eq!(of(&[Term::Exists("a".into()), Term::Absent("b".into())]), [""; 0]);
    assert_eq!(of(&[within("a", &["x"]), within("a", &["y"])]), second);
    assert_eq!(of(&[without("a", &["x", "y"]), within("a", &["y"])]), second);
    assert_eq!(of(&[within("a", &["x"]), Term::Absent("a".into())]), second);
    assert_eq!(of(&[Term::Absent("a".into()), Term::Exists("a".into())]), second);
    assert_eq!(of(&[Term::Exists("a".into()), Term::Exists("a".into())]), second);
    assert_eq!(of(&[within("a", &[])]), ["placement.selector[0].values"]);
    assert_eq!(of(&[within("a b", &["x"])]), ["placement.selector[0]"]);
    assert_eq!(of(&[within("a", &["x,y"])]), ["placement.selector[0]"]);
    let many: Vec<Term> = (0..65).map(|n| Term::Exists(format!("k{n}"))).collect();
    assert_eq!(of(&many), ["placement.selector"]);
    let any = |terms: &[Term]| Term::Any(terms.iter().cloned().collect());
    let exists = |key: &str| Term::Exists(key.into());
    assert_eq!(of(&[any(&[exists("a100"), exists("h100")]), exists("a100")]), [""; 0]);
    assert_eq!(of(&[any(&[])]), ["placement.selector[0].anyOf"]);
    assert_eq!(of(&[any(&[any(&[exists("a")])])]), ["placement.selector[0].anyOf"]);
    assert_eq!(of(&[any(&[exists("a"), within("b", &[])])]), ["placement.selector[0].values"]);
    assert_eq!(of(&[any(&[exists("a"), exists("b c")])]), ["placement.selector[0]"]);
    assert_eq!(of(&[any(&many)]), ["placement.selector"]);
    let labels = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
    let either = any(&[exists("a100"), Term::Absent("old".into())]);
    assert!(either.holds(&labels(&["a100", "old"])) && either.holds(&labels(&[])));
    assert!(!either.holds(&labels(&["old"])) && !any(&[]).holds(&labels(&["a"])));
}

#[test]
fn models_of_gpu() {
    let of = |models: &[&str], gpus| {
        fields(|s| {
            s.gang.gpus_per_node = gpus;
            s.placement.gpu_models =
                models.iter().map(|model| crate::GpuModel::new(*model).unwrap()).collect();
        })
    };
    assert_eq!(of(&["H100", "H200"], 8), [""; 0]);
    assert_eq!(of(&["H100"], 0), ["placement.gpuModel"]);
    // Eight ranks of a node: each can use one instance.
    assert_eq!(of(&["1g.10gb"], 8), [""; 0]);
    assert_eq!(of(&["H100", "1g.10gb"], 16), ["gang.ranksPerNode"]);
    assert_eq!(of(&["H100"], 16), [""; 0]);
    let many: Vec<String> = (0..65).map(|n| format!("X{n}")).collect();
    assert_eq!(of(&many.iter().map(String::as_str).collect::<Vec<_>>(), 8), ["placement.gpuModel"]);
}

#[test]
fn tolerations_and_exclusions() {
    let toleration = |key: Option<&str>, value: Option<&str>| Toleration {
        key: key.map(str::to_owned),
        value: value.map(str::to_owned),
    };
    let of = |list: &[Toleration]| fields(|s| s.placement.tolerations = list.to_vec());
    assert_eq!(of(&[toleration(None, None), toleration(Some("a"), Some(""))]), [""; 0]);
    assert_eq!(of(&[toleration(Some("a"), None), toleration(Some("a"), None)]), ["placement.tolerations[1]"]);
    assert_eq!(of(&[toleration(Some(""), None)]), ["placement.tolerations[0]"]);
    let taint = Taint { key: "a".into(), value: "v".into() };
    assert!(toleration(Some("a"), None).covers(&taint) && !toleration(Some("a"), Some("w")).covers(&taint));
    let node = |n: &str| NodeName::new(n).unwrap();
    assert_eq!(fields(|s| s.placement.exclude = vec![node("a"), node("b")]), [""; 0]);
    assert_eq!(
        fields(|s| s.placement.exclude = vec![node("a"), node("b"), node("a")]),
        ["placement.exclude[2]"]
    );
}

#[test]
fn dependencies_and_arrays() {
    let job = |name: &str| JobName::new(name).unwrap();
    let after = |list: &[(&str, DependencyWhen)]| {
        let list: Vec<Dependency> =
            list.iter().map(|(name, when)| Dependency { job: job(name), when: *when }).collect();
        JobSpec { after: list, ..spec(1) }
    };
    use DependencyWhen::{Ended, Failed, Started, Succeeded};
    let of =
        |list: &[(&str, DependencyWhen)]| after(list).flaws().iter().map(SpecFlaw::field).collect::<Vec<_>>();
    assert_eq!(of(&[("a", Succeeded), ("a", Started), ("b", Ended)]), [""; 0]);
    assert_eq!(of(&[("a", Ended), ("a", Ended)]), ["after[1]"]);
    assert_eq!(of(&[("a", Failed), ("a", Succeeded)]), ["after[1]"]);
    let named = |spec: &JobSpec, name: &str| {
        spec.name_flaws(&job(name)).iter().map(SpecFlaw::field).collect::<Vec<_>>()
    };
    assert_eq!(named(&after(&[("b", Ended), ("a", Ended)]), "a"), ["after[1].job"]);
    let array = ArraySpec::new("0-9").unwrap();
    let spec = JobSpec { array: Some(array), ..after(&[("a-3", Ended), ("a-10", Ended), ("a", Started)]) };
    assert_eq!(named(&spec, "a"), ["after[0].job", "after[2].job"]);
    assert_eq!(named(&spec, &"x".repeat(62)), ["array"]);
    let array = ArraySpec { indices: vec![3, 3], at_once: 0 };
    assert_eq!(fields(|s| s.array = Some(array)), ["array"]);
}

#[test]
fn times_and_signals() {
    let second = Some(Duration::from_secs(1));
    assert_eq!(fields(|s| s.time_limit = Some(Duration::ZERO)), ["timeLimit"]);
    assert_eq!(fields(|s| s.expected = Some(Duration::ZERO)), ["expectedDuration"]);
    assert_eq!(
        fields(|s| s.preemption.checkpoint_every = Some(Duration::ZERO)),
        ["preemption.checkpointEvery"]
    );
    assert_eq!(
        fields(|s| (s.time_limit, s.expected) = (second, Some(Duration::from_secs(2)))),
        ["expectedDuration"]
    );
    assert_eq!(fields(|s| s.preemption.signal = 9), ["preemption.signal"]);
    assert_eq!(fields(|s| s.preemption.signal = 10), [""; 0]);
}
