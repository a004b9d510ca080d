//! Definitions of Multus: what they say for fabrics and options, and what is refused.

use proto_model::{Fabric, Leaf, Link, NodeName, Rail};
use serde_json::{Value, json};

use super::{names, networks, ranges::Range};
use crate::args::{AddressManagement, DocumentFormat, KubernetesNetworks, NetworkType};

fn fabric(rails: &[&str], cables: &[(&str, &str, u32, u32)]) -> Fabric {
    let rails: Vec<Rail> =
        (0..).zip(rails).map(|(index, name)| Rail { index, name: (*name).to_owned() }).collect();
    let leaf = |rail: u32, plane: u32| Leaf {
        name: format!("leaf-{rail}-{plane}"),
        rail,
        pod: "p0".to_owned(),
        plane,
        ..Leaf::default()
    };
    let leaves = rails.iter().flat_map(|rail| [leaf(rail.index, 0), leaf(rail.index, 1)]).collect();
    let link = |(node, nic, rail, plane): &(&str, &str, u32, u32)| Link {
        node: NodeName::new(node).unwrap(),
        nic: (*nic).to_owned(),
        leaf: format!("leaf-{rail}-{plane}"),
        port: String::new(),
        speed_mbps: 0,
        down: false,
        rail: None,
    };
    Fabric {
        name: "hall".to_owned(),
        rails,
        leaves,
        links: cables.iter().map(link).collect(),
        ..Fabric::default()
    }
}

fn two() -> Fabric {
    fabric(
        &["rail0", ""],
        &[("n0", "eth0", 0, 0), ("n1", "eth0", 0, 0), ("n0", "eth1", 1, 0), ("n1", "eth1", 1, 0)],
    )
}

fn asked() -> KubernetesNetworks {
    KubernetesNetworks {
        file: None,
        kind: NetworkType::default(),
        namespace: "default".to_owned(),
        device: None,
        resource: None,
        mtu: None,
        vlan: None,
        rdma: false,
        ipam: AddressManagement::default(),
        range: None,
        exclude: Vec::new(),
        output: DocumentFormat::default(),
    }
}

/// Configurations of the plugins, by the definitions' names.
fn configs(made: &[Value]) -> Vec<(String, Value)> {
    let config = |one: &Value| serde_json::from_str(one["spec"]["config"].as_str().unwrap()).unwrap();
    made.iter().map(|one| (one["metadata"]["name"].as_str().unwrap().to_owned(), config(one))).collect()
}

#[test]
fn each_rail_has_a_definition() {
    let made = networks::definitions(&two(), &asked()).unwrap();
    let expected = |name: &str, device: &str| {
        (
            name.to_owned(),
            json!({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "host-device", "device": device}]}),
        )
    };
    assert_eq!(configs(&made), [expected("rail0", "eth0"), expected("rail1", "eth1")]);
}

#[test]
fn plugins_have_what_was_asked_for() {
    let macvlan = KubernetesNetworks {
        kind: NetworkType::Macvlan,
        mtu: Some(9000),
        vlan: Some(100),
        ipam: AddressManagement::Whereabouts,
        range: Some("10.{k}.0.0/16".to_owned()),
        exclude: vec!["10.{k}.0.0/24".to_owned()],
        ..asked()
    };
    let expected = json!([{"type": "macvlan", "master": "eth1.100", "mode": "bridge", "mtu": 9000,
        "ipam": {"type": "whereabouts", "range": "10.1.0.0/16", "exclude": ["10.1.0.0/24"]}}]);
    assert_eq!(configs(&networks::definitions(&two(), &macvlan).unwrap())[1].1["plugins"], expected);

    let sriov = KubernetesNetworks {
        kind: NetworkType::Sriov,
        resource: Some("railyard.io/rail{k}".to_owned()),
        mtu: Some(4200),
        vlan: Some(7),
        rdma: true,
        ipam: AddressManagement::Static,
        ..asked()
    };
    // Names of NICs are the device plugin's to know.
    let differ = fabric(&["rail0"], &[("n0", "mlx5_0", 0, 0), ("n1", "mlx5_4", 0, 0)]);
    let made = networks::definitions(&differ, &sriov).unwrap();
    let annotation = &made[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"];
    assert_eq!(annotation, "railyard.io/rail0");
    let expected = json!([{"type": "sriov", "vlan": 7, "ipam": {"type": "static"}, "capabilities": {"ips": true}},
        {"type": "tuning", "mtu": 4200}, {"type": "rdma"}]);
    assert_eq!(configs(&made)[0].1["plugins"], expected);

    let ipvlan = KubernetesNetworks {
        kind: NetworkType::Ipvlan,
        device: Some("rail{k}".to_owned()),
        ipam: AddressManagement::Static,
        ..asked()
    };
    let expected = json!([{"type": "ipvlan", "master": "rail1", "mode": "l2", "ipam": {"type": "static"},
        "capabilities": {"ips": true}}]);
    assert_eq!(configs(&networks::definitions(&two(), &ipvlan).unwrap())[1].1["plugins"], expected);
}

#[test]
fn planes_of_a_rail_have_a_definition_each() {
    let planes =
        fabric(&["rail0", "rail1"], &[("n0", "eth0", 0, 0), ("n0", "eth1", 0, 1), ("n0", "eth2", 1, 0)]);
    let names: Vec<String> = configs(&networks::definitions(&planes, &asked()).unwrap())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["rail0-plane0", "rail0-plane1", "rail1"]);
}

