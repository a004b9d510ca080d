//! Examples of request bodies in the OpenAPI document.

use serde_json::{Value as Json, json};

use crate::authz::Rpc;

/// A usual body of a call.
pub fn of(rpc: Rpc) -> Option<Json> {
    let owned = |name: &str| json!({"name": name, "tenant": "default"});
    Some(match rpc {
        Rpc::ApplyTenant => document(
            "Tenant",
            json!({"name": "nlp"}),
            json!({"description": "Language models", "quota": {"gpus": 64, "jobs": 100}}),
        ),
        Rpc::ApplyQueue => document("Queue", owned("training"), json!({"weight": 2, "objective": "FAIR"})),
        Rpc::ApplyServiceClass => document(
            "ServiceClass",
            json!({"name": "batch"}),
            json!({"job": {"timeLimitMax": "86400s", "priorityMax": 0}, "preemption": {"preemptible": true}}),
        ),
        Rpc::ApplyLicense => {
            document("License", json!({"name": "matlab"}), json!({"total": 20, "description": "Seats"}))
        }
        Rpc::ApplySwitch => {
            document("Switch", json!({"name": "leaf0"}), json!({"nos": "SONIC", "asic": "spectrum-4"}))
        }
        Rpc::ApplyReservation => document(
            "Reservation",
            json!({"name": "upgrade"}),
            json!({"count": 1, "start": "2099-01-01T06:00:00Z", "duration": "7200s", "maintenance": true}),
        ),
        Rpc::ApplySchedule => document(
            "Schedule",
            owned("nightly"),
            json!({"cron": "0 2 * * *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": command()}}),
        ),
        Rpc::ApplyWebhook => document(
            "Webhook",
            owned("pager"),
            json!({"url": "https://example.com/railyard", "events": ["ENDED"]}),
        ),
        Rpc::ApplySecret => values("Secret", owned("registry"), json!({"token": "s3cret"})),
        Rpc::ApplyConfig => values("Config", owned("training"), json!({"NCCL_DEBUG": "WARN"})),
        Rpc::CreateJob | Rpc::PlanJob => document("Job", json!({"generateName": "train-"}), command()),
        _ => return order(rpc),
    })
}

/// A usual body of a call that is about something that is there.
fn order(rpc: Rpc) -> Option<Json> {
    Some(match rpc {
        Rpc::IssueToken => json!({"user": "ada", "role": "ADMIN", "lifetime": "3600s"}),
        Rpc::HoldJob | Rpc::SuspendJob | Rpc::RequeueJob => json!({"reason": "The data set is repaired"}),
        Rpc::CancelJob => json!({"gracePeriod": "30s"}),
        Rpc::UpdateJob => json!({"priority": -10, "setLabels": {"team": "vision"}}),
        Rpc::DrainRail => json!({"target": "rail/0", "reason": "A leaf is exchanged"}),
        Rpc::UndrainRail => json!({"target": "rail/0"}),
        Rpc::UpdateNode => json!({"unschedulable": true, "reason": "A fan is exchanged"}),
        Rpc::CreateJoinToken | Rpc::CreateSwitchToken => json!({"lifetime": "600s"}),
        Rpc::Revoke => json!({"subject": "admin/mallory", "reason": "The laptop was lost"}),
        Rpc::Undelete => json!({"kind": "tenant", "name": "nlp", "dryRun": true}),
        _ => return None,
    })
}

fn document(kind: &str, metadata: Json, spec: Json) -> Json {
    json!({"apiVersion": "rail/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn values(kind: &str, metadata: Json, data: Json) -> Json {
    json!({"apiVersion": "rail/v1", "kind": kind, "metadata": metadata, "data": data})
}

fn command() -> Json {
    json!({"gang": {"nodes": 1, "gpusPerNode": 1}, "command": {"argv": ["python3", "train.py"]}})
}

#[cfg(test)]
mod tests {
    use prost_reflect::{DynamicMessage, Kind};

    use super::*;
    use crate::rest::{
        routes::{Body, ROUTES},
        transcode,
    };

    #[test]
    fn every_example_is_a_body_of_its_call() {
        let mut seen = 0;
        for route in ROUTES {
            let Some(example) = of(route.rpc) else { continue };
            let input = transcode::method(route.rpc).unwrap().input();
            let of = match route.body {
                Body::Whole => input,
                Body::Field(name) => match input.get_field_by_name(name).unwrap().kind() {
                    Kind::Message(of) => of,
                    kind => panic!("{}: {kind:?}", route.path),
                },
                Body::None => panic!("{} has no body", route.path),
            };
            DynamicMessage::deserialize(of, example).unwrap_or_else(|e| panic!("{}: {e}", route.path));
            seen += 1;
        }
        assert!(seen > 20, "{seen}");
    }
}
