//! Placement, queues, reservations, arrays: round trips, and every wrong field named.

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*, sample::select};
use prost::Message as _;
use proto_model::{
    Algorithm, Arrange, ArrayPlace, ArraySpec, Authority, Certification, ClassMembers, ClassPreemption,
    Component, ComponentName, Dependency, DependencyWhen, EngineOptions, Eta, FailurePolicy, Gang, GpuModel,
    Group, IsolationPolicy, Job, JobHold, JobId, JobLimits, JobName, JobSpec, JobStatus, JobUid, NodeName,
    NodePlace, Objective, PastAttempt, Pattern, Phase, Placement, PlacementRequest, Preemption, Promise,
    Queue, QueueName, Quota, RailLoss, RailProtection, RailRequest, RankExit, Reason, ReasonCode, Replace,
    Requeue, Reservation, ReservationName, ReservationNodes, Role, ScheduleName, ScheduledRun, ServiceClass,
    ServiceClassName, Shape, Tenant, TenantName, Term, Timestamp, Toleration, UserLimits, Within, Work,
    flaw::SIGNALS,
};

use super::{FieldErrors, check_job_name, labels, taints, tests::work};
use crate::v1;

fn time() -> impl Strategy<Value = Timestamp> {
    (0_u64..4_000_000_000_000).prop_map(Timestamp)
}

fn duration() -> impl Strategy<Value = Duration> {
    (1_u64..1_000_000).prop_map(Duration::from_millis)
}

fn term() -> impl Strategy<Value = Term> {
    let values = || prop::collection::btree_set("[a-z0-9]{0,3}", 1..4);
    // Keys differ, so that terms never contradict each other.
    prop_oneof![
        ("i[a-z]", values()).prop_map(|(key, values)| Term::In(key, values)),
        ("n[a-z]", values()).prop_map(|(key, values)| Term::NotIn(key, values)),
        "e[a-z]".prop_map(Term::Exists),
        "a[a-z]".prop_map(Term::Absent),
        prop::collection::btree_set("v[a-z]".prop_map(Term::Exists), 1..4).prop_map(Term::Any),
    ]
}

fn placement(nodes: u32) -> impl Strategy<Value = PlacementRequest> {
    let group = (any::<bool>(), any::<bool>()).prop_map(move |(leaves, required)| {
        let within = if leaves { Within::Leaves } else { Within::Pod };
        vec![Group { size: nodes, within, required }]
    });
    let pattern =
        select(vec![Pattern::Ring, Pattern::AllToAll, Pattern::Pipeline(nodes), Pattern::Pipeline(1)]);
    let place = prop_oneof![
        Just((Within::Fabric, Arrange::Spread)),
        Just((Within::Fabric, Arrange::Pack)),
        Just((Within::Pod, Arrange::Pack)),
        Just((Within::Leaves, Arrange::Pack)),
    ];
    let toleration = (option::of("[a-z]{1,3}"), option::of("[a-z]{0,3}"))
        .prop_map(|(key, value)| Toleration { key, value });
    let exclude = prop::collection::btree_set("n[0-9]{1,3}", 0..9);
    let models = prop::collection::btree_set("[A-Z][0-9]{2,3}( 80GB)?", 0..3);
    (
        prop_oneof![Just(Vec::new()), group],
        pattern,
        place,
        any::<bool>(),
        0..=nodes,
        vec(term(), 0..4),
        vec(toleration, 0..3),
        (exclude, prop::collection::btree_set("m[0-9]{1,3}", 0..9), models),
    )
        .prop_map(
            |(
                groups,
                pattern,
                (within, arrange),
                exclusive,
                spares,
                selector,
                tolerations,
                (exclude, named, models),
            )| {
                let mut request = PlacementRequest {
                    within,
                    groups,
                    arrange,
                    pattern,
                    exclusive,
                    spares,
                    selector,
                    tolerations,
                    exclude: exclude.iter().map(|name| NodeName::new(name).unwrap()).collect(),
                    // Too few of them are refused.
                    nodes: if named.len() > 8 {
                        named.iter().map(|name| NodeName::new(name).unwrap()).collect()
                    } else {
                        Vec::new()
                    },
                    gpu_models: models.into_iter().map(|model| GpuModel::new(model).unwrap()).collect(),
                };
                request.selector.sort();
                request.selector.dedup_by(|a, b| a.key() == b.key());
                request.tolerations.sort();
                request.tolerations.dedup();
                request
            },
        )
}