#[test]
fn planes_of_a_rail_share_no_device_resource_or_range() {
    let planes =
        fabric(&["rail0", "rail1"], &[("n0", "eth0", 0, 0), ("n0", "eth1", 0, 1), ("n0", "eth2", 1, 0)]);
    let of_rail = KubernetesNetworks {
        device: Some("rail{k}".to_owned()),
        ipam: AddressManagement::Whereabouts,
        range: Some("10.{k}.0.0/16".to_owned()),
        ..asked()
    };
    let all = networks::definitions(&planes, &of_rail).unwrap_err().join("\n");
    let device = "rail 0, plane 1: its device rail0 is that of rail 0, plane 0, too; put {k} into --device where rails differ, and {p} where planes";
    assert!(all.contains(device), "{all}");
    let range = "rail0-plane1: its range meets that of rail0-plane0; put {k} into --range where rails differ, and {p} where planes";
    assert!(all.contains(range) && all.lines().count() == 2, "{all}");

    let of_plane = KubernetesNetworks {
        device: Some("rail{k}p{p}".to_owned()),
        range: Some("10.{k}.{p}.0/24".to_owned()),
        exclude: vec!["10.{k}.{p}.0/28".to_owned()],
        ..of_rail
    };
    let made = configs(&networks::definitions(&planes, &of_plane).unwrap());
    let expected = json!([{"type": "host-device", "device": "rail0p1",
        "ipam": {"type": "whereabouts", "range": "10.0.1.0/24", "exclude": ["10.0.1.0/28"]}}]);
    assert_eq!(made[1].1["plugins"], expected);

    let sriov = |resource: &str| KubernetesNetworks {
        kind: NetworkType::Sriov,
        resource: Some(resource.to_owned()),
        ..asked()
    };
    let all = networks::definitions(&planes, &sriov("railyard.io/rail{k}")).unwrap_err().join("\n");
    assert!(all.contains("its resource railyard.io/rail0 is that of rail 0, plane 0, too"), "{all}");
    assert!(networks::definitions(&planes, &sriov("railyard.io/rail{k}p{p}")).is_ok());

    // A document whose servers call NICs of different rails alike.
    let crossed = fabric(&["rail0", "rail1"], &[("n0", "eth0", 0, 0), ("n1", "eth0", 1, 0)]);
    let all = networks::definitions(&crossed, &asked()).unwrap_err().join("\n");
    assert!(all.contains("rail 1: its device eth0 is that of rail 0, too"), "{all}");
}

