//! What a change of the fabric document would take away is told before, and much of it only happens if that is meant.

use proto_model::Fabric;

use super::{World, drains, name, spec};
use crate::{CoreError, Event, Key, Reply};

fn document() -> Fabric {
    let Event::ApplyFabric { fabric, .. } = drains::fabric() else { panic!() };
    *fabric
}

fn apply(fabric: Fabric, allow_shrink: bool) -> Event {
    Event::ApplyFabric { fabric: Box::new(fabric), allow_shrink, dry_run: false }
}

fn delete(name: &str, if_version: u64, dry_run: bool) -> Event {
    Event::DeleteFabric { name: name.to_owned(), if_version, dry_run }
}

#[test]
fn a_document_that_leaves_out_many_servers_is_refused_unless_that_is_meant() {
    let mut w = World::new();
    w.ok(apply(document(), false));
    w.submit("a", spec(4, 2));
    let before = w.state.clone();
    // None, under another name: what a template from elsewhere would be.
    let empty = Fabric { name: "other".into(), ..Fabric::default() };
    let CoreError::FabricShrinks { fabric, impact } = w.refused(apply(empty.clone(), false)) else {
        panic!()
    };
    assert_eq!((fabric.as_str(), impact.servers, impact.left_out.len()), ("f", 4, 4));
    assert_eq!((impact.jobs.len(), impact.tenants().len()), (1, 1));
    let text = w.refused(apply(empty.clone(), false)).to_string();
    assert!(text.contains("no server of the 4") && text.contains("1 job of 1 tenant"), "{text}");
    // A dry run says the same.
    let dry = Event::ApplyFabric { fabric: Box::new(empty.clone()), allow_shrink: false, dry_run: true };
    assert!(matches!(w.refused(dry), CoreError::FabricShrinks { .. }));
    let mut half = document();
    half.links.retain(|link| link.node == name(0) || link.node == name(1));
    let text = w.refused(apply(half.clone(), false)).to_string();
    assert!(text.contains("only 2 of the 4 servers"), "{text}");
    assert!(w.state.same(&before));
    // One server may always leave, and whoever means it says so.
    let mut three = document();
    three.links.retain(|link| link.node != name(3));
    w.ok(apply(three, false));
    w.ok(apply(half, true));
    w.ok(apply(empty, true));
}

#[test]
fn only_the_fabric_that_is_named_is_deleted_and_what_that_costs_is_told_before() {
    let mut w = World::new();
    assert!(matches!(w.refused(delete("f", 0, false)), CoreError::FabricNotFound));
    w.ok(apply(document(), false));
    w.submit("a", spec(2, 2));
    let before = w.state.clone();
    let CoreError::FabricOther { asked, fabric } = w.refused(delete("g", 0, false)) else { panic!() };
    assert_eq!((asked.as_str(), fabric.as_str()), ("g", "f"));
    let version = w.state.version(&Key::Fabric).unwrap();
    assert!(matches!(w.refused(delete("f", version + 1, false)), CoreError::Conflict { .. }));
    let Reply::FabricDeleted(reported) = w.ok(delete("f", 0, true)) else { panic!() };
    assert_eq!((reported.servers, reported.left_out.len(), reported.jobs.len()), (4, 4, 1));
    assert!(w.state.same(&before), "a dry run deletes nothing");
    let Reply::FabricDeleted(done) = w.ok(delete("f", version, false)) else { panic!() };
    assert_eq!(done, reported);
    assert!(w.state.fabric().is_none());
}