fn after() -> impl Strategy<Value = Vec<Dependency>> {
    let one = ("[a-z]{1,5}", select(DependencyWhen::ALL))
        .prop_map(|(job, when)| Dependency { job: JobName::new(job).unwrap(), when });
    vec(one, 0..4).prop_map(|mut list| {
        list.sort();
        list.dedup_by(|a, b| a.job == b.job);
        list
    })
}

fn preemption() -> impl Strategy<Value = Preemption> {
    (any::<bool>(), option::of(duration()), select(&SIGNALS), option::of(duration()), option::of(duration()))
        .prop_map(|(preemptible, grace, (_, signal), checkpoint_every, restart_cost)| Preemption {
            preemptible,
            grace,
            signal,
            checkpoint_every,
            restart_cost,
        })
}

fn array() -> impl Strategy<Value = ArraySpec> {
    (prop::collection::btree_set(0..=ArraySpec::LAST, 1..20), 0_u32..5)
        .prop_map(|(set, at_once)| ArraySpec { indices: set.into_iter().collect(), at_once })
}

fn failure(spares: u32) -> impl Strategy<Value = FailurePolicy> {
    let requeue = select(vec![Requeue::Never, Requeue::OnInfrastructure, Requeue::OnAny]);
    (requeue, any::<bool>(), 1_u32..9, select(RailLoss::ALL)).prop_map(
        move |(requeue, any, times, on_rail_loss)| {
            let replace = match (any, spares) {
                (true, _) => Replace::Any,
                (false, 0) => Replace::Never,
                (false, _) => Replace::Spares,
            };
            let none = |never| if never { 0 } else { times };
            FailurePolicy {
                requeue,
                max_restarts: none(requeue == Requeue::Never),
                replace,
                max_replacements: none(replace == Replace::Never),
                on_rail_loss,
            }
        },
    )
}

/// Any spec that a user can ask for.
pub(super) fn spec() -> impl Strategy<Value = JobSpec> {
    let gang = (1_u32..100, 0_u32..9, 1_u32..9, 1_u32..100, (0_u32..99, 0_u64..99));
    gang.prop_flat_map(|(nodes, gpus, ranks, least, (cpus, memory))| {
        let placement = placement(nodes).prop_flat_map(|place| (failure(place.spares), Just(place)));
        let turn = (option::of("[a-z]{1,9}"), option::of(time()), option::of("[a-z]{1,9}"), after());
        let rest = (option::of(array()), preemption(), work(), -1000_i32..=1000, duration(), 0_usize..99);
        let gang =
            Gang { cpus_per_node: cpus, memory_per_node: memory << 30, ..Gang::new(nodes, gpus, ranks) };
        (Just((gang, least)), placement, turn, rest)
    })
    .prop_map(|((mut gang, least), (failure, mut placement), turn, rest)| {
        if gang.gpus_per_node == 0 {
            placement.gpu_models.clear();
        }
        let (queue, begin, reservation, after) = turn;
        let (array, preemption, work, priority, length, any) = rest;
        let whole = placement.groups.is_empty() && !matches!(placement.pattern, Pattern::Pipeline(2..));
        if whole {
            gang.min_nodes = least.min(gang.nodes);
        }
        let odd = any % 2 == 1;
        JobSpec {
            rails: RailRequest {
                required: gang.nodes % 5,
                allow_partial: odd,
                none: false,
                avoid_drained: gang.nodes % 3 == 0,
            },
            placement,
            queue: queue.map(|name| QueueName::new(name).unwrap()),
            service_class: odd.then(|| ServiceClassName::new("short").unwrap()),
            priority,
            time_limit: odd.then_some(length),
            expected: (any % 3 == 0).then_some(length / 2),
            begin,
            start_before: begin.map(|begin| begin.plus(length)),
            deadline: begin.map(|begin| begin.plus(2 * length).plus(Duration::from_millis(1))),
            reservation: reservation.map(|name| ReservationName::new(name).unwrap()),
            after,
            array,
            preemption,
            grace_period: length,
            failure,
            certification: Certification::ALL[any % 3],
            engine: EngineOptions {
                checksum: any % 3 == 0,
                reproducible: any % 5 > 0,
                algorithm: Algorithm::ALL.get(any % 7).copied(),
                queue_pairs: 1 + (any % 8) as u32,
                protection: RailProtection::ALL[any % 3],
            },
            ..JobSpec::new(gang, work)
        }
    })
    .prop_map(of_components)
}