#[test]
fn what_no_plugin_would_do_is_refused() {
    let ipvlan =
        KubernetesNetworks { kind: NetworkType::Ipvlan, device: Some("rail{k}".to_owned()), ..asked() };
    let findings = networks::definitions(&two(), &ipvlan).unwrap_err();
    assert!(findings[0].starts_with("--type ipvlan needs --ipam static or whereabouts: "), "{findings:?}");
    for kind in [NetworkType::HostDevice, NetworkType::Macvlan] {
        let rdma = KubernetesNetworks { kind, rdma: true, ..asked() };
        let findings = networks::definitions(&two(), &rdma).unwrap_err();
        assert!(findings[0].starts_with("--rdma is for --type sriov: "), "{kind:?}: {findings:?}");
    }
    let long = fabric(&["rail0"], &[("n0", "enp129s0f0np0", 0, 0)]);
    let vlan = |vlan: u32| KubernetesNetworks { kind: NetworkType::Macvlan, vlan: Some(vlan), ..asked() };
    assert!(networks::definitions(&long, &vlan(7)).is_ok());
    let findings = networks::definitions(&long, &vlan(70)).unwrap_err();
    let expected = "rail 0: its VLAN interface \"enp129s0f0np0.70\" has more than 15 characters";
    assert!(findings[0].starts_with(expected) && findings.len() == 1, "{findings:?}");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let bad = fabric(
        &["Rail 0", "same", "same"],
        &[
            ("n0", "mlx5_0", 0, 0),
            ("n1", "a name that is long", 0, 0),
            ("n0", "eth1", 1, 0),
            ("n0", "eth\"2", 2, 0),
        ],
    );
    let wrong = KubernetesNetworks {
        namespace: "a: b".to_owned(),
        mtu: Some(99),
        vlan: Some(4095),
        ipam: AddressManagement::Whereabouts,
        range: Some("10.0.0.0/8".to_owned()),
        exclude: vec!["11.0.0.0/8".to_owned()],
        ..asked()
    };
    let findings = networks::definitions(&bad, &wrong).unwrap_err();
    let all = findings.join("\n");
    for part in [
        "--namespace \"a: b\" has other characters",
        "--mtu 99 is not between",
        "--vlan 4095 is not between",
        "--vlan is not for --type host-device",
        "rail 0: its name \"Rail 0\" has other characters",
        "rail 0: its NICs have 2 names, \"a name that is long\" (n1), \"mlx5_0\" (n0);",
        "mlx5_0 is the name of an RDMA device",
        "\"a name that is long\" has more than 15 characters",
        "rail 2: another rail is called same too",
        "rail 0: --exclude 11.0.0.0/8 is not in its range 10.0.0.0/8",
        "its range meets that of",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    let empty = networks::definitions(&Fabric::default(), &asked()).unwrap_err();
    assert!(empty[0].contains("cables no server"), "{empty:?}");
    let sriov = KubernetesNetworks { kind: NetworkType::Sriov, device: Some("eth0".to_owned()), ..asked() };
    assert_eq!(networks::definitions(&two(), &sriov).unwrap_err().len(), 2);
}

/// Whatever comes from a document stays a value: no name ends a text, a line or a list.
#[test]
fn no_name_is_taken_for_more_than_a_name() {
    for name in
        ["eth0\"", "eth0\n", "eth 0", "a/b", "eth0}", "{{x}}", "eth\u{85}0", "", "..", "eth0123456789abc"]
    {
        let fabric = fabric(&[name], &[("n0", name, 0, 0)]);
        match networks::definitions(&fabric, &asked()) {
            Err(findings) => assert!(!findings.is_empty(), "{name:?}"),
            // An empty name is "rail0", a device of graphic characters is one.
            Ok(made) => assert_eq!(configs(&made)[0].1["plugins"][0]["device"], name, "{name:?}"),
        }
        let fabric = fabric_of(name);
        if let Ok(made) = networks::definitions(&fabric, &asked()) {
            assert_eq!(networks::yaml(&made).matches("apiVersion").count(), 1, "{name:?}");
            assert_eq!(configs(&made)[0].1["plugins"][0]["device"], name, "{name:?}");
        }
    }
}

fn fabric_of(nic: &str) -> Fabric {
    fabric(&["rail0"], &[("n0", nic, 0, 0)])
}

#[test]
fn names_are_those_of_kubernetes_and_linux() {
    assert!(names::label("rail-0").is_ok() && names::device("enp1s0f0np0").is_ok());
    assert!(["-a", "a-", "a.b", "A", "ä"].iter().all(|name| names::label(name).is_err()));
    assert!(names::label(&"a".repeat(63)).is_ok() && names::label(&"a".repeat(64)).is_err());
    assert!(names::resource("railyard.io/rail0").is_ok() && names::resource("a/b_c").is_ok());
    assert!(
        ["rail0", "/a", "a/", "a/b/c", "a b/c", "A.io/b", "a/-b"]
            .iter()
            .all(|name| names::resource(name).is_err())
    );
    assert!(names::is_rdma_device("mlx5_12") && names::is_rdma_device("bnxt_re0"));
    assert!(!names::is_rdma_device("mlx5_bond") && !names::is_rdma_device("rail0"));
}

#[test]
fn ranges_are_read_and_compared() {
    let read = |text: &str| Range::read(text).unwrap();
    assert!(
        read("10.0.0.0/8").holds(&read("10.255.0.0/16")) && !read("10.255.0.0/16").holds(&read("10.0.0.0/8"))
    );
    assert!(
        read("10.0.0.0/9").meets(&read("10.0.0.0/16")) && !read("10.0.0.0/9").meets(&read("10.128.0.0/9"))
    );
    assert!(read("fd00::/64").holds(&read("fd00::1/128")) && !read("::/1").meets(&read("10.0.0.0/8")));
    assert!(read("10.0.0.1/32").meets(&read("10.0.0.1/32")));
    for text in
        ["10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0/0", "10.0.0/8", "x/8", "10.0.0.0/", "fd00::/129"]
    {
        assert!(Range::read(text).is_err(), "{text}");
    }
}

#[test]
fn both_forms_say_the_same() {
    let made = networks::definitions(&two(), &asked()).unwrap();
    let list: Value = serde_json::from_str(&networks::json(&made)).unwrap();
    assert_eq!(list["items"].as_array().unwrap(), &made);
    let first = "\
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: \"rail0\"
  namespace: \"default\"
  labels:
    app.kubernetes.io/managed-by: \"railctl\"
    railyard.io/rail: \"0\"
spec:
  config: |
    {
";
    let text = networks::yaml(&made);
    assert!(text.starts_with(first) && text.split("---\n").count() == 2, "{text}");
}
