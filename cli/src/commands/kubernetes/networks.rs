//! `NetworkAttachmentDefinition`s of Multus: one for each rail of a fabric, and for each plane of it where it has two.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use proto_model::Fabric;
use serde_json::{Map, Value, json};

use super::{names, ranges::Range};
use crate::args::{AddressManagement, KubernetesNetworks, NetworkType};

/// Names of things that are told at most where many are meant.
const SHOWN: usize = 3;

/// NICs by name, each with the servers that have it, of one rail and plane.
type Nics = BTreeMap<String, BTreeSet<String>>;

/// What a definition is of: a rail, or a plane of it where it has several.
#[derive(Debug, Clone, Copy)]
struct Part {
    rail: u32,
    plane: u32,
    is_one_of_several: bool,
}

impl Part {
    /// The rail's index for {k}, the plane's for {p}.
    fn fill(self, text: &str) -> String {
        text.replace("{k}", &self.rail.to_string()).replace("{p}", &self.plane.to_string())
    }

    fn name(self, fabric: &Fabric) -> String {
        let named = fabric.rails.iter().find(|own| own.index == self.rail).map(|own| own.name.as_str());
        let name = named.filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("rail{}", self.rail), str::to_owned);
        if self.is_one_of_several { format!("{name}-plane{}", self.plane) } else { name }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rail {}", self.rail)?;
        if self.is_one_of_several { write!(f, ", plane {}", self.plane) } else { Ok(()) }
    }
}

/// The definitions, in the order of their rails.
///
/// # Errors
/// All that is wrong, each with what to do.
pub fn definitions(fabric: &Fabric, asked: &KubernetesNetworks) -> Result<Vec<Value>, Vec<String>> {
    let mut findings = options(asked);
    let nics = cabled(fabric);
    if fabric.rails.is_empty() || nics.is_empty() {
        findings.push(format!("fabric {}: it cables no server to a rail", fabric.name));
    }
    let planes: BTreeSet<(u32, u32)> = nics.keys().copied().collect();
    let (mut made, mut ranges, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut devices, mut resources) = (BTreeMap::new(), BTreeMap::new());
    for ((rail, plane), own) in &nics {
        let is_one_of_several = planes.iter().any(|(other, plane)| other == rail && *plane > 0);
        let part = Part { rail: *rail, plane: *plane, is_one_of_several };
        let name = part.name(fabric);
        findings.extend(name_taken(part, &name, &mut names));
        let device = device(part, own, asked).unwrap_or_else(|wrong| {
            findings.extend(wrong);
            String::new()
        });
        findings.extend(shared("device", &device, part, &mut devices));
        let resource = resource(part, asked).unwrap_or_else(|wrong| {
            findings.push(wrong);
            None
        });
        findings.extend(shared("resource", resource.as_deref().unwrap_or_default(), part, &mut resources));
        let addresses = addresses(part, asked, &mut findings);
        ranges.extend(addresses.as_ref().map(|(_, range)| (name.clone(), *range)));
        let config = config(&name, &device, asked, addresses.map(|(ipam, _)| ipam));
        made.push(definition(&name, *rail, resource.as_deref(), asked, &config));
    }
    findings.extend(overlaps(&ranges));
    if findings.is_empty() { Ok(made) } else { Err(findings) }
}

/// What is wrong with the name of a definition.
fn name_taken(part: Part, name: &str, names: &mut BTreeSet<String>) -> Option<String> {
    if let Err(wrong) = names::label(name) {
        return Some(format!(
            "{part}: its name {name:?} {wrong}; give it another one in the fabric document"
        ));
    }
    (!names.insert(name.to_owned())).then(|| {
        format!("{part}: another rail is called {name} too; give it another name in the fabric document")
    })
}

/// A device or resource that an earlier definition has, too: a pod that asks for one rail would be on another. None is empty.
fn shared(what: &str, value: &str, part: Part, taken: &mut BTreeMap<String, Part>) -> Option<String> {
    if value.is_empty() {
        return None;
    }
    let Some(other) = taken.get(value) else {
        taken.insert(value.to_owned(), part);
        return None;
    };
    Some(format!(
        "{part}: its {what} {value} is that of {other}, too; put {{k}} into --{what} where rails differ, and {{p}} where planes of a rail do"
    ))
}

