//! Faults of switches as wholes.

use proto_random::Random;

use super::change::{Site, WholeChange};
use crate::state::{BufferModel, SwitchState};

/// Every fault by name.
pub(super) const CHANGES: &[(&str, WholeChange)] = &[
    ("a port left out", port),
    ("all ports left out", ports),
    ("nobody looks for storms", poll),
    ("looks more seldom", seldom),
    ("the shared headroom cut", pool),
    ("the other model of buffers", model),
    ("no pattern of traffic", pattern),
    ("another default alpha", alpha),
    ("a neighbour left out", neighbor),
];

fn port(site: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    switch.ports.remove(&site.port.name).map(drop)
}

fn ports(_: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    switch.ports.clear();
    Some(())
}

fn poll(_: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    switch.poll_ms.take().map(drop)
}

fn seldom(_: &Site<'_>, switch: &mut SwitchState, random: &mut Random) -> Option<()> {
    *switch.poll_ms.as_mut()? += u32::try_from(random.within(1, 1000)).ok()?;
    Some(())
}

fn pool(_: &Site<'_>, switch: &mut SwitchState, random: &mut Random) -> Option<()> {
    let xoff = switch.pools.values_mut().find_map(|pool| pool.xoff.as_mut())?;
    *xoff -= random.within(1024, *xoff);
    Some(())
}

/// Groups that the switch works out are none in the static model; those that are written stay.
fn model(_: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    let computed = switch
        .ports
        .values()
        .any(|port| port.qos.groups.values().any(|one| matches!(one, crate::state::Group::Computed)));
    switch.model = BufferModel::Static;
    computed.then_some(())
}

fn pattern(_: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    let computed = switch.model == BufferModel::Dynamic && switch.default_alpha.is_some();
    let groups = switch.ports.values().flat_map(|port| port.qos.groups.values());
    let any = groups.into_iter().any(|one| matches!(one, crate::state::Group::Computed));
    (computed && any).then(|| switch.pattern = None)
}

fn alpha(_: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    let groups = switch.ports.values().flat_map(|port| port.qos.groups.values());
    let any = groups.into_iter().any(|one| matches!(one, crate::state::Group::Computed));
    let alpha = switch.default_alpha.filter(|_| any)?;
    switch.default_alpha = Some(if alpha < 0 { alpha + 1 } else { alpha - 1 });
    Some(())
}

fn neighbor(site: &Site<'_>, switch: &mut SwitchState, _: &mut Random) -> Option<()> {
    switch.routing.as_mut()?.neighbors.remove(&site.port.name).then_some(())
}
