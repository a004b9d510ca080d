//! Exports say what they should, name every node once, and tell what is lost.

use proto_model::{Fabric, Names};

use crate::{Shape, export, generate};

fn fabric() -> Fabric {
    let shape =
        Shape { nodes: 10, rails: 2, radix: 16, pod: Some(4), name: "Site A".into(), ..Shape::default() };
    generate(&shape).unwrap().fabric
}

#[test]
fn slurm_reads_a_tree() {
    let made = export::slurm_conf(&fabric());
    let lines: Vec<&str> = made.text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "SwitchName=pod1 Nodes=gpu[01-04]",
            "SwitchName=pod2 Nodes=gpu[05-08]",
            "SwitchName=pod3 Nodes=gpu[09-10]",
            "SwitchName=fabric Switches=pod[1-3]",
        ]
    );
    assert!(
        made.lost[0].starts_with("rails: 2 rails") && made.text.contains(&made.lost[0]),
        "{:?}",
        made.lost
    );
}

#[test]
fn slurm_reads_yaml_with_tree_and_blocks() {
    let made = export::slurm_yaml(&fabric());
    let body = made.text.split_once("---\n").unwrap().1;
    assert_eq!(
        body,
        "- topology: pods\n  cluster_default: true\n  tree:\n    switches:\n      - switch: \"pod1\"\n        nodes: \"gpu[01-04]\"\n      \
         - switch: \"pod2\"\n        nodes: \"gpu[05-08]\"\n      - switch: \"pod3\"\n        nodes: \"gpu[09-10]\"\n      \
         - switch: \"fabric\"\n        children: \"pod[1-3]\"\n- topology: blocks\n  cluster_default: false\n  block:\n    block_sizes:\n      \
         - 2\n      - 4\n    blocks:\n      - block: \"pod1\"\n        nodes: \"gpu[01-04]\"\n      - block: \"pod2\"\n        nodes: \"gpu[05-08]\"\n      \
         - block: \"pod3\"\n        nodes: \"gpu[09-10]\"\n"
    );
    assert!(made.lost.iter().any(|line| line.contains("2 to 4 nodes")));
}

#[test]
fn kubernetes_reads_labels_and_hypernodes() {
    let made = export::kueue(&fabric());
    assert_eq!(made.text.matches("kind: Node\n").count(), 10);
    assert!(
        made.text.contains("name: \"site-a\"\nspec:\n  levels:\n  - nodeLabel: \"railyard.io/pod\"\n"),
        "{}",
        made.text
    );
    let made = export::volcano(&fabric());
    assert_eq!(
        (made.text.matches("type: Node\n").count(), made.text.matches("type: HyperNode\n").count()),
        (10, 3)
    );
    assert!(made.text.contains("name: \"fabric\"\nspec:\n  tier: 2\n"), "{}", made.text);
}

#[test]
fn blocks_are_a_layer_of_their_own() {
    let shape = Shape { nodes: 40, rails: 2, radix: 8, ..Shape::default() };
    let f = generate(&shape).unwrap().fabric;
    let conf = export::slurm_conf(&f).text;
    assert!(conf.contains("SwitchName=block1 Switches=pod[01-04]\n"), "{conf}");
    assert!(conf.contains("SwitchName=fabric Switches=block[1-3]\n"), "{conf}");
    let named: usize = conf
        .lines()
        .filter_map(|line| line.split_once("Nodes="))
        .map(|(_, nodes)| Names::new(nodes).unwrap().len())
        .sum();
    assert_eq!(named, 40, "every node once");
    assert!(export::kueue(&f).text.contains("\"railyard.io/block\": \"block3\"\n"));
    assert!(export::volcano(&f).text.contains("  tier: 3\n"));
}

/// Two pods of four leaves on each of two rails, four servers on each leaf.
fn racks() -> Fabric {
    let mut f =
        generate(&Shape { nodes: 32, rails: 2, radix: 16, pod: Some(4), ..Shape::default() }).unwrap().fabric;
    for leaf in &mut f.leaves {
        let pod: u32 = leaf.pod.trim_start_matches("pod").parse().unwrap();
        leaf.pod = if pod <= 4 { "west".into() } else { "east".into() };
    }
    f
}

#[test]
fn leaves_within_a_pod_are_a_layer_of_their_own() {
    let f = racks();
    assert_eq!(controller_topology::check(&f), []);
    let conf = export::slurm_conf(&f).text;
    for line in [
        "SwitchName=r0-leaf1 Nodes=gpu[01-04]\n",
        "SwitchName=west Switches=r0-leaf[1-4]\n",
        "SwitchName=east Switches=r0-leaf[5-8]\n",
        "SwitchName=fabric Switches=east,west\n",
    ] {
        assert!(conf.contains(line), "{line}{conf}");
    }
    let yaml = export::slurm_yaml(&f).text;
    assert!(yaml.contains("- switch: \"west\"\n        children: \"r0-leaf[1-4]\"\n"), "{yaml}");
    assert!(yaml.contains("- block: \"r0-leaf8\"\n        nodes: \"gpu[29-32]\"\n"), "{yaml}");
    let kueue = export::kueue(&f).text;
    assert!(
        kueue.contains("- nodeLabel: \"railyard.io/pod\"\n  - nodeLabel: \"railyard.io/leaf\"\n"),
        "{kueue}"
    );
    assert!(
        kueue.contains("\"railyard.io/pod\": \"west\"\n    \"railyard.io/leaf\": \"r0-leaf1\"\n"),
        "{kueue}"
    );
    let volcano = export::volcano(&f).text;
    assert_eq!((volcano.matches("tier: 1\n").count(), volcano.matches("tier: 2\n").count()), (8, 2));
    assert!(volcano.contains("name: \"fabric\"\nspec:\n  tier: 3\n"), "{volcano}");
}

