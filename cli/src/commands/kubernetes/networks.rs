//! `NetworkAttachmentDefinition`s of Multus: one for each rail of a fabric, and for each plane of it where it has two.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::Fabric;
use serde_json::{Map, Value, json};

use super::{names, ranges::Range};
use crate::args::{AddressManagement, KubernetesNetworks, NetworkType};

/// Names of things that are told at most where many are meant.
const SHOWN: usize = 3;

/// NICs by name, each with the servers that have it, of one rail and plane.
type Nics = BTreeMap<String, BTreeSet<String>>;

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
    let (mut made, mut ranges, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for ((rail, plane), own) in &nics {
        let several = planes.contains(&(*rail, 1));
        let name = name(fabric, *rail, several.then_some(*plane));
        if let Err(wrong) = names::label(&name) {
            findings.push(format!(
                "rail {rail}: its name {name:?} {wrong}; give it another one in the fabric document"
            ));
        } else if !taken.insert(name.clone()) {
            findings.push(format!(
                "rail {rail}: another rail is called {name} too; give it another name in the fabric document"
            ));
        }
        let device = device(*rail, own, asked).unwrap_or_else(|wrong| {
            findings.extend(wrong);
            String::new()
        });
        let resource = resource(*rail, asked).unwrap_or_else(|wrong| {
            findings.push(wrong);
            None
        });
        let addresses = addresses(*rail, asked, &mut findings);
        ranges.extend(addresses.as_ref().map(|(_, range)| (name.clone(), *range)));
        let config = config(&name, &device, asked, addresses.map(|(ipam, _)| ipam));
        made.push(definition(&name, *rail, resource.as_deref(), asked, &config));
    }
    findings.extend(overlaps(&ranges));
    if findings.is_empty() { Ok(made) } else { Err(findings) }
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

fn name(fabric: &Fabric, rail: u32, plane: Option<u32>) -> String {
    let named = fabric.rails.iter().find(|own| own.index == rail).map(|own| own.name.as_str());
    let name = named.filter(|name| !name.is_empty()).map_or_else(|| format!("rail{rail}"), str::to_owned);
    match plane {
        Some(plane) => format!("{name}-plane{plane}"),
        None => name,
    }
}

/// The rail's index for {k}.
fn of_rail(text: &str, rail: u32) -> String {
    text.replace("{k}", &rail.to_string())
}

/// The network device that servers have on a rail; empty for sriov, which has none.
fn device(rail: u32, nics: &Nics, asked: &KubernetesNetworks) -> Result<String, Vec<String>> {
    if asked.kind == NetworkType::Sriov {
        return Ok(String::new());
    }
    if let Some(given) = &asked.device {
        let device = of_rail(given, rail);
        let wrong = |wrong| vec![format!("rail {rail}: --device {device:?} {wrong}")];
        return names::device(&device).map_err(wrong).map(|()| device);
    }
    let mut findings = Vec::new();
    if nics.len() > 1 {
        let each = nics.iter().take(SHOWN).map(|(nic, nodes)| {
            format!("{nic:?} ({})", nodes.first().map(String::as_str).unwrap_or_default())
        });
        let more = if nics.len() > SHOWN { ", ..." } else { "" };
        findings.push(format!(
            "rail {rail}: its NICs have {} names, {}{more}; one definition has one: give them one name on all servers and name it by --device, or use --type sriov",
            nics.len(),
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    let first = nics.keys().next().cloned().unwrap_or_default();
    for nic in nics.keys().take(SHOWN) {
        if names::is_rdma_device(nic) {
            findings.push(format!(
                "rail {rail}: {nic} is the name of an RDMA device; name the network device by --device"
            ));
        } else if let Err(wrong) = names::device(nic) {
            findings
                .push(format!("rail {rail}: the NIC {nic:?} {wrong}; name the network device by --device"));
        }
    }
    if findings.is_empty() { Ok(first) } else { Err(findings) }
}

fn resource(rail: u32, asked: &KubernetesNetworks) -> Result<Option<String>, String> {
    let Some(given) = asked.resource.as_deref().filter(|_| asked.kind == NetworkType::Sriov) else {
        return Ok(None);
    };
    let resource = of_rail(given, rail);
    match names::resource(&resource) {
        Ok(()) => Ok(Some(resource)),
        Err(wrong) => Err(format!("rail {rail}: --resource {resource:?} {wrong}")),
    }
}

/// What whereabouts is told for a rail, and its range.
fn addresses(rail: u32, asked: &KubernetesNetworks, findings: &mut Vec<String>) -> Option<(Value, Range)> {
    let given = asked.range.as_ref().filter(|_| asked.ipam == AddressManagement::Whereabouts)?;
    let text = of_rail(given, rail);
    let range =
        Range::read(&text).map_err(|wrong| findings.push(format!("rail {rail}: --range {text:?} {wrong}")));
    let range = range.ok()?;
    let mut ipam = json!({"type": "whereabouts", "range": text});
    let mut excluded = Vec::new();
    for part in &asked.exclude {
        let part = of_rail(part, rail);
        match Range::read(&part) {
            Ok(own) if range.holds(&own) => excluded.push(part),
            Ok(_) => findings.push(format!("rail {rail}: --exclude {part} is not in its range {text}")),
            Err(wrong) => findings.push(format!("rail {rail}: --exclude {part:?} {wrong}")),
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
                "{name}: its range meets that of {other}; put {{k}} into --range where rails differ"
            ));
        }
    }
    findings
}

/// The configuration of the plugins.
fn config(name: &str, device: &str, asked: &KubernetesNetworks, whereabouts: Option<Value>) -> Value {
    let mut plugin = Map::new();
    let mut chained = Vec::new();
    let master = || match asked.vlan {
        Some(vlan) => format!("{device}.{vlan}"),
        None => device.to_owned(),
    };
    match asked.kind {
        NetworkType::HostDevice => {
            plugin.insert("type".to_owned(), json!("host-device"));
            plugin.insert("device".to_owned(), json!(device));
        }
        NetworkType::Macvlan => {
            plugin.insert("type".to_owned(), json!("macvlan"));
            plugin.insert("master".to_owned(), json!(master()));
            plugin.insert("mode".to_owned(), json!("bridge"));
        }
        NetworkType::Ipvlan => {
            plugin.insert("type".to_owned(), json!("ipvlan"));
            plugin.insert("master".to_owned(), json!(master()));
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
