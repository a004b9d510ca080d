//! All attempts. What must come of each is written here by hand.

pub mod authz;
mod checks;
mod jobs;
mod lives;
mod names;
mod nodes;
mod owners;
mod probes;
mod rails;
mod rest;
mod secrets;
mod tenants;
mod webhooks;
mod wire;

use crate::model::Attempt;

/// All of them, in the order in which they are made.
pub fn all() -> Vec<Attempt> {
    [
        authz::all(),
        tenants::all(),
        secrets::all(),
        owners::all(),
        webhooks::all(),
        rest::all(),
        probes::all(),
        jobs::all(),
        rails::all(),
        names::all(),
        nodes::all(),
        wire::all(),
        lives::all(),
        checks::all(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost_reflect::DynamicMessage;

    use super::*;
    use crate::{
        exec::call,
        model::{Finding, Step},
    };

    #[test]
    fn ids_are_unique_and_there_are_enough() {
        let all = all();
        let ids: BTreeSet<&str> = all.iter().map(|attempt| attempt.id.as_str()).collect();
        assert_eq!(ids.len(), all.len(), "two attempts have the same id");
        assert!(all.len() >= 220, "{} attempts", all.len());
        let by_hand = all.iter().filter(|attempt| !attempt.is_cell()).count();
        assert!(by_hand >= 150, "{by_hand} of them beside the table of roles");
    }

    #[test]
    fn every_finding_has_attempts() {
        let all = all();
        for number in 1..=13 {
            assert!(all.iter().any(|one| one.finding == Finding::Number(number)), "finding {number}");
        }
        assert!(all.iter().filter(|one| one.finding == Finding::Low).count() >= 9);
    }

    #[test]
    fn messages_fit_the_schema() {
        for attempt in all() {
            let Step::Call { rpc, body } = &attempt.step else { continue };
            let Some(method) = call::method(rpc) else {
                assert!(!rpc.starts_with("rail."), "{}: there is no {rpc}", attempt.id);
                continue;
            };
            DynamicMessage::deserialize(method.input(), body)
                .unwrap_or_else(|error| panic!("{}: {error}", attempt.id));
        }
    }

    #[test]
    fn the_table_of_roles_names_every_rpc_of_the_schema() {
        let services = proto_wire::descriptor_pool();
        let declared: BTreeSet<String> = services
            .services()
            .flat_map(|one| {
                let name = one.full_name().to_owned();
                one.methods().map(move |method| format!("{name}/{}", method.name())).collect::<Vec<_>>()
            })
            .filter(|name| name.starts_with("rail.v1."))
            .collect();
        let listed: BTreeSet<String> = crate::roles::TABLE
            .iter()
            .map(|(rpc, _)| (*rpc).to_owned())
            .filter(|name| name.starts_with("rail.v1."))
            .collect();
        assert_eq!(declared, listed, "a new RPC belongs into the table, with who may call it");
        assert!(crate::roles::TABLE.iter().all(|(_, cells)| cells.len() == crate::roles::CALLERS.len()));
    }
}
