//! What people of tenant betan attempt on tenant alpha, and on the cluster, by calls that their roles let in.

use serde_json::{Value, json};

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
    world::{JOB, SECRETS},
};

const FOREIGN: Expect = Expect::Reason(&["FOREIGN_TENANT"]);
const PEOPLE: [From; 3] = [From::Viewer, From::User, From::TenantAdmin];
const SUBMITTERS: [From; 2] = [From::User, From::TenantAdmin];
const MANAGER: [From; 1] = [From::TenantAdmin];

struct Case {
    id: &'static str,
    title: &'static str,
    finding: Finding,
    by: &'static [From],
    rpc: &'static str,
    body: Value,
    expect: Expect,
    trace: Trace,
}

impl Case {
    fn attempts(self) -> impl Iterator<Item = Attempt> {
        self.by.iter().map(move |from| Attempt {
            id: format!("tenants/{}/{}", self.id, from.name()),
            title: self.title.to_owned(),
            finding: self.finding,
            from: *from,
            step: Step::Call { rpc: self.rpc, body: self.body.clone() },
            expect: self.expect,
            trace: self.trace,
        })
    }
}

/// Refused since it names another tenant, and recorded.
fn foreign(
    id: &'static str,
    title: &'static str,
    by: &'static [From],
    rpc: &'static str,
    body: Value,
) -> Case {
    Case { id, title, finding: Finding::Held, by, rpc, body, expect: FOREIGN, trace: Trace::Audited }
}

/// Let in, and must show nothing.
fn hidden(
    id: &'static str,
    title: &'static str,
    finding: Finding,
    by: &'static [From],
    rpc: &'static str,
    body: Value,
) -> Case {
    Case { id, title, finding, by, rpc, body, expect: Expect::Hidden, trace: Trace::None }
}

/// Refused for any reason.
fn refused(
    id: &'static str,
    title: &'static str,
    finding: Finding,
    by: &'static [From],
    rpc: &'static str,
    body: Value,
) -> Case {
    Case { id, title, finding, by, rpc, body, expect: Expect::Refused, trace: Trace::None }
}

