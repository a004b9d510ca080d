//! Somebody on the path of a job's rails who reads along: a packet socket on loopback, on which the rails of a local cluster are.

use std::{
    io,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::{
    net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with},
    time::Timespec,
};
use serde_json::json;

use super::probes::{APART, ENDED, submit, until};
use crate::{
    caller::From,
    verdict::{Verdict, held_if},
    world::World,
};

/// ETH_P_IP (linux/if_ether.h) in network byte order, as packet(7) wants it.
const IPV4: u32 = 0x0800_u16.to_be() as u32;
/// Enough for a judgement; less is no proof of anything.
const ENOUGH: u64 = 1 << 20;
/// Of what a cipher gives out one byte in 256 is zero; of the operands of a collective every second one or more.
const LEGIBLE: f64 = 0.02;

/// What was read of the rails.
#[derive(Debug, Default, Clone, Copy)]
struct Heard {
    bytes: u64,
    zeros: u64,
}

impl Heard {
    fn share(self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.zeros as f64 / self.bytes as f64 }
    }

    /// Counts the payload of a TCP segment between addresses of rails (127.16.0.0 and up).
    fn packet(&mut self, frame: &[u8]) {
        let Some(ip) = frame.get(14..) else { return };
        let (Some(first), Some(protocol), Some(from)) = (ip.first(), ip.get(9), ip.get(12..14)) else {
            return;
        };
        let Some(tcp) = ip.get(usize::from(first & 0xf) * 4..) else { return };
        if first >> 4 != 4 || *protocol != 6 || from[0] != 127 || from[1] < 16 {
            return;
        }
        let Some(payload) = tcp.get(12).and_then(|word| tcp.get(usize::from(word >> 4) * 4..)) else {
            return;
        };
        self.bytes += payload.len() as u64;
        self.zeros += payload.iter().filter(|byte| **byte == 0).count() as u64;
    }
}

/// Reads along until it is asked to stop.
fn listen(stop: &AtomicBool) -> io::Result<Heard> {
    let protocol = NonZeroU32::new(IPV4).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::NONBLOCK, protocol)?;
    let mut heard = Heard::default();
    let mut buffer = vec![0; 128 << 10];
    let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !stop.load(Ordering::Relaxed) {
        match recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((length, _)) => heard.packet(&buffer[..length.min(buffer.len())]),
            Err(rustix::io::Errno::AGAIN) => {
                let mut ready = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut ready, Some(&wait))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(heard)
}

/// What can be read while a collective with this protection goes over its rails.
async fn read_along(world: &World, name: &str, protection: &str) -> Result<io::Result<Heard>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let tap = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || listen(&stop))
    };
    let by = world.person(From::User);
    let job = json!({
        "metadata": {"name": name},
        "spec": {
            "gang": {"nodes": 2, "gpusPerNode": 1, "ranksPerNode": 1},
            "collective": {"op": "ALL_REDUCE", "bytes": "4194304", "iterations": 10, "verify": true},
            "engine": {"protection": protection}, "timeLimit": "60s",
            "placement": {"exclude": APART}, "rails": {"required": 2, "allowPartial": true},
        },
    });
    let ended = match submit(by, job).await {
        Ok(_) => until(by, name, &ENDED, Duration::from_secs(60)).await,
        Err(error) => Err(error),
    };
    stop.store(true, Ordering::Relaxed);
    let heard = tap.await.map_err(|error| error.to_string())?;
    let status = &ended?["status"];
    if status["phase"] != "COMPLETED" {
        return Err(format!("the collective is {}: {}", status["phase"], status["reasons"]));
    }
    Ok(heard)
}

/// Reads along with a job that asks for encryption, and with one that does not, to be sure that there is something to read.
///
/// # Errors
/// What kept the attempt from being made, as text.
pub async fn perform(world: &World) -> Result<Verdict, String> {
    let sealed = match read_along(world, "tapped", "ENCRYPTED").await? {
        Ok(heard) => heard,
        Err(error) => return Ok(Verdict::NotHere(format!("no packet socket is permitted: {error}"))),
    };
    let open = read_along(world, "tapped-open", "NONE").await?.map_err(|error| error.to_string())?;
    if open.bytes < ENOUGH || sealed.bytes < ENOUGH || open.share() < 2.0 * LEGIBLE {
        return Err(format!("the tap is no good: {sealed:?} of the sealed rails, {open:?} of the open ones"));
    }
    Ok(held_if(sealed.share() < LEGIBLE, || {
        format!("{:.1} % of {} bytes are zero, as in operands", 100.0 * sealed.share(), sealed.bytes)
    }))
}
