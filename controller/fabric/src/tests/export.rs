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
