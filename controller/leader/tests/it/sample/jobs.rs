//! Jobs.

use std::{net::IpAddr, sync::Arc, time::Duration};

use proto_model::{
    Algorithm, AllocationSpec, Arrange, ArrayPlace, ArraySpec, Authority, Certification, CollectiveOp,
    CollectiveSpec, CommandSpec, Component, ComponentName, Dependency, DependencyWhen, Dtype, EngineOptions,
    EnvSource, Eta, FailurePolicy, Gang, GpuModel, Group, Job, JobHold, JobId, JobSpec, JobStatus,
    LicenseName, NicPlace, NodePlace, PastAttempt, Pattern, Phase, Placement, PlacementRequest, Preemption,
    Promise, RailBytes, RailLoss, RailProtection, RailRequest, RankExit, RankPlace, RankUsage, ReduceOp,
    Replace, Requeue, ReservationName, Role, RunResult, ScheduleName, ScheduledRun, ServiceClassName, Term,
    Timestamp, Toleration, ValuesKind, ValuesName, Within, Work, flaw::SIGNALS,
};

use super::Pick;

const PATTERNS: [Pattern; 3] = [Pattern::Ring, Pattern::AllToAll, Pattern::Pipeline(2)];

impl Pick {
    pub fn job(&mut self) -> Job {
        Job {
            id: JobId { tenant: self.tenant(), name: self.job_name() },
            uid: self.job_uid(),
            labels: self.pairs(),
            generation: self.large(),
            spec: Arc::new(self.job_spec(true)),
            status: self.job_status(),
        }
    }

    /// Without moments if it is a schedule's.
    pub fn job_spec(&mut self, once: bool) -> JobSpec {
        let components = if self.below(3) == 0 { self.components() } else { Vec::new() };
        let gang = if components.is_empty() { self.gang() } else { Component::gang(&components) };
        let alike = components.is_empty();
        let spares = u32::from(alike && self.flag());
        let time_limit = self.some(|pick| pick.span().saturating_mul(2));
        let begin = self.some(Self::time).filter(|_| once);
        let later = |begin: Option<Timestamp>, days: u64| {
            begin.map_or(Timestamp(1 << 42), |begin| begin.plus(Duration::from_secs(days * 86_400)))
        };
        let priority = i32::try_from(self.below(2001)).unwrap() - 1000;
        JobSpec {
            rails: RailRequest {
                required: self.below(9),
                allow_partial: self.flag(),
                none: false,
                avoid_drained: self.flag(),
            },
            placement: self.placement_request(&gang, spares, alike),
            queue: self.some(Self::queue_name),
            service_class: self.some(|pick| ServiceClassName::new(pick.word()).unwrap()),
            licenses: self
                .list(2, |pick| (LicenseName::new(pick.word()).unwrap(), 1 + pick.below(9)))
                .into_iter()
                .collect(),
            priority,
            time_limit,
            expected: self
                .some(Self::span)
                .filter(|expected| time_limit.is_none_or(|limit| *expected < limit)),
            begin,
            start_before: self.some(|_| later(begin, 1)).filter(|_| once),
            deadline: self.some(|_| later(begin, 1000)).filter(|_| once),
            reservation: self.some(|pick| ReservationName::new(pick.word()).unwrap()),
            after: self.after(),
            array: self.some(|pick| ArraySpec::new(pick.one(&["0-9", "1,4,9%2", "0-99:2"])).unwrap()),
            preemption: self.preemption(priority),
            grace_period: self.span(),
            failure: self.failure(spares),
            certification: self.one(Certification::ALL),
            engine: self.engine(),
            work: self.work(alike),
            components,
            gang,
        }
    }

    fn gang(&mut self) -> Gang {
        let nodes = 4 * (1 + self.below(4));
        let mut gang = Gang::new(nodes, 1 + self.below(8), 1 + self.below(8));
        gang.min_nodes = self.one(&[nodes, 4]);
        gang.cpus_per_node = self.below(65);
        gang.memory_per_node = self.one(&[0, 64 << 30]);
        gang
    }

    fn components(&mut self) -> Vec<Component> {
        let part = |pick: &mut Self, name: &str| Component {
            name: ComponentName::new(name).unwrap(),
            nodes: 4,
            gpus_per_node: 1 + pick.below(8),
            ranks_per_node: 1 + pick.below(8),
            cpus_per_node: pick.below(65),
            memory_per_node: pick.one(&[0, 64 << 30]),
            gpu_models: pick.set(1, |_| GpuModel::new("H100").unwrap()),
        };
        vec![part(self, "learner"), part(self, "actors")]
    }