/// One spec in some is of components, where it may be.
fn of_components(mut spec: JobSpec) -> JobSpec {
    let place = &mut spec.placement;
    let alike = matches!(place.pattern, Pattern::Pipeline(_)) || !place.groups.is_empty();
    if alike
        || spec.gang.nodes.is_multiple_of(2)
        || matches!(spec.work, Work::Allocation(_))
        || place.spares > 0
    {
        return spec;
    }
    place.arrange = Arrange::Pack;
    let component = |(name, gpus): (&str, u32)| Component {
        name: ComponentName::new(name).unwrap(),
        nodes: spec.gang.nodes,
        gpus_per_node: gpus,
        ranks_per_node: spec.gang.ranks_per_node,
        cpus_per_node: spec.gang.cpus_per_node,
        memory_per_node: spec.gang.memory_per_node,
        gpu_models: if gpus > 0 { place.gpu_models.clone() } else { Default::default() },
    };
    spec.components = [("learner", spec.gang.gpus_per_node), ("actor", 0)].map(component).to_vec();
    spec.gang = Component::gang(&spec.components);
    spec
}

fn tenant(text: &str) -> TenantName {
    TenantName::new(text).unwrap()
}

fn shape() -> impl Strategy<Value = Shape> {
    (0_u32..3, 0_u32..3, 0_u32..3).prop_map(|(pods, nodes, gpus)| Shape { pods, nodes, gpus })
}

fn queue() -> impl Strategy<Value = Queue> {
    let patience = || (1_u64..=90 * 86_400).prop_map(Duration::from_secs);
    let hours = || option::of(1..=Objective::GPU_HOURS_MAX);
    let put_back = |of: fn(Duration) -> Objective| {
        (patience(), hours()).prop_map(move |(patience, hours)| of(patience).with_gpu_hours(hours))
    };
    let objective =
        prop_oneof![put_back(Objective::mean_wait), put_back(Objective::large_first), Just(Objective::Fair)];
    let parts = (shape(), option::of("p[a-z]{0,5}"), option::of(3_u32..99), 1_u32..99, time());
    (parts, option::of(objective)).prop_map(|((guaranteed, parent, limit, weight, created), objective)| {
        Queue {
            tenant: tenant("nlp"),
            name: QueueName::new("research").unwrap(),
            parent: parent.map(|name| QueueName::new(name).unwrap()),
            guaranteed,
            limit,
            weight,
            objective,
            uid: "q1".into(),
            generation: u64::from(weight),
            created,
        }
    })
}

fn reservation() -> impl Strategy<Value = Reservation> {
    let names = prop::collection::btree_set("n[0-9]{1,3}", 1..9).prop_map(|names| {
        ReservationNodes::Names(names.iter().map(|name| NodeName::new(name).unwrap()).collect())
    });
    let count = (1_u32..99, 0_u32..4)
        .prop_map(|(nodes, pods_at_most)| ReservationNodes::Count { nodes, pods_at_most });
    (prop_oneof![names, count], time(), 1_u64..100_000, any::<bool>(), "[^\0]{0,20}").prop_map(
        |(nodes, start, seconds, maintenance, reason)| Reservation {
            name: ReservationName::new("upgrade").unwrap(),
            uid: "r1".into(),
            generation: 3,
            created: Timestamp(7000),
            nodes,
            start,
            duration: Duration::from_secs(seconds),
            tenants: if maintenance { Vec::new() } else { vec![tenant("nlp"), tenant("cv")] },
            maintenance,
            reason,
        },
    )
}

