//! Switches over gRPC and REST: applied, replaced, read with what the fabric says of them, rendered, forgotten; kept over a restart.

use proto_rpc::{ErrorClass, Identity, Role};
use proto_wire::v1::{self, switch_service_client::SwitchServiceClient, switch_spec::Nos};
use serde_json::{Value, json};

use crate::{jobs::error, rest::Rest, world::World};

pub fn apply(name: &str, spec: v1::SwitchSpec) -> v1::ApplySwitchRequest {
    let metadata = Some(v1::Metadata { name: name.to_owned(), ..Default::default() });
    let switch = Some(v1::Switch { metadata, spec: Some(spec), ..Default::default() });
    v1::ApplySwitchRequest { switch, dry_run: false }
}

pub fn sonic() -> v1::SwitchSpec {
    v1::SwitchSpec { nos: Nos::Sonic.into(), asic: "spectrum-4".into(), ..Default::default() }
}

fn get(name: &str) -> v1::GetSwitchRequest {
    v1::GetSwitchRequest { name: name.to_owned() }
}

fn render(name: &str) -> v1::RenderSwitchRequest {
    v1::RenderSwitchRequest { name: name.to_owned() }
}

/// Two leaves with a server each, under one spine.
fn fabric() -> Value {
    let link =
        |node: &str, leaf: &str| json!({"node": node, "nic": "mlx5_0", "leaf": leaf, "speedMbps": "400000"});
    json!({"kind": "Fabric", "metadata": {"name": "lab"}, "spec": {
        "rails": [{"index": 0, "name": "rail0"}],
        "leaves": [{"name": "leaf0", "rail": 0, "pod": "p0"}, {"name": "leaf1", "rail": 0, "pod": "p1"}],
        "links": [link("n0", "leaf0"), link("n1", "leaf1")],
        "spines": [{"name": "spine0", "rail": 0}],
        "uplinks": [{"lower": "leaf[0-1]", "upper": "spine0", "cables": 1, "speedMbps": "400000"}],
    }})
}

pub async fn with_fabric(world: &World) -> Rest {
    let mut rest = Rest::new(world.admin());
    let made = rest.call("PUT", "/v1/fabric", &fabric().to_string()).await;
    assert_eq!(made.status, 200, "{}", made.text);
    rest
}