    fn placement_request(&mut self, gang: &Gang, spares: u32, alike: bool) -> PlacementRequest {
        let nodes = self.flag();
        PlacementRequest {
            within: self.one(&[Within::Leaves, Within::Pod, Within::Fabric]),
            groups: self.list(u32::from(alike), |pick| Group {
                size: pick.one(&[2, 4]),
                within: pick.one(&[Within::Leaves, Within::Pod]),
                required: pick.flag(),
            }),
            arrange: Arrange::Pack,
            pattern: self.one(if alike { &PATTERNS } else { &PATTERNS[..2] }),
            exclusive: self.flag(),
            spares,
            selector: self.list(1, |pick| match pick.below(5) {
                0 => Term::In(pick.word(), ["a".to_owned(), "b".to_owned()].into()),
                1 => Term::NotIn(pick.word(), ["a".to_owned()].into()),
                2 => Term::Exists(pick.word()),
                3 => Term::Absent(pick.word()),
                _ => Term::Any([Term::Exists("a".to_owned()), Term::Absent("b".to_owned())].into()),
            }),
            tolerations: self
                .list(1, |pick| Toleration { key: pick.some(Self::word), value: pick.some(Self::word) }),
            exclude: self.list(1, Self::node_name),
            nodes: (0..if nodes { gang.nodes + spares } else { 0 })
                .map(|at| format!("only-{at}").parse().unwrap())
                .collect(),
            gpu_models: self.set(2, |pick| GpuModel::new(pick.one(&["H100", "NVIDIA A100 80GB"])).unwrap()),
        }
    }

    fn after(&mut self) -> Vec<Dependency> {
        let when = self.one(DependencyWhen::ALL);
        self.list(1, |pick| Dependency { job: format!("before-{}", pick.below(9)).parse().unwrap(), when })
    }

    fn preemption(&mut self, priority: i32) -> Preemption {
        if self.flag() {
            return Preemption::of_priority(priority);
        }
        Preemption {
            preemptible: self.flag(),
            grace: self.some(Self::span),
            signal: self.one(&SIGNALS).1,
            checkpoint_every: self.some(Self::span),
            restart_cost: self.some(Self::span),
        }
    }

    fn failure(&mut self, spares: u32) -> FailurePolicy {
        let requeue = self.one(&[Requeue::Never, Requeue::OnInfrastructure, Requeue::OnAny]);
        let replace = if spares > 0 { self.one(&[Replace::Spares, Replace::Any]) } else { Replace::Never };
        FailurePolicy {
            requeue,
            max_restarts: if requeue == Requeue::Never { 0 } else { 1 + self.below(9) },
            replace,
            max_replacements: if replace == Replace::Never { 0 } else { 1 + self.below(9) },
            on_rail_loss: self.one(RailLoss::ALL),
        }
    }

    fn engine(&mut self) -> EngineOptions {
        if self.flag() {
            return EngineOptions::default();
        }
        EngineOptions {
            checksum: self.flag(),
            reproducible: self.flag(),
            algorithm: self.some(|pick| pick.one(Algorithm::ALL)),
            queue_pairs: 1 + self.below(8),
            protection: self.one(&[
                RailProtection::None,
                RailProtection::Integrity,
                RailProtection::Encrypted,
            ]),
        }
    }

    fn env_from(&mut self) -> Vec<EnvSource> {
        self.list(2, |pick| EnvSource {
            variable: pick.one(&["", "TOKEN"]).to_owned(),
            kind: pick.one(&[ValuesKind::Secret, ValuesKind::Config]),
            object: ValuesName::new(pick.word()).unwrap(),
            key: "KEY".to_owned(),
        })
    }

    fn work(&mut self, alike: bool) -> Work {
        match self.below(if alike { 3 } else { 2 }) {
            0 => Work::Command(CommandSpec {
                argv: vec!["./train.sh".to_owned(), self.line()],
                env: self.pairs(),
                env_from: self.env_from(),
                working_dir: self.line(),
            }),
            2 => Work::Allocation(AllocationSpec {
                env: self.pairs(),
                env_from: self.env_from(),
                working_dir: self.line(),
            }),
            _ => Work::Collective(CollectiveSpec {
                op: self.one(&[
                    CollectiveOp::AllReduce,
                    CollectiveOp::AllGather,
                    CollectiveOp::ReduceScatter,
                    CollectiveOp::Broadcast,
                    CollectiveOp::AllToAll,
                    CollectiveOp::Barrier,
                    CollectiveOp::SendRecv,
                ]),
                bytes: u64::from(self.below(1 << 20)) * 8,
                dtype: self.one(&[Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64, Dtype::F16, Dtype::Bf16]),
                reduce: self.one(&[ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max, ReduceOp::Prod]),
                iterations: 1 + self.below(99),
                warmup: 1 + self.below(9),
                verify: self.flag(),
            }),
        }
    }

