//! Fabric documents without a cluster: made, checked, shown, handed on, compared.

use std::{fs, path::Path};

use crate::run;

fn path(home: &tempfile::TempDir, name: &str) -> String {
    home.path().join(name).to_str().unwrap().to_owned()
}

/// Two pods of eight servers with four NICs; servers of the second pod name theirs otherwise.
fn cabling() -> String {
    let mut text = "accessport,serverIP,nicname,switchname,sysname\r\n".to_owned();
    for server in 0..16 {
        let (pod, at) = (server / 8, server % 8);
        let nics = if (pod == 1) == (at < 6) { [24, 25, 30, 31] } else { [11, 10, 19, 18] };
        for (rail, nic) in nics.iter().enumerate() {
            let (leaf, cage, lane) = (pod * 4 + rail + 1, at / 2 + 1, at % 2 + 1);
            text.push_str(&format!(
                "TwoHundredGigE1/0/{cage}:{lane},10.{rail}.0.{server},ens{nic}np0,DC1-Leaf-{leaf}.GPU,DC1-GPU-{server}\r\n"
            ));
        }
    }
    text
}

fn generated(home: &tempfile::TempDir, flags: &[&str]) -> String {
    let (code, out, err) = run(home.path(), &[&["fabric", "generate"], flags].concat());
    assert_eq!(code, 0, "{err}");
    let file = path(home, "fabric.yaml");
    fs::write(&file, out).unwrap();
    file
}

#[test]
fn a_cabling_list_becomes_a_document_and_its_faults_are_told_by_row() {
    let home = tempfile::tempdir().unwrap();
    let list = path(&home, "site.csv");
    fs::write(&list, cabling()).unwrap();
    let (code, document, err) = run(home.path(), &["fabric", "import", &list]);
    assert_eq!(code, 0, "{err}");
    assert!(err.ends_with("64 rows: 64 cables, 0 left out; 0 things are wrong\n"), "{err}");
    let file = path(&home, "site.yaml");
    fs::write(&file, document).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        out,
        "fabric site: 4 rails, 8 leaves, 0 spines, 16 servers, 64 cables; nothing is wrong with it\n"
    );
    let (_, out, _) = run(home.path(), &["topology", "show", "-f", &file]);
    assert!(out.contains("pod1      8        Leaf-1 8/8") && out.contains("●●●●●●●●"), "{out}");

    // A NIC that is not named, and a port of another kind.
    let mut rows: Vec<String> = cabling().lines().map(str::to_owned).collect();
    rows[7] = rows[7].replace("ens19np0", "");
    let text = rows.join("\n");
    fs::write(&list, &text).unwrap();
    let (code, document, err) = run(home.path(), &["fabric", "import", &list, "-o", "json"]);
    assert_eq!(code, 0, "{err}");
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    let groups = value["spec"]["linkGroups"].as_array().unwrap();
    let servers =
        |group: &serde_json::Value| proto_model::Names::new(group["nodes"].as_str().unwrap()).unwrap().len();
    let single = value["spec"]["links"].as_array().map_or(0, Vec::len);
    assert_eq!(groups.iter().map(servers).sum::<usize>() + single, 63);
    assert!(err.contains(&format!("fault: {list}:8:32: Missing: the row does not say the NIC")), "{err}");
    assert!(err.ends_with("64 rows: 63 cables, 1 left out; 1 thing is wrong\n"), "{err}");
    let (code, out, err) = run(home.path(), &["fabric", "import", &list, "--strict"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains(&format!("\n{list}:8:32: Missing")), "{err}");
}

/// 1,200 servers with eight NICs: what import wrote was refused by every other command.
#[test]
fn a_large_list_passes_through_every_command() {
    let home = tempfile::tempdir().unwrap();
    let list = path(&home, "site.csv");
    let mut rows = "node,nic,leaf,port,speed\n".to_owned();
    let mut heard = "node,nic,leaf,port\n".to_owned();
    for (server, rail) in (0..1200).flat_map(|server| (0..8).map(move |rail| (server, rail))) {
        let row =
            format!("gpu{server:04},mlx5_{rail},r{rail}-leaf{:02},Ethernet{}", server / 60, server % 60 + 1);
        rows.push_str(&format!("{row},400G\n"));
        heard.push_str(&format!("{row}\n"));
    }
    fs::write(&list, rows).unwrap();
    let (code, document, err) = run(home.path(), &["fabric", "import", &list]);
    assert_eq!(code, 0, "{err}");
    assert!(document.len() < 16384, "{} bytes:\n{document}", document.len());
    let file = path(&home, "site.yaml");
    fs::write(&file, document).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("8 rails, 160 leaves, 0 spines, 1200 servers, 9600 cables; nothing is wrong"),
        "{out}"
    );
    let (code, out, err) = run(home.path(), &["topology", "show", "-f", &file]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("20 pods") && out.lines().count() < 60, "{out}");
    for format in ["slurm-conf", "slurm-yaml", "kueue", "volcano"] {
        let (code, out, err) = run(home.path(), &["topology", "export", "-f", &file, "--format", format]);
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("gpu1199") || out.contains("1199]"), "{format}: {out}");
    }
    let facts = path(&home, "heard.csv");
    fs::write(&facts, heard).unwrap();
    let (code, out, err) =
        run(home.path(), &["topology", "verify", "-f", &file, "--lldp", &facts, "--ports"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("9600 of 9600 cables are where they belong"), "{out}");
}

