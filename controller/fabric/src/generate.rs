//! Rail-optimised Clos fabrics by their sizes.
//!
//! Each pod has one leaf per rail (two, one per plane, where NICs have two ports). The leaves of one rail and plane
//! are joined by spines of their own; where there are more pods than a spine has ports, pods are gathered into blocks
//! with spines of their own, and a third layer joins the blocks.

use proto_model::{Fabric, Leaf, LinkGroup, Names, Rail, Spine, Uplink};
use thiserror::Error;

/// The sizes of a fabric to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Name of the document to make.
    pub name: String,
    /// Number of servers to cable.
    pub nodes: u32,
    /// Rails, one NIC of each server on each.
    pub rails: u32,
    /// Ports of every switch.
    pub radix: u32,
    /// 1, or 2 for NICs with two ports on two leaves.
    pub planes: u32,
    /// Servers of a pod; as many as the leaf's ports allow if `None`.
    pub pod: Option<u32>,
    /// Down to up capacity of a leaf, at least 1: 1 is non-blocking, 2 has half of it going up.
    pub oversubscription: f64,
    /// Of a NIC, in Mbit/s; its ports share it.
    pub speed_mbps: u64,
    /// Of the cables between switches, in Mbit/s.
    pub uplink_mbps: u64,
    /// Servers are called this and a number.
    pub prefix: String,
    /// NICs are called this and the rail's number.
    pub nic: String,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            name: "generated".into(),
            nodes: 64,
            rails: 8,
            radix: 64,
            planes: 1,
            pod: None,
            oversubscription: 1.0,
            speed_mbps: 400_000,
            uplink_mbps: 400_000,
            prefix: "gpu".into(),
            nic: "mlx5_".into(),
        }
    }
}

/// What cannot be built; one variant per field.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ShapeError {
    /// No server, or more than a list of names takes.
    #[error("nodes: {0}; a fabric has 1 to {max} servers", max = Names::MAX / 2)]
    Nodes(u32),
    /// No rail, or more than a fabric may have.
    #[error("rails: {0}; a fabric has 1 to {max} rails", max = controller_topology::RailSet::MAX)]
    Rails(u32),
    /// A switch that cannot join anything.
    #[error("radix: {0}; a switch has 2 to 1024 ports")]
    Radix(u32),
    /// NICs have one port or two.
    #[error("planes: {0}; a NIC has one port or two")]
    Planes(u32),
    /// Too many servers for a leaf.
    #[error(
        "pod: {pod} servers and the {up} cables up that an oversubscription of {oversubscription} needs are more than the {radix} ports of a leaf; at most {most} servers fit"
    )]
    Pod {
        /// Servers of a pod that were asked for.
        pod: u32,
        /// Cables from a leaf up to spines.
        up: u32,
        /// The oversubscription that was asked for: bandwidth down to bandwidth up.
        oversubscription: f64,
        /// Ports of a leaf.
        radix: u32,
        /// The most servers of a pod that would fit.
        most: u32,
    },
    /// Not a ratio of at least 1.
    #[error("oversubscription: {0}; it is at least 1 (non-blocking) and at most 1024")]
    Oversubscription(f64),
    /// Names that a server could not have.
    #[error("prefix: {0}")]
    Prefix(proto_model::NameError),
    /// More pods than three layers of switches join.
    #[error(
        "nodes: {pods} pods need {blocks} blocks of {block} pods, but a switch of {radix} ports joins {radix}; use a larger radix, larger pods, or at most {most} servers"
    )]
    Layers {
        /// Pods that the servers need.
        pods: u32,
        /// Blocks that they need.
        blocks: u32,
        /// Pods of a block.
        block: u32,
        /// Ports of a switch.
        radix: u32,
        /// Servers that three layers join.
        most: u64,
    },
}

/// A fabric and what is to be known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The document that was made, free of faults.
    pub fabric: Fabric,
    /// What was built, in sentences.
    pub built: Vec<String>,
    /// What does not divide: ports left over, pods not full, ratios that could not be met exactly.
    pub uneven: Vec<String>,
}

/// The numbers of a rail and plane.
#[derive(Debug, Clone, Copy)]
struct Clos {
    /// Servers of a pod.
    pod: u32,
    pods: u32,
    /// Cables up from a leaf.
    up: u32,
    /// Spines of a block; 0 where one pod is all.
    spines: u32,
    /// Cables from a leaf to each spine.
    cables: u32,
    /// Pods of a block.
    block: u32,
    blocks: u32,
    /// Third layer: switches for each spine of a block, and cables to each.
    cores: u32,
    core_cables: u32,
}

/// Builds a fabric. Cables of one pod and rail are one list: the document stays small however many servers it has.
///
/// # Errors
/// [`ShapeError`] names the field and what would be right.
pub fn generate(shape: &Shape) -> Result<Generated, ShapeError> {
    let clos = layers(shape)?;
    let mut fabric = Fabric { name: shape.name.clone(), ..Fabric::default() };
    for rail in 0..shape.rails {
        fabric.rails.push(Rail { index: rail, name: format!("rail{rail}") });
        for plane in 0..shape.planes {
            leaves(shape, &clos, rail, plane, &mut fabric);
            if clos.spines > 0 {
                spines(shape, &clos, rail, plane, &mut fabric);
            }
        }
    }
    let (built, uneven) = reported(shape, &clos);
    Ok(Generated { fabric, built, uneven })
}