/// Contradictions between options.
fn options(asked: &KubernetesNetworks) -> Vec<String> {
    let mut findings = Vec::new();
    let mut unless = |is_fine: bool, finding: String| {
        if !is_fine {
            findings.push(finding);
        }
    };
    if let Err(wrong) = names::label(&asked.namespace) {
        unless(false, format!("--namespace {:?} {wrong}", asked.namespace));
    }
    let is_sriov = asked.kind == NetworkType::Sriov;
    unless(
        is_sriov == asked.resource.is_some(),
        match is_sriov {
            true => {
                "--type sriov needs --resource: what the device plugin calls the virtual functions of a rail"
                    .to_owned()
            }
            false => "--resource is for --type sriov".to_owned(),
        },
    );
    unless(
        !is_sriov || asked.device.is_none(),
        "--device is not for --type sriov: the device plugin chooses it".to_owned(),
    );
    unless(
        is_sriov || !asked.rdma,
        "--rdma is for --type sriov: its plugin moves the RDMA device of what the device plugin has chosen, and with other types nothing is chosen"
            .to_owned(),
    );
    unless(
        asked.kind != NetworkType::Ipvlan || asked.ipam != AddressManagement::None,
        "--type ipvlan needs --ipam static or whereabouts: its plugin refuses every pod that has no address from there"
            .to_owned(),
    );
    if let Some(mtu) = asked.mtu {
        unless((1280..=9978).contains(&mtu), format!("--mtu {mtu} is not between 1280 and 9978"));
    }
    if let Some(vlan) = asked.vlan {
        unless((1..=4094).contains(&vlan), format!("--vlan {vlan} is not between 1 and 4094"));
        let has = asked.kind != NetworkType::HostDevice;
        unless(has, "--vlan is not for --type host-device: name the VLAN interface as --device".to_owned());
    }
    let is_whereabouts = asked.ipam == AddressManagement::Whereabouts;
    unless(
        is_whereabouts == asked.range.is_some(),
        match is_whereabouts {
            true => "--ipam whereabouts needs --range: the addresses of each rail, for example 10.{k}.0.0/16"
                .to_owned(),
            false => "--range is for --ipam whereabouts".to_owned(),
        },
    );
    unless(is_whereabouts || asked.exclude.is_empty(), "--exclude is for --ipam whereabouts".to_owned());
    findings
}

/// What the cables say, by rail and plane.
fn cabled(fabric: &Fabric) -> BTreeMap<(u32, u32), Nics> {
    let leaves: BTreeMap<&str, _> = fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), leaf)).collect();
    let mut nics: BTreeMap<(u32, u32), Nics> = BTreeMap::new();
    for link in fabric.each_link() {
        let Some(leaf) = leaves.get(link.leaf.as_str()) else { continue };
        let Some(rail) = leaf.rail_of(link.rail) else { continue };
        let own = nics.entry((rail, leaf.plane)).or_default();
        own.entry(link.nic).or_default().insert(link.node.to_string());
    }
    nics
}

/// The network device that servers have on a rail; empty for sriov, which has none.
fn device(part: Part, nics: &Nics, asked: &KubernetesNetworks) -> Result<String, Vec<String>> {
    if asked.kind == NetworkType::Sriov {
        return Ok(String::new());
    }
    let device = match &asked.device {
        Some(given) => {
            let device = part.fill(given);
            let wrong = |wrong| vec![format!("{part}: --device {device:?} {wrong}")];
            names::device(&device).map_err(wrong)?;
            device
        }
        None => nic(part, nics)?,
    };
    let master = master(&device, asked);
    let wrong = |wrong| {
        vec![format!(
            "{part}: its VLAN interface {master:?} {wrong}; name that interface itself by --device, without --vlan"
        )]
    };
    names::device(&master).map_err(wrong).map(|()| device)
}

/// What plugins that put an interface on a device put it on.
fn master(device: &str, asked: &KubernetesNetworks) -> String {
    match asked.vlan.filter(|_| matches!(asked.kind, NetworkType::Macvlan | NetworkType::Ipvlan)) {
        Some(vlan) => format!("{device}.{vlan}"),
        None => device.to_owned(),
    }
}

