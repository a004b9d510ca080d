//! The fuzzer's seeds, replayed with the stable compiler: what each decoder must take or refuse without falling over.

use std::{fs, path::PathBuf};

use integration_harness::binaries::root;

#[path = "../../fuzz/src/lib.rs"]
mod decoders;

fn names(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("integration/fuzz").join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_decoder_stands_its_seeds_and_what_is_cut_from_them() {
    for (name, run) in decoders::TARGETS {
        let seeds = names(&format!("seeds/{name}"));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for path in seeds {
            println!("{}", path.display());
            let seed = fs::read(&path).unwrap();
            run(&seed);
            (0..seed.len()).step_by(1 + seed.len() / 32).for_each(|end| run(&seed[..end]));
        }
    }
}

#[test]
fn every_target_is_in_the_table() {
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let targets: Vec<String> = names("targets").into_iter().map(stem).collect();
    let table: Vec<&str> = decoders::TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(targets, table);
    let manifest = fs::read_to_string(root().join("integration/fuzz/Cargo.toml")).unwrap();
    for name in table {
        assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "{name} is not built");
    }
}
