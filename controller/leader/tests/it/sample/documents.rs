//! What administrators and users write: tenants and what belongs to them.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use proto_model::{
    ClassMembers, ClassPreemption, Concurrency, CredentialName, Cron, History, IsolationPolicy, JobFilter,
    JobLimits, JobSchedule, License, LicenseName, Objective, Queue, Quota, Reservation, ReservationName,
    ReservationNodes, Role, ScheduleName, ScheduleProgress, ServiceClass, ServiceClassName, Shape,
    SwitchAsic, SwitchConfig, SwitchManagement, SwitchName, SwitchNos, SwitchPort, SwitchSpec, Tenant,
    UserLimits, Value, ValueText, Values, ValuesId, ValuesKind, ValuesName, Webhook, WebhookEvent,
    WebhookName, WebhookProgress, WebhookSecret, WebhookSpec, WebhookUrl, Zone,
};

use super::Pick;

impl Pick {
    pub fn tenant_row(&mut self) -> Tenant {
        let mut quota = Quota::new(100 + self.below(1000), self.below(9));
        quota.guaranteed = self.shape();
        quota.weight = 1 + self.below(9);
        quota.stored_bytes = self.large();
        quota.schedules = self.below(9);
        Tenant {
            name: self.tenant(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            description: self.line(),
            quota,
            isolation: self.one(&[IsolationPolicy::BestEffort, IsolationPolicy::Required]),
        }
    }

    fn shape(&mut self) -> Shape {
        Shape { pods: self.below(3), nodes: self.below(9), gpus: self.below(100) }
    }

    pub fn queue(&mut self) -> Queue {
        let objectives = [
            Objective::mean_wait(Duration::from_secs(3600)),
            Objective::mean_wait(Duration::from_secs(60)).with_gpu_hours(Some(30)),
            Objective::large_first(Duration::from_secs(60)),
            Objective::Fair,
        ];
        Queue {
            tenant: self.tenant(),
            name: self.queue_name(),
            parent: self.some(|_| "root".parse().unwrap()),
            guaranteed: self.shape(),
            limit: self.some(|pick| 100 + pick.below(100)),
            weight: 1 + self.below(9),
            objective: self.some(|pick| pick.one(&objectives)),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
        }
    }

    pub fn class(&mut self) -> ServiceClass {
        let roles = [Role::Admin, Role::TenantAdmin, Role::User];
        ServiceClass {
            name: ServiceClassName::new(self.word()).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            description: self.line(),
            members: ClassMembers {
                tenants: self.set(2, Self::tenant),
                queues: self.set(2, |pick| (pick.tenant(), pick.queue_name())),
                users: self.set(2, |pick| (pick.tenant(), pick.word())),
                roles: self.set(2, |pick| pick.one(&roles)),
            },
            default_class: self.flag(),
            job: JobLimits {
                priority_min: self.some(|_| -5),
                priority_max: self.some(|_| 900),
                priority_default: self.some(|_| 7),
                time_limit_max: self.some(|_| Duration::from_secs(86_400)),
                time_limit_default: self.some(|_| Duration::from_secs(60)),
                nodes_max: self.some(|pick| 1 + pick.below(64)),
                gpus_max: self.some(|pick| pick.below(64)),
                grace_period_max: self.some(|_| Duration::from_secs(90)),
            },
            user: UserLimits {
                jobs_running: self.some(|pick| pick.below(64)),
                jobs_waiting: self.some(|pick| pick.below(64)),
                gpus: self.some(|pick| pick.below(64)),
            },
            preemption: ClassPreemption {
                preempts: self.flag(),
                preemptible: self.some(Self::flag),
                grace_period: self.some(|_| Duration::from_millis(1500)),
            },
        }
    }

    pub fn license(&mut self) -> License {
        License {
            name: LicenseName::new(self.word()).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            description: self.line(),
            total: self.below(100),
        }
    }

    pub fn switch(&mut self) -> SwitchConfig {
        let nos = self.one(SwitchNos::ALL);
        let port = |at: u32, pick: &mut Self| SwitchPort {
            name: format!("Ethernet{at}"),
            cable_m: pick.below(100),
            optics: pick.line(),
        };
        SwitchConfig {
            name: SwitchName::new(format!("pod_{}.leaf-{}", self.below(9), self.below(100))).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            spec: SwitchSpec {
                nos,
                version: self.line(),
                asic: (nos != SwitchNos::Linux).then(|| self.one(SwitchAsic::ALL)),
                loopback: self.some(|pick| Ipv4Addr::new(10, 9, 1, u8::try_from(pick.below(250)).unwrap())),
                asn: self.below(70_000),
                cable_m: self.below(100),
                ports: (0..self.below(3)).map(|at| port(at, self)).collect(),
                management: self.some(|pick| SwitchManagement {
                    endpoint: "leaf0.mgmt:9339".into(),
                    credential: pick.some(|pick| CredentialName::new(pick.word()).unwrap()),
                }),
                repair_drift: self.flag(),
            },
        }
    }

    pub fn reservation(&mut self) -> Reservation {
        let maintenance = self.flag();
        Reservation {
            name: ReservationName::new(self.word()).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            nodes: if self.flag() {
                ReservationNodes::Names(vec![self.node_name()])
            } else {
                ReservationNodes::Count { nodes: 1 + self.below(64), pods_at_most: self.below(3) }
            },
            start: self.time(),
            duration: Duration::from_secs(1) + self.span(),
            tenants: if maintenance { Vec::new() } else { vec![self.tenant()] },
            maintenance,
            reason: self.line(),
        }
    }

    pub fn schedule(&mut self) -> JobSchedule {
        JobSchedule {
            tenant: self.tenant(),
            name: ScheduleName::new(self.word()).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            cron: Cron::new(self.one(&["@daily", "*/5 3 * * mon-fri"])).unwrap(),
            zone: Zone::new(self.one(&["", "Europe/Berlin"])).unwrap(),
            labels: self.pairs(),
            job: Arc::new(self.job_spec(false)),
            concurrency: self.one(&[Concurrency::Allow, Concurrency::Forbid, Concurrency::Replace]),
            starting_deadline: self.some(|pick| Duration::from_secs(1) + pick.span()),
            suspended: self.flag(),
            history: History { completed: self.below(101), failed: self.below(101) },
            owner: self.some(Self::authority),
            progress: ScheduleProgress {
                checked_until: self.time(),
                last: self.some(|pick| (pick.time(), pick.job_name())),
                submitted: self.large(),
                left_out: self.large(),
                last_left_out: self.some(Self::reason),
            },
        }
    }

    pub fn values(&mut self, kind: ValuesKind) -> Values {
        let id = ValuesId { tenant: self.tenant(), kind, name: ValuesName::new(self.word()).unwrap() };
        let value = |pick: &mut Self| Value { text: ValueText::new(&pick.line()), revision: pick.large() };
        Values {
            id,
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            updated: self.time(),
            updated_by: self.word(),
            description: self.line(),
            data: self.list(3, |pick| (pick.word(), value(pick))).into_iter().collect(),
        }
    }

    pub fn webhook(&mut self) -> Webhook {
        let mut events = self.set(3, |pick| pick.one(WebhookEvent::ALL));
        events.insert(WebhookEvent::Ended);
        Webhook {
            tenant: self.tenant(),
            name: WebhookName::new(self.word()).unwrap(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            spec: WebhookSpec {
                url: WebhookUrl::new(self.one(&["https://a.example/x", "http://127.0.0.1:8080/"])).unwrap(),
                events,
                jobs: JobFilter {
                    name: self.one(&["", "train-*", "eval"]).to_owned(),
                    queue: self.some(Self::queue_name),
                    labels: self.pairs(),
                },
                secret: self.some(|pick| WebhookSecret::new(&pick.bytes()).unwrap()),
                allow_insecure: self.flag(),
                suspended: self.flag(),
                description: self.line(),
            },
            progress: WebhookProgress {
                delivered: self.large(),
                failed: self.large(),
                dropped: self.large(),
                last_error: self.some(|pick| (pick.time(), pick.line())),
                last_success: self.some(Self::time),
                disabled: self.some(Self::time),
            },
        }
    }
}