proptest! {
    #[test]
    fn queues_survive_the_wire(queue in queue()) {
        let bytes = v1::Queue::from(&queue).encode_to_vec();
        prop_assert_eq!(Queue::try_from(v1::Queue::decode(bytes.as_slice()).unwrap()), Ok(queue));
    }

    #[test]
    fn reservations_survive_the_wire(reservation in reservation()) {
        let bytes = v1::Reservation::from(&reservation).encode_to_vec();
        let back = Reservation::try_from(v1::Reservation::decode(bytes.as_slice()).unwrap());
        prop_assert_eq!(back, Ok(reservation));
    }

    #[test]
    fn quotas_survive_the_wire(guaranteed in shape(), gpus in 2_u32..99, (jobs, weight) in (0_u32..9, 1_u32..9), stored_bytes in 0_u64..u64::MAX) {
        let quota = Quota { gpus, jobs, guaranteed, weight, stored_bytes, schedules: jobs };
        let tenant = Tenant {
            name: tenant("nlp"),
            uid: "t".into(),
            generation: 1,
            created: Timestamp(1000),
            description: String::new(),
            quota,
            isolation: if jobs % 2 == 0 { IsolationPolicy::BestEffort } else { IsolationPolicy::Required },
        };
        prop_assert_eq!(Tenant::try_from(v1::Tenant::from(&tenant)), Ok(tenant));
    }

    #[test]
    fn jobs_survive_the_store(spec in spec(), times in 0_u32..9, index in 0_u32..9) {
        let place = NodePlace {
            node: NodeName::new("n1").unwrap(),
            pod: "p".into(),
            gpus: vec![0, 3],
            nics: Vec::new(),
            remapped: false,
            cpus: times,
            memory_bytes: u64::from(index) << 30,
        };
        let placement = Placement {
            spares: vec![place],
            cut: u64::from(times) << 40,
            exclusive: index % 2 == 0,
            repaired: index % 3 == 0,
            ..Placement::default()
        };
        let status = JobStatus {
            phase: Phase::Running,
            reasons: Vec::new(),
            placement: Some(placement.into()),
            attempt: 2,
            submitted: Timestamp(1000),
            started: None,
            ended: None,
            exits: Vec::new(),
            result: None,
            trace_parent: String::new(),
            cancel_requested: false,
            array: Some(ArrayPlace { array: JobName::new("a").unwrap(), index, size: 9 }),
            preempted: times,
            restarts: times + 1,
            replaced: times + 2,
            eta: Some(Eta {
                start: Timestamp(3000),
                earliest: Timestamp(2000),
                latest: Timestamp(9000),
                promise: Promise::Slack,
                planned: Some(Timestamp(8000)),
            }),
            holds: vec![JobHold {
                role: Role::Admin,
                by: "root".into(),
                reason: "later".into(),
                since: Timestamp(4000),
                suspended: times > 1,
            }],
            submitter: (times > 0).then(|| Authority { role: Role::User, user: "ann".into() }),
            schedule: (index > 3).then(|| ScheduledRun {
                schedule: ScheduleName::new("nightly").unwrap(),
                time: Timestamp(60_000),
            }),
            past_attempts: (0..times)
                .map(|attempt| {
                    PastAttempt {
                        attempt,
                        started: (attempt > 0).then_some(Timestamp(1500)),
                        ended: Timestamp(1600),
                        reasons: vec![Reason::new(ReasonCode::RankExited, "rank 0 ended with 1").since(Timestamp(1600))],
                        exits: vec![RankExit { rank: 0, code: 1, signal: 0, time: Timestamp(1600), usage: proto_model::RankUsage::default() }],
                        nodes: vec![NodeName::new("n1").unwrap()],
                    }
                    .into()
                })
                .collect(),
        };
        let job = Job {
            id: JobId { tenant: tenant("nlp"), name: JobName::new(format!("a-{index}")).unwrap() },
            uid: JobUid::from_random([7; 16]),
            labels: Default::default(),
            generation: 1,
            spec: spec.into(),
            status,
        };
        let bytes = v1::Job::from(&job).encode_to_vec();
        prop_assert_eq!(Job::try_from(v1::Job::decode(bytes.as_slice()).unwrap()), Ok(job));
    }
}

fn class() -> impl Strategy<Value = ServiceClass> {
    let job =
        (option::of(-1000_i32..0), option::of(0_i32..1000), option::of(duration()), option::of(1_u32..99))
            .prop_map(|(priority_min, priority_max, time_limit_max, nodes_max)| JobLimits {
                priority_min,
                priority_max,
                priority_default: priority_min,
                time_limit_max,
                time_limit_default: time_limit_max.map(|most| most / 2),
                nodes_max,
                gpus_max: nodes_max.map(|nodes| nodes - 1),
                grace_period_max: time_limit_max,
            });
    let user = (option::of(0_u32..9), option::of(0_u32..9), option::of(0_u32..9))
        .prop_map(|(jobs_running, jobs_waiting, gpus)| UserLimits { jobs_running, jobs_waiting, gpus });
    (job, user, any::<bool>(), option::of(any::<bool>()), 0_usize..4).prop_map(
        |(job, user, preempts, preemptible, members)| ServiceClass {
            name: ServiceClassName::new("short").unwrap(),
            uid: "c1".into(),
            generation: 2,
            created: Timestamp(7000),
            description: "x".repeat(members),
            members: ClassMembers {
                tenants: ["nlp", "cv"].into_iter().take(members).map(tenant).collect(),
                queues: (members > 1)
                    .then(|| (tenant("nlp"), QueueName::new("q").unwrap()))
                    .into_iter()
                    .collect(),
                users: (members > 2).then(|| (tenant("cv"), "Ann.B_c".to_owned())).into_iter().collect(),
                roles: [Role::TenantAdmin, Role::User].into_iter().take(members).collect(),
            },
            default_class: preempts,
            preemption: ClassPreemption { preempts, preemptible, grace_period: job.time_limit_max },
            job,
            user,
        },
    )
}

