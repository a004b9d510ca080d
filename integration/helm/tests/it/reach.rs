//! Who reaches what: tokens of the API server, published ports, addresses of pods; and what a controller takes from the Secret of its authority.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    chart::{manifests, read, rendered, sites},
    rendering::{containers, each, kind, list, name, text},
};

const TOKENS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Ranks see the files of the agent's container, and nothing in a controller calls the API server.
#[test]
fn beside_a_proxy_nothing_has_a_token() {
    let mut proxies = 0;
    each(|site, manifests| {
        for manifest in manifests {
            let Some(pod) = manifest.pointer("/spec/template/spec") else { continue };
            let component = text(manifest, "/metadata/labels/app.kubernetes.io~1component");
            if !["agent", "controller"].contains(&component) {
                continue;
            }
            assert_eq!(pod["automountServiceAccountToken"], false, "{site}: {component}");
            let has_token = |one: &Value| {
                !one.pointer("/projected/sources/0/serviceAccountToken").is_none_or(Value::is_null)
            };
            let volumes: Vec<&str> = list(pod, "/volumes")
                .iter()
                .filter(|volume| has_token(volume))
                .map(|volume| text(volume, "/name"))
                .collect();
            for container in containers(pod) {
                let what = format!("{site}: {component} {}", text(container, "/name"));
                let is_proxy = text(container, "/name") == "metrics";
                let mounts = list(container, "/volumeMounts");
                let tokens = mounts.iter().filter(|mount| volumes.contains(&text(mount, "/name")));
                let paths: Vec<&str> = tokens.map(|mount| text(mount, "/mountPath")).collect();
                assert_eq!(paths, if is_proxy { vec![TOKENS] } else { Vec::new() }, "{what}");
            }
        }
    });
    let (_, monitored) = sites().into_iter().find(|(site, _)| *site == "monitored").unwrap();
    let Some(files) = rendered(&monitored) else { return };
    for manifest in manifests(&files.unwrap()) {
        proxies += list(&manifest, "/spec/template/spec/containers")
            .iter()
            .filter(|container| text(container, "/name") == "metrics")
            .count();
    }
    assert_eq!(proxies, 2, "one of the controller, one of agents");
}

#[test]
fn a_published_service_has_the_api_alone() {
    let mut published = 0;
    for kind_of in ["LoadBalancer", "NodePort"] {
        let values = json!({
            "image": {"repository": "registry.example/railyard"},
            "controller": {"service": {"type": kind_of}},
            "metrics": {"proxy": {"enabled": true, "image": {"repository": "registry.example/proxy", "tag": "v1"}}},
        });
        let Some(files) = rendered(&values) else { return };
        for service in manifests(&files.unwrap()).iter().filter(|one| kind(one) == "Service") {
            let ports: Vec<&str> =
                list(service, "/spec/ports").iter().map(|port| text(port, "/name")).collect();
            let is_published = text(service, "/spec/type") == kind_of;
            assert_eq!(ports, [if is_published { "api" } else { "metrics" }], "{}", name(service));
            published += usize::from(is_published);
        }
    }
    assert_eq!(published, 2);
}

#[test]
fn addresses_are_of_the_clusters_family() {
    for (family, any, own) in [("IPv4", "0.0.0.0", "$(POD_IP)"), ("IPv6", "[::]", "[$(POD_IP)]")] {
        let values = json!({
            "image": {"repository": "registry.example/railyard"},
            "ipFamily": family,
            "operator": {"enabled": true},
            "controller": {
                "store": {"kind": "etcd", "etcd": {"endpoints": ["https://e0:2379"], "secretName": "etcd"}},
                "authority": {"secretName": "authority"}},
        });
        let Some(files) = rendered(&values) else { return };
        let all = manifests(&files.unwrap());
        let pod = |component: &str| {
            let mut deployments = all.iter().filter(|one| kind(one) == "Deployment");
            deployments.find(|one| name(one).ends_with(component)).unwrap()["spec"]["template"]["spec"]
                .clone()
        };
        let arguments = pod("controller")["containers"][0]["args"].clone();
        for argument in [format!("--listen={any}:7443"), format!("--advertise=https://{own}:7443")] {
            assert!(arguments.as_array().unwrap().contains(&json!(argument)), "{argument}: {arguments}");
        }
        let env = pod("operator")["containers"][0]["env"].clone();
        let wanted = json!({"name": "RAIL_METRICS", "value": format!("{any}:8080")});
        assert!(env.as_array().unwrap().contains(&wanted), "{wanted}: {env}");
    }
}

/// The script by which a controller's folder is filled, with other folders.
fn script(from: &Path, to: &Path) -> Option<String> {
    let values = json!({
        "image": {"repository": "registry.example/railyard"}, "controller": {"authority": {"secretName": "authority"}},
    });
    let files = rendered(&values)?.unwrap();
    let all = manifests(&files);
    let pod = all.iter().find_map(|one| one.pointer("/spec/template/spec/initContainers/0")).unwrap();
    let script = pod["args"][0].as_str().unwrap();
    let script = script.replace("/etc/railyard/authority", &from.display().to_string());
    Some(script.replace("/var/lib/rail-controller", &to.display().to_string()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut found: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    found
}

/// A pod that starts anew has an empty folder: what is not taken from the Secret is gone.
#[test]
fn a_controller_takes_a_change_of_its_authority_from_the_secret() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("authority-{}", std::process::id()));
    let (from, to) = (root.join("from"), root.join("to"));
    let Some(script) = script(&from, &to) else { return };
    let run = || Command::new("sh").args(["-ceu", &script]).status().unwrap().success();
    let state = to.join("state");
    fs::create_dir_all(&from).unwrap();
    assert!(!run(), "a Secret without keys");
    let settled = ["ca.key", "ca.pem", "store.keys"];
    for name in settled {
        fs::write(from.join(name), name).unwrap();
    }
    assert!(run());
    assert_eq!(names(&state), settled);
    // A folder that stays has gone on by itself: what the Secret still has is older.
    fs::write(from.join("ca.next.key"), "next").unwrap();
    fs::write(from.join("ca.cross.pem"), "cross").unwrap();
    assert!(run());
    assert_eq!(names(&state), settled);
    fs::remove_dir_all(&to).unwrap();
    assert!(run());
    assert_eq!(names(&state), ["ca.cross.pem", "ca.key", "ca.next.key", "ca.pem", "store.keys"]);
    fs::remove_dir_all(&root).unwrap();
}

/// What is run in the image beside Railyard's programs: by the script above, and by whoever does what NOTES.txt says.
#[test]
fn the_image_needs_the_programs_that_the_readme_names() {
    let (readme, notes) = (read("README.md"), read("templates/NOTES.txt"));
    let script = read("templates/_controller.tpl");
    let image = readme.split("\n## ").find(|part| part.starts_with("Image\n")).unwrap();
    for program in ["sh", "mkdir", "cp", "mv", "cat", "rm"] {
        let is_run = script.contains(&format!("{program} \"$from"))
            || script.contains(&format!("{program} \"$file"))
            || script.contains(&format!("{program} -p /"))
            || script.contains(&format!("[{program}, "))
            || notes.contains(&format!("-- {program} "));
        assert!(is_run, "{program}");
        assert!(image.contains(&format!("`{program}`")), "README.md: {program}");
    }
}
