//! Rules by subnet, by switch and by slot, and what they hold on to.

use proptest::prelude::*;

use super::*;

fn candidate<'a>(device: &'a str, addresses: &'a [IpAddr], switches: &[&'a str]) -> Candidate<'a> {
    Candidate {
        device,
        netdev: device,
        pci_address: "",
        slot: "",
        rdma: true,
        speed_mbps: 400_000,
        kind: ("15b3:1021", "mlx5_core"),
        addresses,
        switches: switches.to_vec(),
    }
}

fn rails(rule: &str, candidates: &[Candidate<'_>]) -> (Vec<Option<u32>>, Vec<FindingKind>) {
    let mut findings = Vec::new();
    let rule: RailRule = rule.parse().unwrap();
    let served = rule.assign(candidates, &mut PreviousFindings::default(), &mut findings);
    let rails = served.into_iter().map(|served| served.map(|served| served.rail)).collect();
    (rails, findings.into_iter().map(|finding| finding.kind).collect())
}

fn ips(list: &str) -> Vec<IpAddr> {
    list.split_whitespace().map(|ip| ip.parse().unwrap()).collect()
}

#[test]
fn subnets_name_rails() {
    let (a, b, both, none) =
        (ips("fe80::1 10.0.3.5"), ips("10.0.63.1"), ips("10.0.1.1 10.0.2.1"), ips("10.1.0.1"));
    let all = [
        candidate("a", &a, &[]),
        candidate("b", &b, &[]),
        candidate("c", &both, &[]),
        candidate("d", &none, &[]),
    ];
    let (found, findings) = rails("subnet:10.0.{k}.0/24", &all);
    assert_eq!(found, [Some(3), Some(63), None, None]);
    assert_eq!(findings, [FindingKind::RailUnclear]);
    // The longest prefix wins, whatever the order.
    let (found, findings) = rails("subnet:10.0.3.0/24=7,10.0.0.0/16=1,0.0.0.0/0=2", &all);
    assert_eq!(found, [Some(7), Some(1), Some(1), Some(2)]);
    assert_eq!(findings, [FindingKind::RailShared]);
    let v6 = ips("fd00:4::1");
    assert_eq!(rails("subnet:fd00:{k}::/32", &[candidate("a", &v6, &[])]).0, [Some(4)]);
    assert_eq!(
        rails("subnet:::/0=5", &[candidate("a", &v6, &[]), candidate("b", &b, &[])]).0,
        [Some(5), None]
    );
}

#[test]
fn switches_name_rails() {
    let names = ["leaf-12-r3", "leaf-r3x", "spine-r3", "leaf-r64", "r2-leaf-r1"];
    let all: Vec<Candidate<'_>> = names.iter().map(|name| candidate(name, &[], &[name])).collect();
    assert_eq!(rails("lldp:leaf*-r{k}", &all).0, [Some(3), None, None, None, None]);
    assert_eq!(rails("lldp:*-r{k}*", &all).0, [Some(3), Some(3), Some(3), None, Some(1)]);
    assert_eq!(rails("lldp:leaf-r3x=5,spine-r3=6", &all).0, [None, Some(5), Some(6), None, None]);
    let (found, findings) = rails("lldp:leaf-r{k}", &[candidate("a", &[], &["leaf-r1", "leaf-r2", "mgmt"])]);
    assert_eq!((found, findings), (vec![None], vec![FindingKind::RailUnclear]));
}

#[test]
fn a_silent_switch_takes_no_rail_away_and_a_new_one_does() {
    let rule: RailRule = "lldp:leaf-r{k}".parse().unwrap();
    let (mut held, mut findings) = (PreviousFindings::default(), Vec::new());
    let mut pass = |switches: &[&str]| {
        let served = rule.assign(&[candidate("a", &[], switches)], &mut held, &mut findings);
        served.into_iter().next().unwrap().map(|served| (served.rail, served.reason))
    };
    assert_eq!(pass(&[]), None, "never heard");
    assert_eq!(pass(&["leaf-r2"]), Some((2, "LLDP neighbour leaf-r2".into())));
    assert_eq!(pass(&[]), Some((2, "as before: LLDP neighbour leaf-r2".into())));
    assert_eq!(pass(&[]), Some((2, "as before: LLDP neighbour leaf-r2".into())), "said once only");
    assert_eq!(pass(&["leaf-r5"]), Some((5, "LLDP neighbour leaf-r5".into())), "a cable was moved");
    rule.assign(&[], &mut held, &mut findings);
    assert_eq!(held, PreviousFindings::default(), "a NIC that went is forgotten");
}

/// Rails by PCI order of NICs with these speeds, by turns; a NIC's kind is its letter.
fn by_speed(checks: &[&[(&'static str, u64)]]) -> (Vec<Option<u32>>, Vec<FindingKind>) {
    let mut held = PreviousFindings::default();
    let (mut rails, mut findings) = (Vec::new(), Vec::new());
    for pass in checks {
        let nic = |(device, speed): &(&'static str, u64)| Candidate {
            pci_address: device,
            speed_mbps: *speed,
            kind: (&device[..1], "driver"),
            ..candidate(device, &[], &[])
        };
        let all: Vec<Candidate<'_>> = pass.iter().map(nic).collect();
        findings.clear();
        let served = RailRule::PciOrder.assign(&all, &mut held, &mut findings);
        rails = served.into_iter().map(|served| served.map(|served| served.rail)).collect();
    }
    (rails, findings.into_iter().map(|finding| finding.kind).collect())
}

#[test]
fn a_link_that_is_down_moves_no_rail() {
    let rails = |checks: &[&[(&'static str, u64)]]| by_speed(checks).0;
    let up: &[_] = &[("a0", 400), ("a1", 400), ("a2", 400), ("b3", 100)];
    let down: &[_] = &[("a0", 400), ("a1", 0), ("a2", 400), ("b3", 100)];
    let expected = [Some(0), Some(1), Some(2), None];
    assert_eq!(rails(&[up, down]), expected, "it had a link");
    assert_eq!(rails(&[down]), expected, "it has siblings");
    assert_eq!(rails(&[down, up]), expected);
    assert_eq!(
        rails(&[up, &[("a0", 400), ("a1", 200), ("a2", 400), ("b3", 0)]]),
        expected,
        "it trained slowly"
    );
    // A stranger without a link is no rail, a NIC that never had one among others of two speeds is told.
    assert_eq!(rails(&[&[("a0", 400), ("b1", 0), ("a2", 400)]]), [Some(0), None, Some(1)]);
    let mixed: &[_] = &[("a0", 400), ("a1", 0), ("a2", 400), ("a3", 200)];
    assert_eq!(by_speed(&[mixed]), (expected.to_vec(), vec![FindingKind::RailUnclear]));
    assert_eq!(rails(&[&[("a0", 400), ("a1", 0), ("a2", 200), ("a3", 200)]]), [Some(0), None, None, None]);
    // As long as nothing is known of any, all are.
    assert_eq!(rails(&[&[("a0", 0), ("b1", 0)]]), [Some(0), Some(1)]);
}

#[test]
fn slots_name_rails() {
    let mut nic = candidate("mlx5_0", &[], &[]);
    nic.slot = "12";
    let (found, findings) = rails("map:slot/12=4,slot/3=1", &[nic, candidate("mlx5_1", &[], &[])]);
    assert_eq!((found, findings), (vec![Some(4), None], vec![FindingKind::RailUnknown]));
}

#[test]
fn wrong_rules_say_what_would_be_right() {
    for (bad, words) in [
        ("subnet:", "SUBNET=RAIL"),
        ("subnet:10.0.0.0/24", "SUBNET=RAIL"),
        ("subnet:10.0.0.0/33=1", "10.0.0.0/33=1"),
        ("subnet:10.{k}.{k}.0/24", "one '{k}'"),
        ("subnet:ten.{k}.0.0/24", "one '{k}'"),
        ("subnet:10.0.0.0/24=64", "0 to 63"),
        ("lldp:leaf", "SWITCH=RAIL"),
        ("lldp:{k}{k}", "one '{k}'"),
        ("lldp:*****{k}", "four '*'"),
        ("lldp:=3", "SWITCH=RAIL"),
        ("rails", "subnet:10.0.{k}.0/24"),
    ] {
        let error = bad.parse::<RailRule>().unwrap_err().to_string();
        assert!(error.contains(words), "{bad}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_rule_that_reads_back_or_an_error(text in "(subnet|lldp):[a-f0-9:.{}k/=,*-]{0,30}") {
        if let Ok(rule) = text.parse::<RailRule>() {
            prop_assert_eq!(rule.to_string().parse::<RailRule>().unwrap(), rule);
        }
    }

    /// A pattern finds the number that was put in its place, between anything that has no digits beside it.
    #[test]
    fn a_pattern_finds_its_number(rail in 0u32..64, before in "[a-z-]{0,5}", after in "[a-z-]{0,5}", any in "[a-z]{0,9}") {
        let rule: Switches = format!("{before}*{{k}}{after}").parse().unwrap();
        prop_assert_eq!(rule.find(&format!("{before}{any}{rail}{after}")), Some(rail));
    }

    /// By the definition: the first bits are the same.
    #[test]
    fn a_subnet_contains_what_shares_its_first_bits(net in any::<u32>(), other in any::<u32>(), prefix in 0u32..=32) {
        let text = format!("{}/{prefix}=1", std::net::Ipv4Addr::from(net));
        let subnets: Subnets = text.parse().unwrap();
        let same = (0..prefix).all(|bit| net >> (31 - bit) & 1 == other >> (31 - bit) & 1);
        prop_assert_eq!(subnets.find(std::net::Ipv4Addr::from(other).into()).is_some(), same);
    }
}