proptest! {
    #[test]
    fn service_classes_survive_the_wire(class in class()) {
        let bytes = v1::ServiceClass::from(&class).encode_to_vec();
        let back = ServiceClass::try_from(v1::ServiceClass::decode(bytes.as_slice()).unwrap());
        prop_assert_eq!(back, Ok(class));
    }
}

#[test]
fn every_wrong_field_of_a_service_class_is_named() {
    let members = v1::ServiceClassMembers {
        tenants: vec!["nlp".into(), "nlp".into(), "NO".into()],
        queues: vec!["q".into()],
        users: vec!["nlp/".into(), "nlp/a b".into()],
        roles: vec![v1::Role::Viewer.into(), 99],
    };
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let limits = v1::JobLimits {
        priority_min: Some(10),
        priority_max: Some(5),
        priority_default: Some(-1001),
        time_limit_max: seconds(10),
        time_limit_default: seconds(20),
        nodes_max: Some(0),
        grace_period_max: seconds(1),
        ..Default::default()
    };
    let preemption = v1::ClassPreemption { grace_period: seconds(2), ..Default::default() };
    let spec = v1::ServiceClassSpec {
        members: Some(members),
        job: Some(limits),
        preemption: Some(preemption),
        ..Default::default()
    };
    let metadata = v1::Metadata { name: "x_y".into(), ..Default::default() };
    let wire = v1::ServiceClass { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
    assert_eq!(
        fields(ServiceClass::try_from(wire)),
        [
            "metadata.name",
            "spec.members.tenants[1]",
            "spec.members.tenants[2]",
            "spec.members.queues[0]",
            "spec.members.users[0]",
            "spec.members.users[1]",
            "spec.members.roles[0]",
            "spec.members.roles[1]",
            "spec.job.priorityDefault",
            "spec.job.priorityMin",
            "spec.job.timeLimitDefault",
            "spec.job.nodesMax",
            "spec.preemption.gracePeriod",
        ]
    );
}

fn fields<T: std::fmt::Debug>(result: Result<T, FieldErrors>) -> Vec<String> {
    result.unwrap_err().0.into_iter().map(|error| error.field).collect()
}

fn job(change: impl FnOnce(&mut v1::JobSpec)) -> Result<JobSpec, FieldErrors> {
    let command = v1::Command { argv: vec!["x".into()], ..Default::default() };
    let mut wire = v1::JobSpec {
        gang: Some(v1::Gang { nodes: 8, ..Default::default() }),
        work: Some(v1::job_spec::Work::Command(command)),
        ..Default::default()
    };
    change(&mut wire);
    JobSpec::try_from(wire)
}

#[test]
fn what_is_not_said_is_the_default_and_stays_unsaid() {
    let spec = job(|_| ()).unwrap();
    assert_eq!(spec, JobSpec::new(Gang::new(8, 0, 1), spec.work.clone()));
    let wire = v1::JobSpec::from(&spec);
    assert_eq!((wire.placement, wire.preemption, wire.array.as_str()), (None, None, ""));
    assert_eq!(wire.gang.unwrap().min_nodes, 0);
    assert!(job(|wire| wire.priority = -1).unwrap().preemption.preemptible);
    // Spares are there to be used.
    let spares = v1::PlacementRequest { spares: 2, ..Default::default() };
    let spec = job(|wire| wire.placement = Some(spares)).unwrap();
    assert_eq!((spec.failure.replace, spec.failure.max_replacements), (Replace::Spares, 3));
    // A term without operator looks for values, or for the label where there are none.
    let term = |values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Term::try_from(v1::SelectorTerm { key: "k".into(), values, ..Default::default() }).unwrap()
    };
    assert_eq!(term(&[]), Term::Exists("k".into()));
    assert_eq!(term(&["v"]), Term::In("k".into(), ["v".to_owned()].into()));
}