#[test]
fn a_list_of_which_nothing_is_taken_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let list = path(&home, "site.csv");
    let rows: String = (0..60).map(|at| format!("n{at},mlx5_0,,swp{at}\n")).collect();
    fs::write(&list, format!("node,nic,leaf,port\n{rows}")).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "import", &list]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(
        err.contains("NothingTaken: none of its 60 rows")
            && err.contains("Missing: and 40 more (lines 22-61)"),
        "{err}"
    );
    assert_eq!(err.matches("the row does not say the leaf").count(), 20, "{err}");
    let (_, _, err) = run(home.path(), &["fabric", "import", &list, "--all"]);
    assert_eq!(err.matches("the row does not say the leaf").count(), 60, "{err}");
    let args = ["simulate", "--fabric", &list, "--trace", &list];
    let (code, _, err) = run(home.path(), &args);
    assert!(code == 2 && err.contains("NothingTaken"), "{err}");
    let file = path(&home, "empty.yaml");
    fs::write(&file, "apiVersion: rail/v1\nkind: Fabric\nspec: {rails: [{}]}\n").unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert!(code == 2 && err.contains("NoCables") && !out.contains("nothing is wrong"), "{out}{err}");
}

/// All NICs of a server on the switch of its rack.
#[test]
fn one_switch_for_all_rails_is_imported_shown_and_exported() {
    let home = tempfile::tempdir().unwrap();
    let list = path(&home, "tors.csv");
    let mut rows = "node,nic,leaf,port\n".to_owned();
    for (server, nic) in (0..32).flat_map(|server| (0..4).map(move |nic| (server, nic))) {
        let (rack, port) = (server / 8, server % 8 * 4 + nic);
        rows.push_str(&format!("host{server},eth{nic},tor{rack},swp{port}\n"));
    }
    fs::write(&list, rows).unwrap();
    let (code, document, err) = run(home.path(), &["fabric", "import", &list]);
    assert_eq!(code, 0, "{err}");
    assert!(err.ends_with("128 rows: 128 cables, 0 left out; 0 things are wrong\n"), "{err}");
    let file = path(&home, "tors.yaml");
    fs::write(&file, &document).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert_eq!(code, 0, "{err}\n{document}");
    assert!(out.contains("4 rails, 4 leaves, 0 spines, 32 servers, 128 cables"), "{out}");
    let (_, out, _) = run(home.path(), &["topology", "show", "-f", &file]);
    assert!(out.contains("4 leaves") && out.contains("tor0 8/8   tor0 8/8   tor0 8/8   tor0 8/8"), "{out}");
    let (_, out, err) = run(home.path(), &["topology", "export", "-f", &file, "--format", "slurm-conf"]);
    assert!(out.contains("SwitchName=pod1 Nodes=host[0-7]\n"), "{out}");
    assert!(err.contains("shared leaves: that 4 leaves serve several rails"), "{err}");
}

#[test]
fn what_is_no_list_is_exit_2_with_its_place_and_the_nearest_name() {
    let home = tempfile::tempdir().unwrap();
    let list = path(&home, "site.csv");
    for (text, reported) in [
        ("", "the text is empty"),
        ("node,nic,leaf,port\na,b,\"c,d\n", ":"),
        ("node,nik,leaf,port\na,b,c,d\n", "is it 'nik'?"),
        ("node,server,nic,leaf,port\n", "'server' and 'node' both mean the server"),
        ("\u{0}PNG", "no column says the server"),
    ] {
        fs::write(&list, text).unwrap();
        let (code, out, err) = run(home.path(), &["fabric", "import", &list]);
        assert_eq!((code, out.as_str()), (2, ""), "{text:?}: {err}");
        assert!(err.starts_with(&list) && err.contains(reported), "{err}");
    }
    assert_eq!(run(home.path(), &["fabric", "import", "nowhere.csv"]).0, 2);
}

