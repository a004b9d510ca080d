//! The chart, and the program that renders it.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::{Value, json};

use crate::yaml;

/// The root folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// A file of the chart.
pub fn read(name: &str) -> String {
    let path = root().join("deploy/helm/railyard").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Texts of the files of a folder of the chart, by their path in it.
fn folder(name: &str) -> BTreeMap<String, String> {
    let listed = fs::read_dir(root().join("deploy/helm/railyard").join(name)).unwrap();
    let names = listed.map(|entry| format!("{name}/{}", entry.unwrap().file_name().to_string_lossy()));
    names.map(|name| (name.clone(), read(&name))).collect()
}

/// The program, built once in each run; `None` where there is no Go 1.21 or later.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    // `cargo xtask test` brings it.
    let go = PathBuf::from(std::env::var_os("RAIL_TEST_GO").unwrap_or_else(|| "go".into()));
    let tools = go.is_absolute().then(|| go.ancestors().nth(3)).flatten();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("render");
    let out = program.with_extension(std::process::id().to_string());
    let mut command = Command::new(&go);
    command.args(["build", "-o"]).arg(&out).arg(".").current_dir(root().join("integration/helm/render"));
    // Nothing is downloaded, and no C compiler is asked for.
    command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("GOFLAGS", "-mod=mod");
    command.env("GOTELEMETRY", "off").env("CGO_ENABLED", "0").stdin(Stdio::null());
    if let Some(tools) = tools {
        command.env("GOCACHE", tools.join("cache"));
    }
    let Ok(output) = command.output() else {
        println!("skipped: there is no Go for the chart");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // One for all runs; another run that has it open keeps the one that it has.
    fs::rename(&out, &program).unwrap();
    Some(program)
}

/// What a release named `railyard` in the namespace `railyard` is, file by file, with values in place of the chart's; or why there is none. `None`
/// where there is no Go.
pub fn rendered(values: &Value) -> Option<Result<BTreeMap<String, String>, String>> {
    released("railyard", "railyard", values)
}

/// As [`rendered`], of another name and namespace.
pub fn released(
    name: &str,
    namespace: &str,
    values: &Value,
) -> Option<Result<BTreeMap<String, String>, String>> {
    let program = program()?;
    let about = yaml::document(&read("Chart.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let request = json!({
        "chart": {"name": about["name"], "version": about["version"], "appVersion": about["appVersion"]},
        "release": {"name": name, "namespace": namespace},
        "defaults": yaml::document(&read("values.yaml")).unwrap(),
        "values": values,
        "schema": schema,
        "templates": folder("templates"),
        "files": folder("files"),
    });
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        return Some(Err(String::from_utf8(output.stderr).unwrap()));
    }
    Some(Ok(serde_json::from_slice(&output.stdout).unwrap()))
}

/// The least that has to be said.
pub fn least() -> Value {
    json!({"image": {"repository": "registry.example/railyard"}})
}

/// All manifests of rendered files, in the order of their files.
pub fn manifests(files: &BTreeMap<String, String>) -> Vec<Value> {
    let yaml = files.iter().filter(|(name, _)| name.ends_with(".yaml"));
    let read = yaml
        .map(|(name, text)| yaml::documents(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}")));
    read.flatten().collect()
}

/// Values by their name: each a kind of site, and together every part of the chart.
pub fn sites() -> Vec<(&'static str, Value)> {
    let merge = |more: Value| {
        let mut values = least();
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values
    };
    let proxy = json!({"enabled": true, "image": {"repository": "registry.example/proxy", "tag": "v0.20.0"}});
    vec![
        ("default", least()),
        (
            "agents",
            merge(json!({"agent": {"enabled": true, "lldp": "lldpd", "runtimeClassName": "nvidia",
            "extraVolumes": [{"name": "data", "hostPath": {"path": "/data", "type": "Directory"}}],
            "extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]}})),
        ),
        (
            "etcd",
            merge(json!({
                "imagePullSecrets": ["pull"],
                "operator": {"enabled": true},
                "controller": {
                    "store": {"kind": "etcd", "etcd": {"endpoints": ["https://e0:2379", "https://e1:2379"], "secretName": "etcd", "user": "rail"}},
                    "authority": {"secretName": "authority"}, "passphrase": {"secretName": "words"},
                    "backups": {"claimName": "backups", "every": "6h"},
                    "serverNames": ["rail.example"], "extraArgs": ["--certification=warn"],
                    "networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
                    "service": {"type": "LoadBalancer", "annotations": {"example.com/pool": "a: b"}}},
            })),
        ),
        (
            "monitored",
            merge(json!({
                "agent": {"enabled": true, "lldp": "networkd"},
                "operator": {"enabled": true, "manageNodes": false},
                "metrics": {"proxy": proxy, "prometheusRule": {"enabled": true, "labels": {"team": "rails"}},
                    "serviceMonitor": {"enabled": true, "serviceAccount": {"name": "prometheus", "namespace": "monitoring"}}},
            })),
        ),
        (
            "driver alone",
            merge(json!({
            "image": {"repository": "registry.example/railyard", "digest": format!("sha256:{}", "0a".repeat(32))},
            "controller": {"enabled": false},
            "dra": {"askController": false, "rails": "pattern:mlx5_{k}", "kubeletDir": "/data/kubelet", "podAnnotations": {"a": "true"}}})),
        ),
        (
            "elsewhere",
            merge(json!({
            "controllerUrl": "https://c0.example:7443,https://c1.example:7443",
            "controller": {"enabled": false}, "agent": {"enabled": true, "extraArgs": ["--rank-network=none"]}})),
        ),
    ]
}