fn job(name: &str, extra: Value) -> Value {
    let mut spec = json!({
        "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1},
        "command": {"argv": ["/bin/true"]},
    });
    if let (Value::Object(spec), Value::Object(extra)) = (&mut spec, extra) {
        spec.extend(extra);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let parts = [reads(), changes(), grants(), names(), tokens(), requests()];
    parts.into_iter().flatten().flat_map(Case::attempts).chain(frames()).collect()
}

/// Bytes that are no message, or one that nests too deep.
fn frames() -> Vec<Attempt> {
    // A job within a request within itself: field 1, length-delimited, a thousand times.
    let mut deep = Vec::new();
    for _ in 0..1_000_usize {
        let length = deep.len();
        let mut outer = vec![0x0a];
        outer.extend(varint(length));
        outer.append(&mut deep);
        deep = outer;
    }
    let frame = |id: &str, title: &str, rpc, bytes| Attempt {
        id: format!("tenants/frame-{id}"),
        title: title.to_owned(),
        finding: Finding::Held,
        from: From::User,
        step: Step::Frame { rpc, bytes },
        expect: Expect::Refused,
        trace: Trace::None,
    };
    let create = "rail.v1.JobService/CreateJob";
    vec![
        frame("deep", "nest messages 1,000 deep", create, deep),
        frame("length", "promise a field of 2^63 bytes", create, [&[0x0a][..], &[0xff; 9], &[1]].concat()),
        frame("utf8", "name a job in broken UTF-8", "rail.v1.JobService/GetJob", vec![0x0a, 2, 0xff, 0xfe]),
        frame("group", "open a group that never ends", create, vec![0x0b; 4_000]),
        frame("megabytes", "send a message of 3 MB", create, vec![0; 3 << 20]),
    ]
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push((value % 128) as u8 | 128);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

fn reads() -> Vec<Case> {
    let named = json!({"name": JOB, "tenant": "alpha"});
    vec![
        foreign(
            "get-job",
            "read a job of the other tenant by naming it",
            &PEOPLE,
            "rail.v1.JobService/GetJob",
            named.clone(),
        ),
        foreign(
            "list-jobs",
            "list the other tenant's jobs",
            &PEOPLE,
            "rail.v1.JobService/ListJobs",
            json!({"tenant": "alpha"}),
        ),
        foreign(
            "watch-jobs",
            "watch the other tenant's jobs",
            &PEOPLE,
            "rail.v1.JobService/WatchJobs",
            json!({"tenant": "alpha"}),
        ),
        foreign(
            "stream-logs",
            "read the other tenant's logs",
            &PEOPLE,
            "rail.v1.JobService/StreamLogs",
            named.clone(),
        ),
        foreign(
            "explain",
            "ask why the other tenant's job is where it is",
            &PEOPLE,
            "rail.v1.JobService/ExplainJob",
            named,
        ),
        foreign(
            "plan",
            "plan a job in the other tenant's name",
            &PEOPLE,
            "rail.v1.JobService/PlanJob",
            json!({"job": job("p", json!({})), "onBehalfOf": "alpha"}),
        ),
        foreign(
            "get-tenant",
            "read the other tenant's quota",
            &PEOPLE,
            "rail.v1.TenantService/GetTenant",
            json!({"name": "alpha"}),
        ),
        foreign(
            "get-queue",
            "read a queue of the other tenant",
            &PEOPLE,
            "rail.v1.QueueService/GetQueue",
            json!({"name": "alpha-q-blue", "tenant": "alpha"}),
        ),
        foreign(
            "list-queues",
            "list the other tenant's queues",
            &PEOPLE,
            "rail.v1.QueueService/ListQueues",
            json!({"tenant": "alpha"}),
        ),
        foreign(
            "get-schedule",
            "read a schedule of the other tenant",
            &PEOPLE,
            "rail.v1.ScheduleService/GetSchedule",
            json!({"name": "alpha-nightly", "tenant": "alpha"}),
        ),
        foreign(
            "list-schedules",
            "list the other tenant's schedules",
            &PEOPLE,
            "rail.v1.ScheduleService/ListSchedules",
            json!({"tenant": "alpha"}),
        ),
        hidden(
            "all-schedules",
            "list schedules without naming a tenant",
            Finding::Held,
            &PEOPLE,
            "rail.v1.ScheduleService/ListSchedules",
            json!({}),
        ),
        foreign(
            "audit",
            "read the other tenant's audit records",
            &MANAGER,
            "rail.v1.AuditService/ListAuditRecords",
            json!({"tenant": "alpha"}),
        ),
        hidden(
            "own-audit",
            "find the other tenant in one's own audit records",
            Finding::Held,
            &MANAGER,
            "rail.v1.AuditService/ListAuditRecords",
            json!({"pageSize": 1000}),
        ),
        hidden(
            "audit-of-who",
            "search the audit log for a user of the other tenant",
            Finding::Held,
            &MANAGER,
            "rail.v1.AuditService/ListAuditRecords",
            json!({"who": "ann-of-alpha"}),
        ),
        hidden(
            "revocations",
            "find the other tenant among the revocations",
            Finding::Held,
            &MANAGER,
            "rail.v1.TenantService/ListRevocations",
            json!({}),
        ),
        hidden(
            "all-jobs",
            "list jobs without naming a tenant",
            Finding::Held,
            &PEOPLE,
            "rail.v1.JobService/ListJobs",
            json!({}),
        ),
        hidden(
            "all-queues",
            "list queues without naming a tenant",
            Finding::Held,
            &PEOPLE,
            "rail.v1.QueueService/ListQueues",
            json!({}),
        ),
        hidden(
            "all-tenants",
            "list tenants",
            Finding::Held,
            &PEOPLE,
            "rail.v1.TenantService/ListTenants",
            json!({}),
        ),
        hidden(
            "all-reservations",
            "list reservations",
            Finding::Held,
            &PEOPLE,
            "rail.v1.ReservationService/ListReservations",
            json!({}),
        ),
        refused(
            "get-reservation",
            "read a reservation of the other tenant",
            Finding::Held,
            &PEOPLE,
            "rail.v1.ReservationService/GetReservation",
            json!({"name": "alpha-keep-77"}),
        ),
        hidden(
            "nodes",
            "find the other tenant's jobs on nodes",
            Finding::Held,
            &PEOPLE,
            "rail.v1.NodeService/ListNodes",
            json!({}),
        ),
        hidden(
            "watch-nodes",
            "the same in a watch of nodes",
            Finding::Held,
            &PEOPLE,
            "rail.v1.NodeService/WatchNodes",
            json!({}),
        ),
        hidden(
            "rails",
            "find the other tenant's jobs on rails",
            Finding::Held,
            &PEOPLE,
            "rail.v1.RailService/ListRails",
            json!({}),
        ),
        hidden(
            "topology",
            "find the other tenant in the topology",
            Finding::Held,
            &PEOPLE,
            "rail.v1.FabricService/GetTopology",
            json!({}),
        ),
        hidden(
            "health",
            "find the other tenant in the cluster's health",
            Finding::Held,
            &PEOPLE,
            "rail.v1.HealthService/GetHealth",
            json!({}),
        ),
        hidden(
            "whoami",
            "find another identity in one's own",
            Finding::Held,
            &PEOPLE,
            "rail.v1.TenantService/WhoAmI",
            json!({}),
        ),
    ]
}

fn changes() -> Vec<Case> {
    let named = json!({"name": JOB, "tenant": "alpha"});
    vec![
        foreign(
            "create-job",
            "submit a job in the other tenant's name",
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": job("p", json!({})), "requestId": "beta-1", "onBehalfOf": "alpha"}),
        ),
        foreign(
            "cancel-job",
            "cancel a job of the other tenant",
            &SUBMITTERS,
            "rail.v1.JobService/CancelJob",
            named.clone(),
        ),
        foreign(
            "run-step",
            "run a command in a job of the other tenant",
            &SUBMITTERS,
            "rail.v1.StepService/RunStep",
            json!({"start": {"job": JOB, "tenant": "alpha", "argv": ["/bin/true"]}}),
        ),
        foreign(
            "delete-job",
            "delete a job of the other tenant",
            &SUBMITTERS,
            "rail.v1.JobService/DeleteJob",
            named.clone(),
        ),
        foreign(
            "suspend-job",
            "suspend a job of the other tenant",
            &SUBMITTERS,
            "rail.v1.JobService/SuspendJob",
            named.clone(),
        ),
        foreign(
            "resume-job",
            "resume a job of the other tenant",
            &SUBMITTERS,
            "rail.v1.JobService/ResumeJob",
            named.clone(),
        ),
        foreign(
            "requeue-job",
            "queue a job of the other tenant again",
            &SUBMITTERS,
            "rail.v1.JobService/RequeueJob",
            named,
        ),
        foreign(
            "apply-queue",
            "change a queue of the other tenant",
            &MANAGER,
            "rail.v1.QueueService/ApplyQueue",
            json!({"queue": {"metadata": {"name": "alpha-q-blue", "tenant": "alpha"}, "spec": {"weight": 1}}}),
        ),
        foreign(
            "delete-queue",
            "delete a queue of the other tenant",
            &MANAGER,
            "rail.v1.QueueService/DeleteQueue",
            json!({"name": "alpha-q-blue", "tenant": "alpha"}),
        ),
        foreign(
            "apply-schedule",
            "let a job start by the clock in the other tenant's name",
            &SUBMITTERS,
            "rail.v1.ScheduleService/ApplySchedule",
            json!({"schedule": {
                "metadata": {"name": "alpha-nightly", "tenant": "alpha"},
                "spec": {"cron": "* * * * *", "jobTemplate": {"spec": job("s", json!({}))["spec"]}},
            }}),
        ),
        foreign(
            "delete-schedule",
            "delete a schedule of the other tenant",
            &SUBMITTERS,
            "rail.v1.ScheduleService/DeleteSchedule",
            json!({"name": "alpha-nightly", "tenant": "alpha"}),
        ),
        refused(
            "schedule-priority",
            "let jobs start by the clock with a priority that a submit would be refused",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.ScheduleService/ApplySchedule",
            json!({"schedule": {
                "metadata": {"name": "urgent"},
                "spec": {"cron": "* * * * *", "jobTemplate": {"spec": job("s", json!({"priority": 1000}))["spec"]}},
            }}),
        ),
        refused(
            "schedule-owner",
            "say that a schedule is an administrator's",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.ScheduleService/ApplySchedule",
            json!({"schedule": {
                "metadata": {"name": "urgent"},
                "spec": {"cron": "* * * * *", "jobTemplate": {"spec": job("s", json!({"priority": 1000}))["spec"]}},
                "status": {"owner": {"role": "ADMIN", "user": "root"}, "checkedUntil": "1970-01-02T00:00:00Z"},
            }}),
        ),
        refused(
            "job-in-foreign-queue",
            "submit into a queue of the other tenant",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": job("q", json!({"queue": "alpha-q-blue"})), "requestId": "beta-2"}),
        ),
        refused(
            "job-in-foreign-reservation",
            "submit into a reservation of the other tenant",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": job("r", json!({"reservation": "alpha-keep-77"})), "requestId": "beta-3"}),
        ),
        refused(
            "job-after-foreign-job",
            "submit a job that waits for one of the other tenant",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": job("s", json!({"after": [{"job": JOB}]})), "requestId": "beta-4"}),
        ),
        refused(
            "metadata-tenant",
            "submit a job whose metadata names the other tenant",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": {"metadata": {"name": "t", "tenant": "alpha"}, "spec": job("t", json!({}))["spec"]}, "requestId": "beta-5"}),
        ),
    ]
}

fn grants() -> Vec<Case> {
    let certificate = "rail.v1.TenantService/IssueCertificate";
    let token = "rail.v1.TenantService/IssueToken";
    let revoke = "rail.v1.TenantService/Revoke";
    let denied = |id, title, rpc, body, expect| Case {
        id,
        title,
        finding: Finding::Held,
        by: &MANAGER,
        rpc,
        body,
        expect,
        trace: Trace::Audited,
    };
    let ungrantable = Expect::Reason(&["ROLE_NOT_GRANTABLE"]);
    vec![
        foreign(
            "issue-certificate",
            "issue a certificate for the other tenant",
            &MANAGER,
            certificate,
            json!({"tenant": "alpha", "user": "x", "role": "TENANT_ADMIN", "csrPem": "$CSR"}),
        ),
        foreign(
            "issue-token",
            "issue a token for the other tenant",
            &MANAGER,
            token,
            json!({"tenant": "alpha", "user": "x", "role": "VIEWER"}),
        ),
        denied(
            "issue-admin",
            "issue a certificate of an administrator",
            certificate,
            json!({"user": "root", "role": "ADMIN", "csrPem": "$CSR"}),
            ungrantable,
        ),
        denied(
            "issue-admin-token",
            "issue a token of an administrator",
            token,
            json!({"user": "root", "role": "ADMIN"}),
            ungrantable,
        ),
        refused(
            "issue-node",
            "issue a certificate of a node",
            Finding::Held,
            &MANAGER,
            certificate,
            json!({"tenant": "beta", "user": "n0", "role": "NODE", "csrPem": "$CSR"}),
        ),
        refused(
            "issue-slash",
            "issue a certificate for a user whose name is a path",
            Finding::Held,
            &MANAGER,
            certificate,
            json!({"tenant": "beta", "user": "a/../../../admin/root", "role": "USER", "csrPem": "$CSR"}),
        ),
        refused(
            "issue-roles",
            "issue a certificate for a user whose name names roles",
            Finding::Held,
            &MANAGER,
            certificate,
            json!({"tenant": "beta", "user": "a/roles/admin", "role": "USER", "csrPem": "$CSR"}),
        ),
        refused(
            "issue-long",
            "issue a certificate for longer than allowed",
            Finding::Held,
            &MANAGER,
            certificate,
            json!({"tenant": "beta", "user": "a", "role": "USER", "csrPem": "$CSR", "lifetime": "31536000s"}),
        ),
        refused(
            "issue-negative",
            "issue a certificate that ended before it begins",
            Finding::Held,
            &MANAGER,
            certificate,
            json!({"tenant": "beta", "user": "a", "role": "USER", "csrPem": "$CSR", "lifetime": "-1s"}),
        ),
        denied(
            "revoke-user",
            "revoke a user of the other tenant",
            revoke,
            json!({"subject": "tenant/alpha/user/ann-of-alpha", "reason": "x"}),
            Expect::Refused,
        ),
        denied(
            "revoke-admin",
            "revoke the administrator",
            revoke,
            json!({"subject": "admin/admin", "reason": "x"}),
            Expect::Refused,
        ),
        denied(
            "revoke-node",
            "revoke a node",
            revoke,
            json!({"subject": "node/n0", "reason": "x"}),
            Expect::Refused,
        ),
        refused(
            "revoke-path",
            "revoke by a subject with a path in it",
            Finding::Held,
            &MANAGER,
            revoke,
            json!({"subject": "tenant/beta/user/../../alpha/user/ann-of-alpha", "reason": "x"}),
        ),
    ]
}

fn names() -> Vec<Case> {
    let get = "rail.v1.JobService/GetJob";
    let forged = [
        ("slash", format!("alpha/{JOB}")),
        ("dots", format!("../alpha/{JOB}")),
        ("percent", format!("..%2falpha%2f{JOB}")),
        ("nul", format!("{JOB}\u{0}")),
        ("key", format!("/rail/jobs/alpha/{JOB}")),
        ("wildcard", "*".to_owned()),
        ("plain", JOB.to_owned()),
        ("space", format!("{JOB} ")),
        ("fullwidth", "ｍerger-2027".to_owned()),
        ("uid", "$ALPHA_UID".to_owned()),
    ];
    let mut cases: Vec<Case> = forged
        .iter()
        .map(|(id, name)| {
            let id: &'static str = match *id {
                "slash" => "name-slash",
                "dots" => "name-dots",
                "percent" => "name-percent",
                "nul" => "name-nul",
                "key" => "name-key",
                "wildcard" => "name-wildcard",
                "plain" => "name-plain",
                "space" => "name-space",
                "fullwidth" => "name-fullwidth",
                _ => "name-uid",
            };
            refused(
                id,
                "read a job of the other tenant by a forged name",
                Finding::Held,
                &[From::Viewer],
                get,
                json!({"name": name}),
            )
        })
        .collect();
    cases.extend([
        refused("logs-slash", "read logs by a name with a tenant in it", Finding::Held, &[From::Viewer], "rail.v1.JobService/StreamLogs", json!({"name": format!("alpha/{JOB}")})),
        refused("cancel-slash", "cancel by a name with a tenant in it", Finding::Held, &[From::User], "rail.v1.JobService/CancelJob", json!({"name": format!("alpha/{JOB}")})),
        refused("tenant-case", "name the other tenant in capitals", Finding::Held, &[From::Viewer], "rail.v1.JobService/ListJobs", json!({"tenant": "ALPHA"})),
        refused("tenant-dots", "name the other tenant as a path", Finding::Held, &[From::Viewer], "rail.v1.JobService/ListJobs", json!({"tenant": "beta/../alpha"})),
        refused("create-dots", "submit a job whose name is a path", Finding::Held, &[From::User], "rail.v1.JobService/CreateJob", json!({"job": job("../alpha/x", json!({})), "requestId": "beta-6"})),
        refused("generate-dots", "have a name generated from a path", Finding::Held, &[From::User], "rail.v1.JobService/CreateJob", json!({"job": {"metadata": {"generateName": "../alpha/x"}, "spec": job("x", json!({}))["spec"]}, "requestId": "beta-7"})),
        hidden("array-dots", "list elements of an array of the other tenant", Finding::Held, &[From::Viewer], "rail.v1.JobService/ListJobs", json!({"array": format!("../alpha/{JOB}")})),
    ]);
    cases
}

fn tokens() -> Vec<Case> {
    let list = "rail.v1.JobService/ListJobs";
    let forged = |id, title, token: &str| {
        refused(id, title, Finding::Number(4), &[From::Viewer], list, json!({"pageToken": token}))
    };
    vec![
        forged("token-past", "list jobs as of an early revision by a made-up page token", "1.0"),
        forged("token-now", "list jobs by a made-up page token of a late revision", "40."),
        forged(
            "token-key",
            "list jobs after a key of the other tenant by a made-up page token",
            "40./alpha/m",
        ),
        forged("token-dots", "leave the own prefix by a page token with a path", "40.../alpha/m"),
        forged("token-ff", "leave the own prefix by a page token of high bytes", "40.~~~~"),
        forged(
            "token-huge",
            "list jobs by a page token of a revision that is to come",
            "18446744073709551615.0",
        ),
        forged("token-garbage", "list jobs by a page token of garbage", "AAAAAAAAAAAAAAAAAAAAAAAA"),
        Case {
            id: "token-reservations",
            title: "find the other tenant's reservation in a page token",
            finding: Finding::Number(9),
            by: &[From::Viewer],
            rpc: "rail.v1.ReservationService/ListReservations",
            body: json!({"pageSize": 1}),
            expect: Expect::Hidden,
            trace: Trace::None,
        },
        hidden(
            "token-nodes",
            "find anything of the other tenant in a page token of nodes",
            Finding::Number(9),
            &[From::Viewer],
            "rail.v1.NodeService/ListNodes",
            json!({"pageSize": 1}),
        ),
        refused(
            "token-made-reservations",
            "list reservations by a made-up page token",
            Finding::Number(4),
            &[From::Viewer],
            "rail.v1.ReservationService/ListReservations",
            json!({"pageToken": "40.a"}),
        ),
        refused(
            "token-made-nodes",
            "list nodes by a made-up page token",
            Finding::Number(4),
            &[From::Viewer],
            "rail.v1.NodeService/ListNodes",
            json!({"pageToken": "1.a"}),
        ),
        refused(
            "token-made-queues",
            "list queues by a made-up page token",
            Finding::Number(4),
            &[From::Viewer],
            "rail.v1.QueueService/ListQueues",
            json!({"pageToken": "40.a"}),
        ),
        refused(
            "token-made-audit",
            "list audit records by a made-up page token",
            Finding::Number(4),
            &MANAGER,
            "rail.v1.AuditService/ListAuditRecords",
            json!({"pageToken": "99999"}),
        ),
        hidden(
            "watch-past",
            "watch jobs from an early revision",
            Finding::Number(4),
            &[From::Viewer],
            "rail.v1.JobService/WatchJobs",
            json!({"afterRevision": "1"}),
        ),
        refused(
            "watch-future",
            "watch jobs from a revision that is to come",
            Finding::Held,
            &[From::Viewer],
            "rail.v1.JobService/WatchJobs",
            json!({"afterRevision": "9223372036854775807"}),
        ),
        hidden(
            "watch-foreign-name",
            "watch a job by the name of one of the other tenant",
            Finding::Held,
            &[From::Viewer],
            "rail.v1.JobService/WatchJobs",
            json!({"name": JOB}),
        ),
    ]
}

fn requests() -> Vec<Case> {
    vec![
        hidden(
            "request-id",
            "submit with the request id of another tenant's submit",
            Finding::Held,
            &SUBMITTERS,
            "rail.v1.JobService/CreateJob",
            json!({"job": job("own", json!({})), "requestId": SECRETS[5]}),
        ),
        refused(
            "request-id-long",
            "submit with a request id of 100 kB",
            Finding::Held,
            &[From::User],
            "rail.v1.JobService/CreateJob",
            json!({"job": job("own2", json!({})), "requestId": "x".repeat(100_000)}),
        ),
        hidden(
            "plan-holders",
            "find the other tenant's job among what a plan would wait for",
            Finding::Number(9),
            &PEOPLE,
            "rail.v1.JobService/PlanJob",
            json!({"job": job("wide", json!({"gang": {"nodes": 2, "gpusPerNode": 4, "ranksPerNode": 1}}))}),
        ),
        hidden(
            "plan-exclusive",
            "find the other tenant's job in why a whole node cannot be had",
            Finding::Number(9),
            &PEOPLE,
            "rail.v1.JobService/PlanJob",
            json!({"job": job("alone", json!({"gang": {"nodes": 2, "gpusPerNode": 1, "ranksPerNode": 1}, "placement": {"exclusive": true}}))}),
        ),
        hidden(
            "plan-reserved",
            "find the other tenant's reservation in a plan",
            Finding::Number(9),
            &PEOPLE,
            "rail.v1.JobService/PlanJob",
            json!({"job": job("late", json!({"gang": {"nodes": 2, "gpusPerNode": 4, "ranksPerNode": 1}, "timeLimit": "86400s"}))}),
        ),
        hidden(
            "plan-preempt",
            "find the other tenant's job among those that a plan would stop",
            Finding::Number(9),
            &PEOPLE,
            "rail.v1.JobService/PlanJob",
            json!({"job": job("high", json!({"gang": {"nodes": 2, "gpusPerNode": 4, "ranksPerNode": 1}, "priority": 1000}))}),
        ),
    ]
}