#[test]
fn every_wrong_field_of_a_place_is_named() {
    let place = |change: fn(&mut v1::PlacementRequest)| {
        let mut place = v1::PlacementRequest::default();
        change(&mut place);
        fields(job(|wire| wire.placement = Some(place)))
    };
    assert_eq!(place(|p| p.within = 9), ["placement.within"]);
    assert_eq!(place(|p| p.groups = vec![Default::default()]), ["placement.groups[0].size"]);
    assert_eq!(place(|p| p.stage_nodes = 3), ["placement.stageNodes"]);
    assert_eq!(place(|p| p.pattern = 3), ["placement.stageNodes"]);
    assert_eq!(place(|p| (p.pattern, p.stage_nodes) = (3, 5)), ["placement.stageNodes"]);
    assert_eq!(place(|p| (p.arrange, p.within) = (2, 2)), ["placement.arrange"]);
    assert_eq!(place(|p| p.spares = 9), ["placement.spares"]);
    assert_eq!(place(|p| p.spares = u32::MAX), ["placement.spares"]);
    assert_eq!(place(|p| p.exclude = vec!["n[1-".into()]), ["placement.exclude[0]"]);
    assert_eq!(place(|p| p.exclude = vec!["n[1-3]".into(), "n2".into()]), ["placement.exclude[1]"]);
    assert_eq!(place(|p| p.exclude = vec!["n[1-9999]".into()]), ["placement.exclude"]);
    assert_eq!(place(|p| p.exclude = vec!["Node".into()]), ["placement.exclude[0]"]);
    assert_eq!(place(|p| p.exclude = vec![String::new()]), ["placement.exclude[0]"]);
    assert_eq!(place(|p| p.groups = vec![Default::default(); 1000]), ["placement.groups"]);
    assert_eq!(place(|p| p.selector = vec![Default::default(); 1000]), ["placement.selector"]);
    assert_eq!(place(|p| p.tolerations = vec![Default::default(); 1000]), ["placement.tolerations"]);
    let long: fn(&mut v1::PlacementRequest) =
        |p| p.exclude = (0..900).map(|n| format!("{}{n}{}", "a".repeat(58), ["x", "y"][n % 2])).collect();
    assert_eq!(place(long), ["placement"]);
    let term: fn(&mut v1::PlacementRequest) = |p| {
        let absent =
            v1::SelectorTerm { key: "k".into(), operator: 4, values: vec!["v".into()], any_of: Vec::new() };
        let twice = v1::SelectorTerm { values: vec!["v".into(), "v".into()], operator: 1, ..absent.clone() };
        p.selector = vec![absent, twice];
    };
    assert_eq!(place(term), ["placement.selector[0].values", "placement.selector[1].values"]);
    let any: fn(&mut v1::PlacementRequest) = |p| {
        let key = |key: &str| v1::SelectorTerm { key: key.into(), ..Default::default() };
        let of = |any_of: Vec<v1::SelectorTerm>| v1::SelectorTerm { any_of, ..Default::default() };
        let beside = v1::SelectorTerm { key: "k".into(), any_of: vec![key("a")], ..Default::default() };
        let wrong = v1::SelectorTerm { operator: 9, ..key("b") };
        p.selector = vec![
            of(vec![key("a"), key("a")]),
            beside,
            of(vec![key("b"), of(vec![key("c")])]),
            of(vec![key("d"); 65]),
            of(vec![key("e"), wrong]),
        ];
    };
    assert_eq!(
        place(any),
        [
            "placement.selector[0].anyOf",
            "placement.selector[1].anyOf",
            "placement.selector[2].anyOf",
            "placement.selector[3].anyOf",
            "placement.selector[4].anyOf[1].operator",
        ]
    );
    // A job of no GPUs.
    assert_eq!(place(|p| p.gpu_model = vec!["H100".into()]), ["placement.gpuModel"]);
    assert_eq!(
        place(|p| p.gpu_model = vec!["-".into(), "x\n".into()]),
        ["placement.gpuModel[0]", "placement.gpuModel[1]"]
    );
    let twice: fn(&mut v1::PlacementRequest) = |p| p.gpu_model = vec!["H100".into(), "H100".into()];
    assert_eq!(place(twice), ["placement.gpuModel[1]"]);
    assert_eq!(place(|p| p.gpu_model = vec!["H100".into(); 1000]), ["placement.gpuModel"]);
}