fn layers(shape: &Shape) -> Result<Clos, ShapeError> {
    let &Shape { nodes, rails, radix, planes, oversubscription: ratio, .. } = shape;
    if nodes == 0 || nodes as usize > Names::MAX / 2 {
        return Err(ShapeError::Nodes(nodes));
    }
    if rails == 0 || rails > controller_topology::RailSet::MAX {
        return Err(ShapeError::Rails(rails));
    }
    if !(2..=1024).contains(&radix) {
        return Err(ShapeError::Radix(radix));
    }
    if !(1..=2).contains(&planes) {
        return Err(ShapeError::Planes(planes));
    }
    if !(1.0..=1024.0).contains(&ratio) {
        return Err(ShapeError::Oversubscription(ratio));
    }
    proto_model::NodeName::new(format!("{}1", shape.prefix)).map_err(ShapeError::Prefix)?;
    let whole = (1..=radix).rev().find(|pod| pod + up(shape, *pod) <= radix).unwrap_or(1);
    // One pod needs nothing above it.
    let most = if nodes <= radix { radix } else { whole };
    let pod = shape.pod.unwrap_or(if nodes <= radix { nodes } else { whole });
    let alone = nodes <= pod;
    if pod == 0 || pod > most || (!alone && pod > whole) {
        let most = if alone { radix } else { whole };
        return Err(ShapeError::Pod { pod, up: up(shape, pod), oversubscription: ratio, radix, most });
    }
    let pods = nodes.div_ceil(pod);
    let mut clos =
        Clos { pod, pods, up: 0, spines: 0, cables: 0, block: pods, blocks: 1, cores: 0, core_cables: 0 };
    if pods == 1 {
        return Ok(clos);
    }
    clos.up = up(shape, pod);
    let largest = |total: u32, each: u32| {
        (1..=total).rev().find(|n| total.is_multiple_of(*n) && n * each <= radix).unwrap_or(1)
    };
    if pods <= radix {
        clos.cables = largest(clos.up, pods);
        clos.spines = clos.up / clos.cables;
        return Ok(clos);
    }
    // Half of a spine's ports go down to the leaves of its block, half up.
    clos.block = (radix / 2).max(1);
    clos.blocks = pods.div_ceil(clos.block);
    let ups = radix - clos.block;
    if clos.blocks > radix || ups == 0 {
        let most = u64::from(radix) * u64::from(clos.block) * u64::from(pod);
        return Err(ShapeError::Layers { pods, blocks: clos.blocks, block: clos.block, radix, most });
    }
    clos.cables = 1;
    clos.spines = clos.up;
    clos.core_cables = largest(ups, clos.blocks);
    clos.cores = ups / clos.core_cables;
    Ok(clos)
}

/// Cables up that a leaf needs for so many servers.
fn up(shape: &Shape, pod: u32) -> u32 {
    let port = shape.speed_mbps as f64 / f64::from(shape.planes);
    let wanted = f64::from(pod) * port / shape.oversubscription;
    let each = if shape.uplink_mbps > 0 && shape.speed_mbps > 0 { shape.uplink_mbps as f64 } else { 1.0 };
    let wanted = if shape.uplink_mbps > 0 && shape.speed_mbps > 0 {
        wanted
    } else {
        f64::from(pod) / shape.oversubscription
    };
    ((wanted / each - 1e-9).ceil().max(1.0)) as u32
}

fn width(count: u32) -> usize {
    count.to_string().len()
}

/// Names with a numeric range, `PREFIX[first-last]TAIL`, padded with zeros to `width` digits.
fn list(prefix: &str, first: u32, last: u32, width: usize, tail: &str) -> Names {
    let text = if first == last {
        format!("{prefix}{first:0width$}{tail}")
    } else {
        format!("{prefix}[{first:0width$}-{last:0width$}]{tail}")
    };
    Names::new(&text).unwrap_or_default()
}

fn plane_of(shape: &Shape, rail: u32, plane: u32) -> String {
    if shape.planes == 1 { format!("r{rail}") } else { format!("r{rail}p{plane}") }
}

fn leaves(shape: &Shape, clos: &Clos, rail: u32, plane: u32, fabric: &mut Fabric) {
    let (wide, pods) = (width(shape.nodes), width(clos.pods));
    for pod in 0..clos.pods {
        let name = format!("{}-leaf{:0pods$}", plane_of(shape, rail, plane), pod + 1);
        let first = pod * clos.pod + 1;
        let last = shape.nodes.min(first + clos.pod - 1);
        fabric.link_groups.push(LinkGroup {
            nodes: list(&shape.prefix, first, last, wide, ""),
            nic: format!("{}{rail}", shape.nic),
            leaf: name.clone(),
            ports: list("Ethernet", 1, last - first + 1, 1, ""),
            speed_mbps: shape.speed_mbps / u64::from(shape.planes),
            rail: None,
        });
        let pod = format!("pod{:0pods$}", pod + 1);
        fabric.leaves.push(Leaf { name, rail, pod, plane, ..Leaf::default() });
    }
}