    fn job_status(&mut self) -> JobStatus {
        JobStatus {
            phase: self.one(&Phase::ALL),
            reasons: self.reasons(),
            placement: self.some(|pick| Arc::new(pick.placement())),
            attempt: self.below(9),
            submitted: self.time(),
            started: self.some(Self::time),
            ended: self.some(Self::time),
            exits: self.list(3, Self::exit),
            result: self.some(Self::result),
            trace_parent: self.line(),
            cancel_requested: self.flag(),
            array: self.some(|pick| ArrayPlace { array: pick.job_name(), index: pick.below(9), size: 10 }),
            preempted: self.below(9),
            restarts: self.below(9),
            replaced: self.below(9),
            eta: self.some(Self::eta),
            holds: self.list(2, |pick| JobHold {
                role: pick.one(&[Role::Admin, Role::TenantAdmin, Role::User]),
                by: pick.word(),
                reason: pick.line(),
                since: pick.time(),
                suspended: pick.flag(),
            }),
            submitter: self.some(Self::authority),
            schedule: self.some(|pick| ScheduledRun {
                schedule: ScheduleName::new(pick.word()).unwrap(),
                time: pick.time(),
            }),
            past_attempts: self.list(2, |pick| {
                Arc::new(PastAttempt {
                    attempt: pick.below(9),
                    started: pick.some(Self::time),
                    ended: pick.time(),
                    reasons: pick.reasons(),
                    exits: pick.list(2, Self::exit),
                    nodes: pick.list(3, Self::node_name),
                })
            }),
        }
    }

    pub fn authority(&mut self) -> Authority {
        Authority { role: self.one(&[Role::Admin, Role::TenantAdmin, Role::User]), user: self.word() }
    }

    fn exit(&mut self) -> RankExit {
        RankExit {
            rank: self.below(64),
            code: i32::try_from(self.below(256)).unwrap(),
            signal: self.one(&[0, 9, 15]),
            time: self.time(),
            usage: RankUsage { cpu: self.some(Self::span), memory_peak: self.large() },
        }
    }

    fn result(&mut self) -> RunResult {
        RunResult {
            ranks: self.below(64),
            bytes: self.large(),
            iterations: self.below(99),
            time_us_min: 1.5,
            time_us_median: f64::from(self.below(1000)) / 3.0,
            time_us_max: 1e9,
            alg_bw_gbps: 0.0,
            bus_bw_gbps: 371.25,
            verified: self.flag(),
            mismatches: self.large(),
            rails: self.list(2, |pick| RailBytes {
                rail: pick.below(8),
                tx_bytes: pick.large(),
                rx_bytes: pick.large(),
            }),
        }
    }

    fn eta(&mut self) -> Eta {
        Eta {
            start: self.time(),
            earliest: self.time(),
            latest: if self.flag() { self.time() } else { Timestamp(u64::MAX) },
            promise: self.one(&[Promise::Estimate, Promise::Conservative, Promise::Easy, Promise::Slack]),
            planned: self.some(Self::time),
        }
    }

    fn placement(&mut self) -> Placement {
        let nodes = self.list(3, Self::place);
        let ranks = nodes.iter().flat_map(|place| [place, place]).enumerate();
        let ranks = ranks
            .map(|(at, place)| RankPlace {
                rank: u32::try_from(at).unwrap(),
                node: place.node.clone(),
                local_rank: self.below(2),
                gpus: self.list(2, |pick| pick.below(8)),
                nic: self.line(),
                rail: self.below(8),
                leaf: self.line(),
            })
            .collect();
        Placement {
            ranks,
            nodes,
            rails: self.list(3, |pick| pick.below(8)),
            pods: self.below(3),
            reasons: self.reasons(),
            spares: self.list(1, Self::place),
            cut: self.large(),
            exclusive: self.flag(),
            repaired: self.flag(),
        }
    }

    fn place(&mut self) -> NodePlace {
        NodePlace {
            node: self.node_name(),
            pod: self.word(),
            gpus: self.list(8, |pick| pick.below(8)),
            nics: self.list(2, |pick| NicPlace {
                device: pick.word(),
                netdev: pick.word(),
                rail: pick.below(8),
                leaf: pick.word(),
                address: pick.some(Self::address),
            }),
            remapped: self.flag(),
            cpus: self.below(65),
            memory_bytes: self.large(),
        }
    }

    pub fn address(&mut self) -> IpAddr {
        self.one(&["10.0.3.7", "fd00::17", "192.168.255.1"]).parse().unwrap()
    }
}