fn codes(switch: &v1::Switch) -> Vec<String> {
    switch.status.iter().flat_map(|status| &status.reasons).map(|reason| reason.code.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_is_applied_read_with_its_place_and_kept_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    drop(with_fabric(&world).await);
    let mut admins = SwitchServiceClient::new(world.admin());
    let made = admins.apply_switch(apply("leaf0", sonic())).await.unwrap().into_inner();
    let metadata = made.metadata.clone().unwrap();
    assert!(metadata.resource_version > 0 && !metadata.uid.is_empty() && metadata.generation == 1);
    let status = made.status.clone().unwrap();
    assert_eq!((status.role.as_str(), status.pod.as_str(), &status.rails[..]), ("leaf", "p0", &[0][..]));
    assert!(!status.connected && codes(&made).is_empty());
    // Of nothing else in the document.
    let lost = admins.apply_switch(apply("leaf9", sonic())).await.unwrap().into_inner();
    assert_eq!(codes(&lost), ["SwitchNotInFabric"]);
    let spine = admins.apply_switch(apply("spine0", sonic())).await.unwrap().into_inner();
    assert_eq!(spine.status.unwrap().role, "spine of tier 1");
    // A dry run changes nothing; the same again neither.
    let dry =
        v1::ApplySwitchRequest { dry_run: true, ..apply("leaf0", v1::SwitchSpec { asn: 65_100, ..sonic() }) };
    let would = admins.apply_switch(dry).await.unwrap().into_inner();
    assert_eq!(would.metadata.unwrap().generation, 2);
    let again = admins.apply_switch(apply("leaf0", sonic())).await.unwrap().into_inner();
    assert_eq!(again.metadata, made.metadata);
    // Who has read an earlier revision replaces nothing.
    let late = |version: u64| {
        let mut asked = apply("leaf0", v1::SwitchSpec { asn: 65_100, ..sonic() });
        asked.switch.as_mut().unwrap().metadata.as_mut().unwrap().resource_version = version;
        asked
    };
    let refused = error(admins.apply_switch(late(metadata.resource_version + 77)).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Conflict, "CONFLICT"));
    let replaced = admins.apply_switch(late(metadata.resource_version)).await.unwrap().into_inner();
    assert_eq!(replaced.metadata.unwrap().generation, 2);
    drop(admins);
    world.stop().await;
    let world = World::start(dir.path()).await;
    world.tenant("red", 8).await;
    let viewer = world.client(&Identity::user("red", "eve", [Role::Viewer]).unwrap());
    let mut theirs = SwitchServiceClient::new(viewer);
    let kept = theirs.get_switch(get("leaf0")).await.unwrap().into_inner();
    assert_eq!((kept.spec.unwrap().asn, kept.status.unwrap().pod.as_str()), (65_100, "p0"));
    let first = v1::ListSwitchesRequest { page_size: 2, ..Default::default() };
    let page = theirs.list_switches(first).await.unwrap().into_inner();
    let names = |list: &[v1::Switch]| -> Vec<String> {
        list.iter().map(|one| one.metadata.clone().unwrap().name).collect()
    };
    assert_eq!(names(&page.switches), ["leaf0", "leaf9"]);
    assert_eq!(codes(&page.switches[1]), ["SwitchNotInFabric"]);
    let next = v1::ListSwitchesRequest { page_token: page.next_page_token, ..Default::default() };
    assert_eq!(names(&theirs.list_switches(next).await.unwrap().into_inner().switches), ["spine0"]);
    // Viewers read and render, and change nothing.
    assert!(!theirs.render_switch(render("leaf0")).await.unwrap().into_inner().files.is_empty());
    assert_eq!(error(theirs.apply_switch(apply("x", sonic())).await).class, ErrorClass::Denied);
    let delete = v1::DeleteSwitchRequest { name: "leaf0".into() };
    assert_eq!(error(theirs.delete_switch(delete.clone()).await).class, ErrorClass::Denied);
    let mut admins = SwitchServiceClient::new(world.admin());
    admins.delete_switch(delete.clone()).await.unwrap();
    assert_eq!(error(admins.delete_switch(delete).await).reason, "SWITCH_NOT_FOUND");
    assert_eq!(error(theirs.get_switch(get("leaf0")).await).reason, "SWITCH_NOT_FOUND");
    let fabric = Rest::new(world.admin()).call("GET", "/v1/fabric", "").await.json;
    assert_eq!(fabric["spec"]["leaves"].as_array().unwrap().len(), 2, "the document stays as it was");
    drop((admins, theirs));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_value_is_named_by_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut admins = SwitchServiceClient::new(world.admin());
    let port = |name: &str| v1::SwitchPort { name: name.into(), ..Default::default() };
    let management = |endpoint: &str, credential: &str| v1::SwitchManagement {
        endpoint: endpoint.into(),
        credential: credential.into(),
    };
    for (wrong, field) in [
        (apply("Leaf0", sonic()), "metadata.name"),
        (apply("leaf0", v1::SwitchSpec { nos: 0, ..sonic() }), "spec.nos"),
        (apply("leaf0", v1::SwitchSpec { asic: "spectrum4".into(), ..sonic() }), "spec.asic"),
        (apply("leaf0", v1::SwitchSpec { asic: String::new(), ..sonic() }), "spec.asic"),
        (apply("leaf0", v1::SwitchSpec { version: "\n".into(), ..sonic() }), "spec.version"),
        (apply("leaf0", v1::SwitchSpec { loopback: "10.0.0".into(), ..sonic() }), "spec.loopback"),
        (apply("leaf0", v1::SwitchSpec { cable_m: 10_001, ..sonic() }), "spec.cableM"),
        (apply("leaf0", v1::SwitchSpec { ports: vec![port("a b")], ..sonic() }), "spec.ports[0].name"),
        (
            apply("leaf0", v1::SwitchSpec { management: Some(management("h", "")), ..sonic() }),
            "spec.management.endpoint",
        ),
        (
            apply("leaf0", v1::SwitchSpec { management: Some(management("h:1", "../a")), ..sonic() }),
            "spec.management.credential",
        ),
    ] {
        let refused = error(admins.apply_switch(wrong).await);
        assert_eq!((refused.class, refused.violations[0].field.as_str()), (ErrorClass::Invalid, field));
    }
    let unknown = v1::SwitchSpec { asic: "tomahawk5".into(), ..sonic() };
    let refused = error(admins.apply_switch(apply("leaf0", unknown)).await);
    assert!(refused.message.contains("did you mean tomahawk-5?"), "{}", refused.message);
    assert!(refused.message.contains("spectrum-2, "), "{}", refused.message);
    let empty = v1::ApplySwitchRequest::default();
    assert_eq!(error(admins.apply_switch(empty).await).violations[0].field, "switch");
    assert_eq!(error(admins.get_switch(get("No")).await).violations[0].field, "name");
    // What the plan has not is told where the switch is read.
    drop(with_fabric(&world).await);
    let named = v1::SwitchSpec { ports: vec![port("Ethernet0"), port("Ethernet99")], ..sonic() };
    let made = admins.apply_switch(apply("leaf0", named)).await.unwrap().into_inner();
    let reasons = made.status.unwrap().reasons;
    assert_eq!((reasons.len(), reasons[0].code.as_str()), (1, "SwitchPortUnknown"));
    assert_eq!(reasons[0].scope, "switch/leaf0/Ethernet99");
    let same = v1::SwitchSpec { loopback: "10.9.9.9".into(), asn: 65_200, ..sonic() };
    for name in ["leaf0", "leaf1"] {
        admins.apply_switch(apply(name, same.clone())).await.unwrap();
    }
    let both = admins.list_switches(v1::ListSwitchesRequest::default()).await.unwrap().into_inner().switches;
    for switch in &both {
        assert_eq!(codes(switch), ["SwitchNumbersClash", "SwitchNumbersClash"], "{switch:?}");
    }
    drop(admins);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_is_rendered_from_the_fabric_and_its_own_document() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut rest = with_fabric(&world).await;
    let mut admins = SwitchServiceClient::new(world.admin());
    assert_eq!(error(admins.render_switch(render("leaf0")).await).reason, "SWITCH_NOT_FOUND");
    admins.apply_switch(apply("leaf0", v1::SwitchSpec { asn: 65_300, ..sonic() })).await.unwrap();
    let files = admins.render_switch(render("leaf0")).await.unwrap().into_inner().files;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["config_db.json", "frr.conf"]);
    assert!(files[1].content.contains("router bgp 65300"), "{}", files[1].content);
    serde_json::from_str::<Value>(&files[0].content).unwrap();
    // On Linux ports have the names that the document gives them.
    let ports = ["eth1", "eth2"].map(|name| v1::SwitchPort { name: name.into(), ..Default::default() });
    let linux = v1::SwitchSpec { nos: Nos::Linux.into(), ports: ports.to_vec(), ..Default::default() };
    admins.apply_switch(apply("leaf1", linux)).await.unwrap();
    let files = admins.render_switch(render("leaf1")).await.unwrap().into_inner().files;
    assert_eq!((files.len(), files[0].name.as_str()), (1, "frr.conf"));
    assert!(files[0].content.contains("neighbor eth2 interface"), "{}", files[0].content);
    // What cannot be planned is refused with every place.
    admins.apply_switch(apply("leaf9", sonic())).await.unwrap();
    let refused = error(admins.render_switch(render("leaf9")).await);
    assert_eq!((refused.class, refused.reason.as_str()), (ErrorClass::Infeasible, "SWITCH_NOT_PLANNED"));
    assert_eq!(refused.violations[0].field, "switch/leaf9");
    // REST says the same.
    let document = json!({"kind": "Switch", "metadata": {"name": "spine0"}, "spec": {"nos": "EOS", "asic": "tomahawk-5"}});
    let made = rest.call("POST", "/v1/switches", &document.to_string()).await;
    assert_eq!(
        (made.status, made.json["status"]["role"].as_str()),
        (200, Some("spine of tier 1")),
        "{}",
        made.text
    );
    let rendered = rest.call("GET", "/v1/switches/spine0:render", "").await;
    assert_eq!(rendered.json["files"][0]["name"], "eos.txt", "{}", rendered.text);
    let all = rest.call("GET", "/v1/switches", "").await.json;
    assert_eq!(all["switches"].as_array().unwrap().len(), 4);
    assert_eq!(rest.call("DELETE", "/v1/switches/spine0", "").await.status, 200);
    assert_eq!(rest.call("GET", "/v1/switches/spine0", "").await.status, 404);
    let body = json!({"documents": [{"switch": document}, {"switch": {"metadata": {"name": "leaf0"}, "spec": {"nos": "SONIC"}}}]});
    let planned = rest.call("POST", "/v1/documents:plan", &body.to_string()).await.json;
    assert_eq!(planned["documents"][0]["outcome"], "CREATED");
    assert_eq!(planned["documents"][1]["refusal"]["violations"][0]["field"], "spec.asic");
    drop((admins, rest));
    world.stop().await;
}