fn spines(shape: &Shape, clos: &Clos, rail: u32, plane: u32, fabric: &mut Fabric) {
    let (pods, wide, blocks) = (width(clos.pods), width(clos.spines), width(clos.blocks));
    let own = plane_of(shape, rail, plane);
    let spine = |name: String| Spine { name, rail, plane, ..Spine::default() };
    let uplink = |lower: Names, upper: Names, cables: u32| Uplink {
        lower,
        upper,
        cables,
        speed_mbps: shape.uplink_mbps,
        down: 0,
    };
    for block in 0..clos.blocks {
        let prefix = if clos.blocks == 1 {
            format!("{own}-spine")
        } else {
            format!("{own}-b{:0blocks$}-spine", block + 1)
        };
        let upper = list(&prefix, 1, clos.spines, wide, "");
        fabric.spines.extend(upper.iter().map(spine));
        let (first, last) = (block * clos.block + 1, clos.pods.min((block + 1) * clos.block));
        let lower = list(&format!("{own}-leaf"), first, last, pods, "");
        fabric.uplinks.push(uplink(lower, upper, clos.cables));
    }
    if clos.cores == 0 {
        return;
    }
    for at in 1..=clos.spines {
        let upper = list(&format!("{own}-core{at:0wide$}-"), 1, clos.cores, width(clos.cores), "");
        fabric.spines.extend(upper.iter().map(spine));
        let lower = list(&format!("{own}-b"), 1, clos.blocks, blocks, &format!("-spine{at:0wide$}"));
        fabric.uplinks.push(uplink(lower, upper, clos.core_cables));
    }
}

/// What was built, and what does not divide.
fn reported(shape: &Shape, clos: &Clos) -> (Vec<String>, Vec<String>) {
    let &Shape { nodes, rails, radix, planes, .. } = shape;
    let trees = rails * planes;
    let mut built = vec![format!(
        "{nodes} servers with {rails} NICs in {} of {} servers; {} of {radix} ports: {}",
        count(clos.pods, "pod"),
        clos.pod,
        count(trees * clos.pods, "leaf"),
        if planes == 2 { "one per pod, rail and plane" } else { "one per pod and rail" },
    )];
    let mut uneven = Vec::new();
    let last = nodes - (clos.pods - 1) * clos.pod;
    if last < clos.pod {
        uneven.push(format!("the last pod has {last} of {} servers", clos.pod));
    }
    if clos.pods == 1 {
        built.push("no spines: one pod reaches itself over its leaves".into());
        return (built, uneven);
    }
    let port = shape.speed_mbps as f64 / f64::from(planes);
    let known = shape.speed_mbps > 0 && shape.uplink_mbps > 0;
    let (down, up) = if known {
        (f64::from(clos.pod) * port, f64::from(clos.up) * shape.uplink_mbps as f64)
    } else {
        (f64::from(clos.pod), f64::from(clos.up))
    };
    built.push(format!(
        "{} cables up from each leaf, {} to each of {} spines{}: oversubscription {:.2}",
        clos.up,
        clos.cables,
        clos.spines,
        if clos.blocks > 1 { " of its block" } else { "" },
        down / up
    ));
    if (down / up - shape.oversubscription).abs() > 0.005 {
        uneven.push(format!(
            "an oversubscription of {} was asked for, {:.2} is built",
            shape.oversubscription,
            down / up
        ));
    }
    let free = radix - clos.pod - clos.up;
    if free > 0 {
        uneven.push(format!("{free} of {radix} ports of each leaf stay free"));
    }
    if clos.blocks == 1 {
        built.push(format!("{} of {radix} ports, all of one rail each", count(trees * clos.spines, "spine")));
        let free = radix - clos.pods * clos.cables;
        if free > 0 {
            uneven.push(format!("{free} of {radix} ports of each spine stay free"));
        }
        return (built, uneven);
    }
    built.push(format!(
        "{} pods are more than the {radix} ports of a spine: {} blocks of {} pods, {} and above them {}",
        clos.pods,
        clos.blocks,
        clos.block,
        count(trees * clos.spines * clos.blocks, "spine"),
        count(trees * clos.spines * clos.cores, "core switch"),
    ));
    let rest = clos.pods - (clos.blocks - 1) * clos.block;
    if rest < clos.block {
        uneven.push(format!("the last block has {rest} of {} pods: its spines have ports free", clos.block));
    }
    let free = radix - clos.blocks * clos.core_cables;
    if free > 0 {
        uneven.push(format!("{free} of {radix} ports of each core switch stay free"));
    }
    (built, uneven)
}

fn count(number: u32, what: &str) -> String {
    let many = match what {
        "leaf" => "leaves".to_owned(),
        "core switch" => "core switches".to_owned(),
        what => format!("{what}s"),
    };
    format!("{number} {}", if number == 1 { what } else { &many })
}
