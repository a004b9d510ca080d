//! Bad input is refused with a cause, and the store stays as it was.

use std::{fs, time::Duration};

use bytes::{Buf as _, BufMut as _};
use integration_harness::{Access, Cluster, Shape};
use proto_wire::v1::{self, health_service_client::HealthServiceClient};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

const GOOD: &str = "apiVersion: rail/v1
kind: Job
metadata: {name: good}
spec:
  gang: {nodes: 2, gpusPerNode: 1}
  priority: 5
  timeLimit: 60s
  collective: {op: ALL_REDUCE, bytes: 1024, dtype: F32}
";

/// One way to spoil a good manifest, drawn from the seed. None of them can leave it good.
fn spoil(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let word: String = (0..6).map(|_| char::from(b'a' + rng.random_range(0..26u8))).collect();
    let number: u32 = rng.random_range(100_000..4_000_000);
    let swap = |from: &str, to: &str| GOOD.replace(from, to).into_bytes();
    match rng.random_range(0..16) {
        0 => swap("gang:", &format!("gang{word}:")),
        1 => swap("nodes: 2", &format!("nodes: -{number}")),
        2 => swap("nodes: 2", "nodes: 0"),
        3 => swap("nodes: 2", &format!("nodes: {word}")),
        4 => swap("gpusPerNode: 1", &format!("gpusPerNode: {}", 2 + number % 60)),
        5 => swap("kind: Job", &format!("kind: {word}")),
        6 => swap("ALL_REDUCE", &word.to_uppercase()),
        7 => swap("name: good", &format!("name: {word}_{}", word.to_uppercase())),
        8 => swap("timeLimit: 60s", &format!("timeLimit: {word}")),
        9 => swap("priority: 5", &format!("priority: {number}")),
        10 => swap("good", "go\0od"),
        11 => format!("{}{}", "[".repeat(500 + number as usize % 500), word).into_bytes(),
        12 => {
            let bomb: String = (1..12)
                .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(",")))
                .collect();
            format!("a0: &a0 [{word}]\n{bomb}{GOOD}").into_bytes()
        }
        13 => (0..rng.random_range(1..400)).map(|_| rng.random()).collect(),
        14 => GOOD.as_bytes()[..rng.random_range(1..GOOD.len() - 40)].to_vec(),
        _ => swap("collective: {", &format!("{word}: 1\n  collective: {{{word}: 2, ")),
    }
}

/// Sends bytes as they are, where a message is expected.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// Sends garbage to a method that would write; gives what came back.
async fn garbage(client: &proto_rpc::Client, rng: &mut ChaCha8Rng) -> Result<Vec<u8>, Status> {
    let methods = [
        "JobService/CreateJob",
        "TenantService/ApplyTenant",
        "FabricService/ApplyFabric",
        "NodeService/UpdateNode",
        "JobService/CancelJob",
    ];
    let method = methods[rng.random_range(0..methods.len())];
    let size = if rng.random_ratio(1, 20) { 2 << 20 } else { rng.random_range(1..300) };
    // 0xFF.. is no valid field number and no valid varint: it cannot become a good message by chance.
    let mut body: Vec<u8> = vec![0xFF; 11];
    body.extend((0..size).map(|_| rng.random::<u8>()));
    let mut grpc = tonic::client::Grpc::new(client.clone());
    grpc.ready().await?;
    let path = format!("/rail.v1.{method}").parse().unwrap();
    grpc.unary(tonic::Request::new(body), path, Raw).await.map(tonic::Response::into_inner)
}

/// The store's revision, which any write raises, and what the API tells of its content.
fn content(cluster: &Cluster) -> String {
    let revision = cluster.json(&["health"]).unwrap()["storeRevision"].to_string();
    assert!(revision.trim_matches('"').parse::<u64>().is_ok(), "no revision: {revision}");
    let lists = ["jobs", "tenants", "fabric"].map(|noun| cluster.json(&["get", noun]).unwrap().to_string());
    format!("{revision}\n{}", lists.join("\n"))
}

#[test]
fn two_hundred_bad_inputs_change_nothing() {
    let seed = std::env::var("RAIL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_120);
    println!("seed {seed} (RAIL_SEED chooses another)");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let before = content(&cluster);
    for index in 0..100 {
        let path = cluster.home().join(format!("bad{index}.yaml"));
        let text = spoil(&mut rng);
        fs::write(&path, &text).unwrap();
        let shown = String::from_utf8_lossy(&text).into_owned();
        let answer = cluster.railctl(&["submit", path.to_str().unwrap()]);
        assert!(
            [2, 6].contains(&answer.code),
            "case {index} ended with {}: {}\n{shown}",
            answer.code,
            answer.stderr
        );
        assert!(!answer.stderr.trim().is_empty(), "case {index}: no cause\n{shown}");
        assert!(!answer.stderr.contains("panicked"), "case {index}: {}", answer.stderr);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Access::of(&cluster).unwrap().client().unwrap();
        for index in 0..100 {
            let status = garbage(&client, &mut rng).await.unwrap_err();
            assert!(
                matches!(
                    status.code(),
                    Code::Internal
                        | Code::InvalidArgument
                        | Code::OutOfRange
                        | Code::ResourceExhausted
                        | Code::Unknown
                ),
                "case {index}: {status:?}"
            );
        }
        let health = HealthServiceClient::new(client).get_health(v1::GetHealthRequest {}).await.unwrap();
        assert!(health.into_inner().store_writable);
    });
    assert_eq!(content(&cluster), before);
}

#[test]
fn a_manifest_larger_than_any_document_is_refused_quickly() {
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    let path = cluster.home().join("big.yaml");
    fs::write(&path, format!("{GOOD}#{}", "x".repeat(17 << 20))).unwrap();
    let begin = std::time::Instant::now();
    let answer = cluster.railctl(&["submit", path.to_str().unwrap()]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_error_names_file_line_column_field_and_the_nearest_right_thing() {
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    let path = cluster.home().join("typo.yaml");
    fs::write(&path, GOOD.replace("gpusPerNode", "gpusPerNod")).unwrap();
    let answer = cluster.railctl(&["submit", path.to_str().unwrap()]);
    assert_eq!(answer.code, 2, "{}", answer.stderr);
    for part in ["typo.yaml:5:", "spec.gang", "gpusPerNod", "gpusPerNode"] {
        assert!(answer.stderr.contains(part), "no {part} in {}", answer.stderr);
    }
}

#[test]
fn a_faulty_fabric_is_refused_with_every_finding() {
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() }).unwrap();
    let before = content(&cluster);
    let path = cluster.home().join("fabric.yaml");
    let text = "apiVersion: rail/v1
kind: Fabric
metadata: {name: bad}
spec:
  rails: [{index: 0}, {index: 1}]
  leaves: [{name: a, rail: 0, pod: p}, {name: a, rail: 1, pod: p}, {name: b, rail: 7, pod: p}]
  links: [{node: n0, nic: x, leaf: a}, {node: n0, nic: x, leaf: b}, {node: n1, nic: y, leaf: nowhere}]
";
    fs::write(&path, text).unwrap();
    let answer = cluster.railctl(&["apply", "-f", path.to_str().unwrap()]);
    assert_eq!(answer.code, 2, "{} {}", answer.stdout, answer.stderr);
    for part in ["nowhere", "'a'", "'x'"] {
        assert!(
            answer.stderr.contains(part) || answer.stderr.contains(part.trim_matches('\'')),
            "no {part} in {}",
            answer.stderr
        );
    }
    assert!(answer.stderr.lines().count() >= 3, "all findings: {}", answer.stderr);
    assert_eq!(content(&cluster), before);
}