#[test]
fn every_wrong_field_of_a_turn_is_named() {
    let one = |change: fn(&mut v1::JobSpec)| fields(job(change));
    assert_eq!(one(|w| w.gang.get_or_insert_default().min_nodes = 9), ["gang.minNodes"]);
    assert_eq!(one(|w| w.rails = Some(v1::RailRequest { none: true, ..Default::default() })), ["rails.none"]);
    assert_eq!(one(|w| w.queue = "A".into()), ["queue"]);
    assert_eq!(one(|w| w.reservation = "-".into()), ["reservation"]);
    assert_eq!(one(|w| w.array = "3-1".into()), ["array"]);
    assert_eq!(one(|w| w.array = "0-99999".into()), ["array"]);
    assert_eq!(one(|w| w.begin_time = Some(prost_types::Timestamp { seconds: -1, nanos: 0 })), ["beginTime"]);
    let zero = Some(prost_types::Duration::default());
    assert_eq!(
        fields(job(|w| (w.expected_duration, w.time_limit) = (zero, zero))),
        ["timeLimit", "expectedDuration"]
    );
    assert_eq!(one(|w| w.after = vec![Default::default()]), ["after[0].job"]);
    assert_eq!(one(|w| w.after = vec![v1::Dependency { job: "a".into(), when: 9 }]), ["after[0].when"]);
    assert_eq!(one(|w| w.after = vec![v1::Dependency { job: "a".into(), when: 0 }; 2]), ["after[1]"]);
    assert_eq!(one(|w| w.after = vec![Default::default(); 1000]), ["after"]);
    let preemption = v1::Preemption { signal: "KILL".into(), ..Default::default() };
    assert_eq!(fields(job(|w| w.preemption = Some(preemption))), ["preemption.signal"]);
    let failure = |replace, max_replacements| {
        let policy = v1::FailurePolicy { replace, max_replacements, ..Default::default() };
        fields(job(|w| w.failure = Some(policy)))
    };
    assert_eq!(failure(2, 1), ["failure.replace"]);
    assert_eq!(failure(1, 1), ["failure.maxReplacements"]);
    assert_eq!(failure(3, 9999), ["failure.maxReplacements"]);
    assert_eq!(failure(77, 0), ["failure.replace"]);
    let itself = job(|w| w.after = vec![v1::Dependency { job: "a".into(), when: 0 }]).unwrap();
    assert_eq!(fields(check_job_name(&JobName::new("a").unwrap(), &itself)), ["after[0].job"]);
    assert_eq!(check_job_name(&JobName::new("b").unwrap(), &itself), Ok(()));
}