/// The one name that all NICs of a rail have in the fabric document.
fn nic(part: Part, nics: &Nics) -> Result<String, Vec<String>> {
    let mut findings = Vec::new();
    if nics.len() > 1 {
        let each = nics.iter().take(SHOWN).map(|(nic, nodes)| {
            format!("{nic:?} ({})", nodes.first().map(String::as_str).unwrap_or_default())
        });
        let more = if nics.len() > SHOWN { ", ..." } else { "" };
        findings.push(format!(
            "{part}: its NICs have {} names, {}{more}; one definition has one: give them one name on all servers and name it by --device, or use --type sriov",
            nics.len(),
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    let first = nics.keys().next().cloned().unwrap_or_default();
    for nic in nics.keys().take(SHOWN) {
        if names::is_rdma_device(nic) {
            findings.push(format!(
                "{part}: {nic} is the name of an RDMA device; name the network device by --device"
            ));
        } else if let Err(wrong) = names::device(nic) {
            findings.push(format!("{part}: the NIC {nic:?} {wrong}; name the network device by --device"));
        }
    }
    if findings.is_empty() { Ok(first) } else { Err(findings) }
}

fn resource(part: Part, asked: &KubernetesNetworks) -> Result<Option<String>, String> {
    let Some(given) = asked.resource.as_deref().filter(|_| asked.kind == NetworkType::Sriov) else {
        return Ok(None);
    };
    let resource = part.fill(given);
    match names::resource(&resource) {
        Ok(()) => Ok(Some(resource)),
        Err(wrong) => Err(format!("{part}: --resource {resource:?} {wrong}")),
    }
}

/// What whereabouts is told for a rail, and its range.
fn addresses(part: Part, asked: &KubernetesNetworks, findings: &mut Vec<String>) -> Option<(Value, Range)> {
    let given = asked.range.as_ref().filter(|_| asked.ipam == AddressManagement::Whereabouts)?;
    let text = part.fill(given);
    let range =
        Range::read(&text).map_err(|wrong| findings.push(format!("{part}: --range {text:?} {wrong}")));
    let range = range.ok()?;
    let mut ipam = json!({"type": "whereabouts", "range": text});
    let mut excluded = Vec::new();
    for given in &asked.exclude {
        let excludes = part.fill(given);
        match Range::read(&excludes) {
            Ok(own) if range.holds(&own) => excluded.push(excludes),
            Ok(_) => findings.push(format!("{part}: --exclude {excludes} is not in its range {text}")),
            Err(wrong) => findings.push(format!("{part}: --exclude {excludes:?} {wrong}")),
        }
    }
    if !excluded.is_empty() {
        ipam["exclude"] = json!(excluded);
    }
    Some((ipam, range))
}

/// Rails that share addresses: a pod on both would send on the wrong one.
fn overlaps(ranges: &[(String, Range)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, (name, range)) in ranges.iter().enumerate() {
        if let Some((other, _)) = ranges[..at].iter().find(|(_, other)| other.meets(range)) {
            findings.push(format!(
                "{name}: its range meets that of {other}; put {{k}} into --range where rails differ, and {{p}} where planes of a rail do"
            ));
        }
    }
    findings
}

/// The configuration of the plugins.
fn config(name: &str, device: &str, asked: &KubernetesNetworks, whereabouts: Option<Value>) -> Value {
    let mut plugin = Map::new();
    let mut chained = Vec::new();
    let master = master(device, asked);
    match asked.kind {
        NetworkType::HostDevice => {
            plugin.insert("type".to_owned(), json!("host-device"));
            plugin.insert("device".to_owned(), json!(device));
        }
        NetworkType::Macvlan => {
            plugin.insert("type".to_owned(), json!("macvlan"));
            plugin.insert("master".to_owned(), json!(master));
            plugin.insert("mode".to_owned(), json!("bridge"));
        }
        NetworkType::Ipvlan => {
            plugin.insert("type".to_owned(), json!("ipvlan"));
            plugin.insert("master".to_owned(), json!(master));
            plugin.insert("mode".to_owned(), json!("l2"));
        }
        NetworkType::Sriov => {
            plugin.insert("type".to_owned(), json!("sriov"));
            plugin.extend(asked.vlan.map(|vlan| ("vlan".to_owned(), json!(vlan))));
        }
    }
    if let Some(mtu) = asked.mtu {
        match asked.kind {
            NetworkType::Macvlan | NetworkType::Ipvlan => _ = plugin.insert("mtu".to_owned(), json!(mtu)),
            // These plugins take no MTU.
            NetworkType::HostDevice | NetworkType::Sriov => {
                chained.push(json!({"type": "tuning", "mtu": mtu}))
            }
        }
    }
    match asked.ipam {
        AddressManagement::None => {}
        AddressManagement::Static => {
            plugin.insert("ipam".to_owned(), json!({"type": "static"}));
            plugin.insert("capabilities".to_owned(), json!({"ips": true}));
        }
        AddressManagement::Whereabouts => plugin.extend(whereabouts.map(|ipam| ("ipam".to_owned(), ipam))),
    }
    if asked.rdma {
        chained.push(json!({"type": "rdma"}));
    }
    let plugins: Vec<Value> = std::iter::once(Value::Object(plugin)).chain(chained).collect();
    json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins})
}

fn definition(
    name: &str,
    rail: u32,
    resource: Option<&str>,
    asked: &KubernetesNetworks,
    config: &Value,
) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": asked.namespace,
        "labels": {"app.kubernetes.io/managed-by": "railctl", "railyard.io/rail": rail.to_string()},
    });
    if let Some(resource) = resource {
        metadata["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": resource});
    }
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata,
        // Multus reads it as text.
        "spec": {"config": format!("{config:#}")},
    })
}

/// As a List.
pub fn json(definitions: &[Value]) -> String {
    format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": definitions}))
}

/// As documents. All names in them were judged, so that none needs more than quotes.
pub fn yaml(definitions: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut made = String::new();
    for one in definitions {
        let metadata = &one["metadata"];
        let mut lines = vec![
            format!("apiVersion: {}", text(&one["apiVersion"])),
            format!("kind: {}", text(&one["kind"])),
            "metadata:".to_owned(),
            format!("  name: {}", metadata["name"]),
            format!("  namespace: {}", metadata["namespace"]),
        ];
        for part in ["labels", "annotations"] {
            let Some(pairs) = metadata[part].as_object() else { continue };
            lines.push(format!("  {part}:"));
            lines.extend(pairs.iter().map(|(key, value)| format!("    {key}: {value}")));
        }
        lines.extend(["spec:".to_owned(), "  config: |".to_owned()]);
        lines.extend(text(&one["spec"]["config"]).lines().map(|line| format!("    {line}")));
        if !made.is_empty() {
            made.push_str("---\n");
        }
        made.push_str(&(lines.join("\n") + "\n"));
    }
    made
}
