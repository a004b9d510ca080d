//! Every planned value of a switch with where it comes from, as lines for people.

use std::fmt;

use proto_profile::{QosProfile, words::Priority};

use crate::{
    asic::HeadroomRule,
    bgp::Bgp,
    buffer::{self, BufferPlan, PortKind},
    headroom,
    model::Switch,
    source::{Source, Sourced},
};

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is the value of.
    pub what: String,
    /// The value and its source.
    pub value: Sourced<String>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.what, self.value)
    }
}

fn line(what: impl ToString, value: impl ToString, source: Source) -> Line {
    Line { what: what.to_string(), value: Sourced { value: value.to_string(), source } }
}

/// The lines of `switch`.
#[must_use]
pub fn explain(profile: &QosProfile, switch: &Switch, buffers: &BufferPlan, bgp: &Bgp) -> Vec<Line> {
    let mut lines = classes(profile);
    for (kind, headroom) in &buffers.groups {
        lines.extend(group(profile, switch, *kind, headroom));
    }
    for (speed, ecn) in &buffers.ecn {
        let at = ecn.value;
        let text = format!("from {} to {} bytes, {} %", at.kmin, at.kmax, at.pmax);
        lines.push(line(format!("marking at {speed} Gbit/s"), text, ecn.source));
    }
    let sum = Source::Rule("the sum over ports and lossless classes");
    lines.push(line("buffer", buffers.total.value, buffers.total.source));
    lines.push(line("buffer of single groups", buffers.reserved, sum));
    let shared = Source::Rule("the sum of headroom over ports that share it (switch.headroomSharedBy)");
    lines.push(line("buffer of shared headroom", buffers.headroom_pool, shared));
    lines.push(line("buffer for all", buffers.shared, Source::Rule("what is left")));
    lines.push(line("lossless groups pause at", buffers.pause.value, buffers.pause.source));
    lines.push(line("autonomous system", bgp.asn.value, bgp.asn.source));
    lines.push(line("loopback", bgp.loopback.value, bgp.loopback.source));
    lines
}

/// The classes of the profile.
fn classes(profile: &QosProfile) -> Vec<Line> {
    let spec = profile.spec();
    let kind = |class: Priority| match class {
        class if class == spec.lossless_priority => ("RDMA data", Source::Profile("losslessPriority")),
        class if class == spec.cnp_priority => ("CNPs", Source::Profile("cnpPriority")),
        class if spec.classes.iter().any(|one| one.priority == class) => {
            ("a class apart", Source::Profile("classes"))
        }
        _ => ("all the rest", Source::Profile("prioTc")),
    };
    let classes = spec.switch_classes().into_iter();
    let text = |class: Priority| {
        let (what, source) = kind(class);
        let lossless = if spec.is_lossless(class) { "lossless" } else { "lossy" };
        let served = crate::desired::scheduler(profile, class);
        line(format!("traffic class {class}"), format!("{what}, {lossless}, {served}"), source)
    };
    classes.map(text).collect()
}

/// What a kind of port needs, with the terms of the formula.
fn group(profile: &QosProfile, switch: &Switch, kind: PortKind, headroom: &headroom::Headroom) -> Vec<Line> {
    let name = format!("port of {} Gbit/s with {} m", kind.speed, kind.cable_m);
    let mut lines = vec![
        line(format!("{name}: xoff"), headroom.xoff, headroom.source),
        line(format!("{name}: xon"), headroom.xon, switch.asic.row().pipeline_kib.source),
        line(format!("{name}: own size"), headroom.size, headroom.source),
    ];
    let HeadroomRule::Formula { tile } = switch.asic.row().headroom.value else { return lines };
    let Ok(terms) = headroom::terms(&buffer::input(switch.asic, kind, profile), tile) else { return lines };
    let whole = |bytes: f64| format!("{bytes:.0} bytes");
    let row = switch.asic.row();
    let parts = [
        ("on the cable, there and back", whole(terms.cable), Source::Rule("2 x length x speed / 1.98e8 m/s")),
        ("until the peer obeys", whole(terms.peer), Source::Published("IEEE 802.3 31B.3.7")),
        ("the packet that has begun", whole(terms.port_mtu), Source::Profile("switch.mtu")),
        ("between chiplets", whole(terms.tile), row.headroom.source),
        ("cells that stay empty, factor", format!("{:.3}", terms.occupancy), row.cell.source),
    ];
    lines.extend(parts.map(|(what, value, source)| line(format!("{name}:   {what}"), value, source)));
    lines
}