#[test]
fn every_wrong_field_of_a_queue_is_named() {
    let of = |change: fn(&mut v1::Queue)| {
        let metadata = v1::Metadata { name: "q".into(), tenant: "t".into(), ..Default::default() };
        let mut wire = v1::Queue { metadata: Some(metadata), ..Default::default() };
        assert!(Queue::try_from(wire.clone()).is_ok());
        change(&mut wire);
        fields(Queue::try_from(wire))
    };
    assert_eq!(of(|w| w.kind = "Job".into()), ["kind"]);
    assert_eq!(of(|w| w.metadata = None), ["metadata", "metadata.tenant", "metadata.name"]);
    assert_eq!(of(|w| w.spec.get_or_insert_default().weight = Some(0)), ["spec.weight"]);
    assert_eq!(of(|w| w.spec.get_or_insert_default().parent = "q".into()), ["spec.parent"]);
    assert_eq!(of(|w| w.spec.get_or_insert_default().parent = "Q".into()), ["spec.parent"]);
    let small: fn(&mut v1::Queue) = |w| {
        let guaranteed = Some(v1::Shape { gpus: 4, ..Default::default() });
        w.spec = Some(v1::QueueSpec { guaranteed, limit: Some(3), ..Default::default() });
    };
    assert_eq!(of(small), ["spec.limit"]);
    assert_eq!(of(|w| w.spec.get_or_insert_default().objective = 9), ["spec.objective"]);
    let patience: fn(&mut v1::Queue) = |w| {
        let spec = w.spec.get_or_insert_default();
        spec.patience = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    };
    assert_eq!(of(patience), ["spec.patience"], "of what is in the order of submits anyway");
    let long: fn(&mut v1::Queue) = |w| {
        let spec = w.spec.get_or_insert_default();
        spec.objective = v1::queue_spec::Objective::MeanWait.into();
        spec.patience = Some(prost_types::Duration { seconds: 91 * 86_400, nanos: 0 });
    };
    assert_eq!(of(long), ["spec.patience"]);
    let hours: fn(&mut v1::Queue) = |w| w.spec.get_or_insert_default().full_delay_gpu_hours = Some(9);
    assert_eq!(of(hours), ["spec.fullDelayGpuHours"], "of no objective that counts them");
    for (hours, is_right) in [(0, false), (1, true), (1_000_000_000, true), (1_000_000_001, false)] {
        let metadata = v1::Metadata { name: "q".into(), tenant: "t".into(), ..Default::default() };
        let spec = v1::QueueSpec {
            objective: v1::queue_spec::Objective::LargeFirst.into(),
            full_delay_gpu_hours: Some(hours),
            ..Default::default()
        };
        let wire = v1::Queue { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
        assert_eq!(Queue::try_from(wire).is_ok(), is_right, "{hours}");
    }
}

#[test]
fn a_queue_that_says_no_patience_has_the_usual_one() {
    let metadata = v1::Metadata { name: "q".into(), tenant: "t".into(), ..Default::default() };
    let objective = v1::queue_spec::Objective::LargeFirst.into();
    let spec = v1::QueueSpec { objective, ..Default::default() };
    let wire = v1::Queue { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
    let patience = Objective::LARGE_FIRST_PATIENCE;
    assert_eq!(Queue::try_from(wire).unwrap().objective, Some(Objective::large_first(patience)));
}

#[test]
fn every_wrong_field_of_a_reservation_is_named() {
    let of = |change: fn(&mut v1::ReservationSpec)| {
        let mut spec = v1::ReservationSpec {
            count: 2,
            start: Some(prost_types::Timestamp { seconds: 9, nanos: 0 }),
            duration: Some(prost_types::Duration { seconds: 9, nanos: 0 }),
            tenants: vec!["t".into()],
            ..Default::default()
        };
        change(&mut spec);
        let metadata = Some(v1::Metadata { name: "r".into(), ..Default::default() });
        Reservation::try_from(v1::Reservation { metadata, spec: Some(spec), ..Default::default() })
    };
    assert!(of(|_| ()).is_ok());
    let of = |change| fields(of(change));
    assert_eq!(of(|s| s.count = 0), ["spec.nodes"]);
    assert_eq!(of(|s| s.count = u32::MAX), ["spec.count"]);
    assert_eq!(of(|s| s.nodes = vec!["n1".into()]), ["spec.count"]);
    assert_eq!(of(|s| (s.count, s.nodes) = (0, vec!["n[1-2],n2".into()])), ["spec.nodes[0]"]);
    assert_eq!(of(|s| (s.count, s.nodes) = (0, vec!["n[1-1000000]".into()])), ["spec.nodes"]);
    assert_eq!(of(|s| (s.count, s.nodes, s.pods_at_most) = (0, vec!["n".into()], 1)), ["spec.podsAtMost"]);
    assert_eq!(of(|s| s.start = None), ["spec.start"]);
    assert_eq!(of(|s| s.duration = None), ["spec.duration"]);
    assert_eq!(of(|s| s.duration = Some(Default::default())), ["spec.duration"]);
    assert_eq!(of(|s| s.duration = Some(prost_types::Duration { seconds: -5, nanos: 0 })), ["spec.duration"]);
    assert_eq!(of(|s| s.maintenance = true), ["spec.tenants"]);
    assert_eq!(of(|s| s.tenants = Vec::new()), ["spec.tenants"]);
    assert_eq!(
        of(|s| s.tenants = vec!["t".into(), "T".into(), "t".into()]),
        ["spec.tenants[1]", "spec.tenants[2]"]
    );
    assert_eq!(of(|s| s.tenants = vec!["t".into(); 5000]), ["spec.tenants"]);
    assert_eq!(of(|s| s.reason = "x".repeat(2000)), ["spec.reason"]);
}

#[test]
fn labels_and_taints_are_checked() {
    let pairs = |key: &str, value: &str| labels([(key.to_owned(), value.to_owned())].into());
    assert!(pairs("gpu.model", "H100").is_ok());
    assert_eq!(fields(pairs("", "x")), ["labels"]);
    assert_eq!(fields(pairs("a", "x y")), ["labels.a"]);
    let taint = |key: &str| v1::Taint { key: key.into(), value: String::new() };
    assert_eq!(taints(vec![taint("a"), taint("b")]).unwrap().len(), 2);
    assert_eq!(fields(taints(vec![taint("a"), taint("a")])), ["taints[1]"]);
    assert_eq!(fields(taints(vec![taint("-")])), ["taints[0].key"]);
    let many: Vec<_> = (0..65).map(|n| taint(&format!("k{n}"))).collect();
    assert_eq!(fields(taints(many)), ["taints"]);
}

/// What is behind all that is planned has a time that no calendar holds.
#[test]
fn a_start_that_nobody_can_say_has_no_latest_time() {
    let eta = Eta::estimate(Timestamp(3000), Timestamp(2000), Timestamp(u64::MAX));
    let wire = v1::Eta::from(eta);
    assert_eq!(wire.latest, None);
    assert_eq!(Eta::try_from(wire).unwrap(), eta);
}
