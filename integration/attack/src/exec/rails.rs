//! Strangers at the ports of a job's rails, while a verified collective goes over them.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use integration_harness::procfs;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::probes::{APART, ENDED, submit, until};
use crate::{
    caller::From,
    verdict::{Verdict, gave, held_if},
    world::{Part, World},
};

/// What strangers do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RailTrick {
    Garbage,
    Silent,
    Junk,
    Reflect,
    Relay,
    Http,
    HugeLength,
    Reset,
}

/// All tricks, in the order in which they are tried.
pub const ALL: [RailTrick; 8] = [
    RailTrick::Garbage,
    RailTrick::Silent,
    RailTrick::Junk,
    RailTrick::Reflect,
    RailTrick::Relay,
    RailTrick::Http,
    RailTrick::HugeLength,
    RailTrick::Reset,
];

/// Connections of one kind.
const MANY: usize = 300;

/// The outcomes of all of them on one job.
pub struct Rails {
    seen: BTreeMap<RailTrick, Result<String, String>>,
    /// Why the job was harmed, if it was.
    harm: Option<String>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Rails {
    /// Runs a collective, and everything against it.
    ///
    /// # Errors
    /// The collective cannot be submitted, or its ports cannot be found.
    pub async fn start(world: &World) -> Result<Self, String> {
        let by = world.person(From::User);
        let job = json!({
            "metadata": {"name": "rails"},
            "spec": {
                "gang": {"nodes": 2, "gpusPerNode": 1, "ranksPerNode": 1},
                "collective": {"op": "ALL_REDUCE", "bytes": "4194304", "iterations": 2000, "verify": true},  "timeLimit": "60s",
                "placement": {"exclude": APART}, "rails": {"required": 2, "allowPartial": true},
            },
        });
        let before = listening();
        let made = submit(by, job).await?;
        until(by, "rails", &["RUNNING"], Duration::from_secs(30)).await?;
        let uid = made["metadata"]["uid"].as_str().unwrap_or_default();
        let pids = procfs::find(&["rail-engine", uid]);
        let ports: Vec<SocketAddr> =
            listening().into_iter().filter(|address| !before.contains(address)).collect();
        if ports.is_empty() {
            return Err(format!("no port of engines {pids:?} is found"));
        }
        let mut seen = BTreeMap::new();
        for trick in ALL {
            seen.insert(trick, strange(trick, &ports).await);
        }
        let job = until(by, "rails", &ENDED, Duration::from_secs(60)).await?;
        let status = &job["status"];
        let well = status["phase"] == "COMPLETED" && status["result"]["verified"] == true;
        let harm = (!well).then(|| format!("the collective is {}: {}", status["phase"], status["reasons"]));
        Ok(Self { seen, harm })
    }
}

/// TCP addresses of loopback that somebody listens at: rails of a local cluster are 127.16.0.0 and up.
fn listening() -> Vec<SocketAddr> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let parse = |line: &str| -> Option<SocketAddr> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = words.get(1)?.split_once(':')?;
        (*words.get(3)? == "0A").then_some(())?;
        let ip = u32::from_str_radix(address, 16).ok()?.swap_bytes();
        let ip = std::net::Ipv4Addr::from(ip);
        let rail = ip.octets()[0] == 127 && ip.octets()[1] >= 16;
        rail.then_some(SocketAddr::from((ip, u16::from_str_radix(port, 16).ok()?)))
    };
    table.lines().filter_map(parse).collect()
}

async fn dial(address: SocketAddr) -> Result<TcpStream, String> {
    timeout(Duration::from_secs(2), TcpStream::connect(address)).await.map_err(text)?.map_err(text)
}

/// What the engine says first, and at all.
async fn on_report(stream: &mut TcpStream, within: Duration) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(length)) = timeout(within, stream.read(&mut buffer)).await {
        if length == 0 || all.len() > 1 << 20 {
            break;
        }
        all.extend_from_slice(&buffer[..length]);
    }
    all
}

/// Gives what an engine let slip, or nothing.
async fn strange(trick: RailTrick, ports: &[SocketAddr]) -> Result<String, String> {
    let (first, last) = (ports[0], ports[ports.len() - 1]);
    let quick = Duration::from_millis(150);
    let noise = |seed: u32, length: u32| -> Vec<u8> {
        (0..length).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
    };
    match trick {
        RailTrick::Silent => {
            let mut held = Vec::new();
            for number in 0..MANY {
                held.extend(dial(ports[number % ports.len()]).await.ok());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(String::new())
        }
        RailTrick::Garbage | RailTrick::Junk => {
            let length = if trick == RailTrick::Garbage { 20_000 } else { 40 };
            for number in 0..MANY {
                if let Ok(mut stream) = dial(ports[number % ports.len()]).await {
                    let _ = stream.write_all(&noise(number as u32, length)).await;
                }
            }
            Ok(String::new())
        }
        RailTrick::Reset => {
            for number in 0..MANY {
                if let Ok(stream) = dial(ports[number % ports.len()]).await {
                    let _ = socket_reset(stream);
                }
            }
            Ok(String::new())
        }
        RailTrick::Reflect => {
            let mut stream = dial(first).await?;
            let said = on_report(&mut stream, quick).await;
            let _ = stream.write_all(&said).await;
            let more = on_report(&mut stream, quick).await;
            Ok(if more.len() > 4_096 {
                format!("its own words brought {} bytes", more.len())
            } else {
                String::new()
            })
        }
        RailTrick::Relay => {
            let (mut a, mut b) = (dial(first).await?, dial(last).await?);
            let mut brought = 0;
            for _ in 0..4 {
                let from_a = on_report(&mut a, quick).await;
                let _ = b.write_all(&from_a).await;
                let from_b = on_report(&mut b, quick).await;
                let _ = a.write_all(&from_b).await;
                brought += from_a.len() + from_b.len();
            }
            Ok(if brought > 4_096 {
                format!("two engines spoke {brought} bytes over a stranger")
            } else {
                String::new()
            })
        }
        RailTrick::Http => {
            let mut stream = dial(first).await?;
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let said = on_report(&mut stream, quick).await;
            Ok(if said.starts_with(b"HTTP") { "it speaks HTTP".to_owned() } else { String::new() })
        }
        RailTrick::HugeLength => {
            for number in 0..20 {
                let mut stream = dial(ports[number % ports.len()]).await?;
                let _ = stream.write_all(&[0xff; 64]).await;
                let _ = on_report(&mut stream, Duration::from_millis(20)).await;
            }
            Ok(String::new())
        }
    }
}

/// Ends a connection with a reset.
fn socket_reset(stream: TcpStream) -> std::io::Result<()> {
    stream.set_zero_linger()?;
    drop(stream);
    Ok(())
}

/// The verdict on one of them.
///
/// # Errors
/// What kept the attempt from being made, as text.
pub async fn perform(world: &World, trick: RailTrick) -> Result<Verdict, String> {
    let rails = world.part(Part::Rails, || Rails::start(world)).await?;
    if let Some(harm) = &rails.harm {
        return Ok(gave(harm.clone()));
    }
    let seen = rails.seen.get(&trick).ok_or("it was not tried")?.clone()?;
    Ok(held_if(seen.is_empty(), || seen.clone()))
}