#[test]
fn servers_that_lack_a_cable_or_have_a_strange_one_stand_with_their_neighbours() {
    let mut f = racks();
    // gpu02 has no cable on rail 1; gpu03 has it on the leaf of the next rack.
    let cut =
        |f: &mut Fabric, group: usize, nodes: &str| f.link_groups[group].nodes = Names::new(nodes).unwrap();
    let at = |f: &Fabric, leaf: &str| f.link_groups.iter().position(|group| group.leaf == leaf).unwrap();
    let (first, second) = (at(&f, "r1-leaf1"), at(&f, "r1-leaf2"));
    for group in [first, second] {
        f.link_groups[group].ports = Names::default();
    }
    cut(&mut f, first, "gpu[01,04]");
    cut(&mut f, second, "gpu[05-08,03]");
    let made = export::slurm_conf(&f);
    assert!(made.text.contains("SwitchName=r0-leaf1 Nodes=gpu[01-04]\n"), "{}", made.text);
    let reported = |lost: &[String], head: &str| lost.iter().any(|line| line.starts_with(head));
    assert!(
        reported(&made.lost, "leaves of a pod: 1 nodes have leaves of several groups"),
        "{:?}",
        made.lost
    );
    // Every server of a pod crosswise: the pod is one group, and it is said.
    let (a, b) = (at(&f, "r1-leaf3"), at(&f, "r1-leaf4"));
    cut(&mut f, a, "gpu[09-10,13-14]");
    cut(&mut f, b, "gpu[11-12,15-16]");
    let made = export::slurm_conf(&f);
    assert!(
        reported(&made.lost, "leaves of a pod: in 1 pods servers share leaves crosswise"),
        "{:?}",
        made.lost
    );
    assert!(made.text.contains("SwitchName=west-leaves Nodes=gpu[01-16]\n"), "{}", made.text);
}

#[test]
fn leaves_of_several_rails_are_told() {
    let mut f = racks();
    f.leaves.retain(|leaf| leaf.rail == 0);
    f.leaves.iter_mut().for_each(|leaf| leaf.more_rails = vec![1]);
    f.spines.clear();
    f.uplinks.clear();
    for group in &mut f.link_groups {
        group.rail = Some(u32::from(group.leaf.starts_with("r1")));
        group.leaf = group.leaf.replace("r1-", "r0-");
        group.ports = Names::default();
    }
    assert_eq!(controller_topology::check(&f), []);
    let made = export::slurm_conf(&f);
    assert!(
        made.lost.iter().any(|line| line.starts_with("shared leaves: that 8 leaves serve several rails")),
        "{:?}",
        made.lost
    );
    assert!(!made.lost.iter().any(|line| line.starts_with("partial")), "{:?}", made.lost);
    let shown = crate::draw::text(&crate::draw::Picture::of(&f));
    assert!(shown.contains("32 servers, 2 rails, 2 pods, 8 leaves"), "{shown}");
    assert!(shown.contains("east      16       leaf5…leaf8 (4) 16/16  leaf5…leaf8 (4) 16/16"), "{shown}");
}

#[test]
fn what_is_missing_or_down_is_told() {
    let mut f = fabric();
    f.link_groups.pop();
    f.leaves[0].down = true;
    let lost = export::slurm_conf(&f).lost;
    assert!(
        lost.iter().any(|line| line.starts_with("partial rails: 2 nodes") && line.contains("gpu[09-10]")),
        "{lost:?}"
    );
    assert!(lost.iter().any(|line| line.starts_with("health: 0 cables, 1 switches")), "{lost:?}");
}

#[test]
fn names_that_others_do_not_take_are_changed_and_told() {
    let mut f = fabric();
    for (at, name) in ["a b", "a_b", "fabric"].iter().enumerate() {
        let old = format!("pod{}", at + 1);
        f.leaves.iter_mut().filter(|leaf| leaf.pod == old).for_each(|leaf| leaf.pod = (*name).into());
    }
    let made = export::slurm_conf(&f);
    for name in ["a_b ", "a_b-2 ", "fabric-2 ", "fabric "] {
        assert_eq!(made.text.matches(&format!("SwitchName={name}")).count(), 1, "{}", made.text);
    }
    assert!(made.lost.contains(&"names: pod 'fabric' is called fabric-2".to_owned()), "{:?}", made.lost);
    let made = export::volcano(&f);
    assert_eq!(made.text.matches("name: \"a-b\"\nspec").count(), 1);
    assert_eq!(made.text.matches("name: \"a-b-2\"\nspec").count(), 1);
}