#[test]
fn a_fabric_is_generated_and_what_does_not_divide_is_told() {
    let home = tempfile::tempdir().unwrap();
    let flags = ["--nodes", "10000", "--rails", "8", "--radix", "128"];
    let (code, out, err) = run(home.path(), &[&["fabric", "generate"][..], &flags].concat());
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("157 pods of 64 servers") && err.contains("note: the last pod has 16 of 64"),
        "{err}"
    );
    let file = path(&home, "f.yaml");
    fs::write(&file, out).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("10000 servers, 80000 cables"), "{out}");
    let picture = path(&home, "f.svg");
    let (code, out, err) = run(home.path(), &["topology", "show", "-f", &file, "--svg", &picture]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("pod001 … pod157: 157 pods, 10000 servers, all up"), "{out}");
    assert!(fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    for (flags, reported) in [
        (&["--nodes", "0"][..], "--nodes: 0"),
        (&["--nodes", "10", "--rails", "65"], "--rails: 65"),
        (&["--nodes", "100", "--pod-nodes", "60"], "--pod"),
        (&["--nodes", "10", "--speed", "fast"], "400G"),
        (&["--nodes", "10", "--planes", "3"], "--planes: 3"),
    ] {
        let (code, out, err) = run(home.path(), &[&["fabric", "generate"], flags].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{flags:?}: {err}");
        assert!(err.contains(reported), "{err}");
    }
}

#[test]
fn faults_of_a_document_are_all_told_where_they_are() {
    let home = tempfile::tempdir().unwrap();
    let file = path(&home, "f.yaml");
    let text = "apiVersion: rail/v1\nkind: Fabric\nspec:\n  rails: [{}]\n  leaves:\n  - {name: l0, pod: p}\n  - {name: l0, pod: p}\n  \
                linkGroups:\n  - {nodes: 'n[1-4]', nic: a, leaf: l9}\n  uplinks:\n  - {lower: l0, upper: s1}\n";
    fs::write(&file, text).unwrap();
    let (code, out, err) = run(home.path(), &["fabric", "check", &file]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    for reported in ["DuplicateLeaf", "UnknownLeaf", "UnknownSwitch"] {
        assert!(err.contains(reported), "{reported}: {err}");
    }
    fs::write(&file, text.replace("n[1-4]", "n[1-")).unwrap();
    let (code, _, err) = run(home.path(), &["fabric", "check", &file]);
    assert!(code == 2 && err.contains(":9:13: spec.linkGroups[0].nodes: the bracket at column 2"), "{err}");
}

#[test]
fn other_schedulers_read_it() {
    let home = tempfile::tempdir().unwrap();
    let file = generated(&home, &["--nodes", "8", "--rails", "2", "--radix", "8"]);
    for (format, reported) in [
        ("slurm-conf", "SwitchName="),
        ("slurm-yaml", "- topology: pods\n"),
        ("kueue", "kind: Topology\n"),
        ("volcano", "kind: HyperNode\n"),
    ] {
        let (code, out, err) = run(home.path(), &["topology", "export", "--format", format, "-f", &file]);
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with("# ") && out.contains(reported), "{out}");
        assert!(err.contains("not said: rails: 2 rails"), "{err}");
    }
    assert_eq!(run(home.path(), &["topology", "export", "--format", "pbs", "-f", &file]).0, 2);
}

#[test]
fn cables_are_compared_and_the_moves_told() {
    let home = tempfile::tempdir().unwrap();
    let file = generated(&home, &["--nodes", "4", "--rails", "2", "--radix", "8"]);
    let lldp = path(&home, "lldp.txt");
    let verify = |text: &str, more: &[&str]| {
        fs::write(&lldp, text).unwrap();
        run(home.path(), &[&["topology", "verify", "-f", &file, "--lldp", &lldp], more].concat())
    };
    let lines = |swap: bool| -> String {
        let mut text = String::new();
        for (node, rail) in (1..=4).flat_map(|node| (0..2).map(move |rail| (node, rail))) {
            let leaf = if swap && node == 2 { 1 - rail } else { rail };
            text.push_str(&format!("gpu{node}: lldp.mlx5_{rail}.chassis.name=r{leaf}-leaf1\n"));
            text.push_str(&format!("gpu{node}: lldp.mlx5_{rail}.port.ifname=Ethernet{node}\n"));
        }
        text
    };
    let (code, out, err) = verify(&lines(false), &["--ports"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "8 of 8 cables are where they belong; 0 wrong, 0 not heard of, 0 not in the document\n"),
        "{err}"
    );
    let (code, out, err) = verify(&lines(true), &[]);
    assert_eq!(code, 1, "{err}");
    assert!(
        out.contains("Wrong (2):") && out.contains("in this order (3):") && out.contains("(let it hang)"),
        "{out}"
    );
    let (code, out, _) = verify(&lines(true), &["-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, value["moves"].as_array().unwrap().len(), &value["right"]), (1, 3, &6.into()));
    let (code, _, err) = verify("lldp.a.chassis.name=x\n", &[]);
    assert!(code == 2 && err.contains("line 1 does not say which server"), "{err}");
    let (code, _, err) = verify("node,nic,switch,port\n", &[]);
    assert!(code == 3 && err.contains("lldpd"), "{err}");
    assert!(!Path::new(&path(&home, "config.yaml")).exists());
}
