//! Sockets of others, and the network of the server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixStream},
    },
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketType, ipproto, socket};

use super::outcome::{Outcome, Targets, Try, unless};
use crate::{rank::victim, world::SECRETS};

/// The attempts on sockets and the network, by name.
pub const ATTEMPTS: &[(&str, Try)] = &[
    ("engine-socket", |t| connect(&format!("{}/engine.sock", t.victim_dir))),
    ("engine-control", |t| connect(&format!("{}/engine.control", t.victim_dir))),
    ("supervisor-socket", |t| connect(&format!("{}/supervisor.sock", t.victim_dir))),
    ("own-engine-control", own_control),
    ("own-supervisor", own_supervisor),
    ("own-engine-garbage", engine_garbage),
    ("own-engine-silent", engine_silent),
    ("own-engine-descriptors", engine_descriptors),
    ("victim-socket", |t| connect(&format!("{}/work/open.sock", t.victim_dir))),
    ("abstract-socket", abstract_socket),
    ("controller-socket", |t| connect(&t.controller_socket)),
    ("unix-names", unix_names),
    ("metrics", metrics),
    ("raw-packet", |_| made(AddressFamily::PACKET, SocketType::RAW, RawProtocol::new(0x0300))),
    ("raw-icmp", |_| made_ip(ipproto::ICMP)),
    ("raw-udp", |_| made_ip(ipproto::UDP)),
    ("low-port", low_port),
    ("uverbs", |_| devices("/dev/infiniband")),
    ("tun", |_| device("/dev/net/tun")),
    ("kvm-fuse", |_| either(&["/dev/kvm", "/dev/fuse", "/dev/vhost-net"])),
    ("memory", |_| either(&["/dev/mem", "/dev/kmem", "/dev/port"])),
    ("disks", disks),
    ("mknod", mknod),
];

/// A socket of another kind is reached as well.
fn connect(path: &str) -> Outcome {
    const OTHER_KIND: i32 = 91;
    match UnixStream::connect(path) {
        Ok(_) => Outcome::Gave(format!("{path} answers")),
        Err(error) if error.raw_os_error() == Some(OTHER_KIND) => {
            Outcome::Gave(format!("{path} can be reached"))
        }
        Err(_) => Outcome::Held,
    }
}

fn own(file: &str) -> Outcome {
    connect(&format!("{}/{file}", std::env::var("RAIL_JOB_DIR").unwrap_or_default()))
}

/// By which the supervisor asks the engine.
fn own_control(_: &Targets) -> Outcome {
    own("engine.control")
}

/// By which the agent commands the supervisor.
fn own_supervisor(_: &Targets) -> Outcome {
    own("supervisor.sock")
}

/// A connection to this job's own engine: of packets.
fn engine() -> rustix::io::Result<OwnedFd> {
    use rustix::net::{SocketAddrUnix, SocketFlags, connect, socket_with};
    let path = std::env::var("RAIL_ENGINE_SOCKET").unwrap_or_default();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Longest wait for an engine that others have kept busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the engine still takes ranks after what was done to it.
fn engine_lives(done: &str) -> Outcome {
    let begin = Instant::now();
    loop {
        match engine() {
            Ok(_) => return Outcome::Held,
            Err(error) if begin.elapsed() > PATIENCE => {
                return Outcome::Gave(format!("after {done} the engine does not answer: {error}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn engine_garbage(_: &Targets) -> Outcome {
    use rustix::net::{SendFlags, send};
    if let Err(error) = engine() {
        return Outcome::Absent(format!("this job's engine cannot be reached: {error}"));
    }
    for seed in 0..200_u32 {
        let Ok(socket) = engine() else { continue };
        let noise = |n: u32| (n.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 11) as u8;
        let noise: Vec<u8> = (0..400).map(noise).collect();
        let _ = send(&socket, &noise, SendFlags::NOSIGNAL);
    }
    engine_lives("garbage")
}

fn engine_silent(_: &Targets) -> Outcome {
    let held: Vec<_> = (0..300).filter_map(|_| engine().ok()).collect();
    // While they are there it may be full; when they have gone it is not.
    drop(held);
    engine_lives("300 silent connections")
}

/// Files that shrink, and that are none, in the place of shared memory.
fn engine_descriptors(_: &Targets) -> Outcome {
    use rustix::{
        fs::{MemfdFlags, ftruncate, memfd_create},
        net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    };
    use std::{io::IoSlice, mem::MaybeUninit, os::fd::AsFd as _};
    for size in [0_u64, 1, 4095, 1 << 20] {
        let (Ok(socket), Ok(file)) = (engine(), memfd_create("attack", MemfdFlags::CLOEXEC)) else {
            continue;
        };
        let _ = ftruncate(&file, size);
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let bytes = [IoSlice::new(&[1; 64])];
        let _ = sendmsg(&socket, &bytes, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let _ = ftruncate(&file, 0);
    }
    engine_lives("hostile descriptors")
}

fn abstract_socket(_: &Targets) -> Outcome {
    let address = SocketAddr::from_abstract_name(victim::MARKER);
    let stream = address.and_then(|address| UnixStream::connect_addr(&address));
    unless(stream.ok().map(|mut stream| {
        let mut text = String::new();
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let _ = stream.read_to_string(&mut text);
        format!("the abstract socket of the other tenant answers: {text}")
    }))
}

fn unix_names(_: &Targets) -> Outcome {
    let names = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    unless(names.lines().find(|line| line.contains(victim::MARKER)).map(str::to_owned))
}

/// What the server's processes show everybody on loopback must name no tenant's things.
fn metrics(targets: &Targets) -> Outcome {
    for address in &targets.metrics {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        if let Some(secret) = SECRETS.iter().find(|secret| text.contains(**secret)) {
            return Outcome::Gave(format!("metrics at {address} name {secret}"));
        }
    }
    Outcome::Held
}

fn made(family: AddressFamily, kind: SocketType, protocol: Option<RawProtocol>) -> Outcome {
    unless(
        socket(family, kind, protocol.map(Protocol::from_raw))
            .ok()
            .map(|_| "a raw socket was made".to_owned()),
    )
}

fn low_port(_: &Targets) -> Outcome {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if first.trim().parse::<u16>().is_ok_and(|first| first <= 443) {
        return Outcome::Absent(
            "this server has no privileged ports (ip_unprivileged_port_start)".to_owned(),
        );
    }
    unless(std::net::TcpListener::bind("127.0.0.1:443").ok().map(|_| "port 443 was bound".to_owned()))
}

fn made_ip(protocol: Protocol) -> Outcome {
    unless(
        socket(AddressFamily::INET, SocketType::RAW, Some(protocol))
            .ok()
            .map(|_| "a raw socket was made".to_owned()),
    )
}

/// Absent devices prove nothing of how they would be guarded.
fn device(path: &str) -> Outcome {
    match fs::File::options().read(true).write(true).open(path) {
        Ok(_) => Outcome::Gave(format!("{path} was opened")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Outcome::Absent(format!("there is no {path}"))
        }
        Err(_) => Outcome::Held,
    }
}

fn either(paths: &[&str]) -> Outcome {
    let outcomes: Vec<Outcome> = paths.iter().map(|path| device(path)).collect();
    let gave = outcomes.iter().find(|one| matches!(one, Outcome::Gave(_))).cloned();
    let absent = outcomes.iter().all(|one| matches!(one, Outcome::Absent(_)));
    gave.unwrap_or(if absent {
        Outcome::Absent(format!("there is none of {}", paths.join(" ")))
    } else {
        Outcome::Held
    })
}

fn devices(dir: &str) -> Outcome {
    let entries: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().collect();
    if entries.is_empty() {
        return Outcome::Absent(format!("there is nothing in {dir}"));
    }
    let opened =
        entries.iter().find(|entry| fs::File::options().read(true).write(true).open(entry.path()).is_ok());
    unless(opened.map(|entry| format!("{} was opened", entry.path().display())))
}

fn disks(_: &Targets) -> Outcome {
    let disk =
        |name: &str| ["sd", "vd", "nvme", "xvd", "loop", "dm-"].iter().any(|kind| name.starts_with(kind));
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut all = entries.filter(|entry| disk(&entry.file_name().to_string_lossy()));
    unless(
        all.find(|entry| fs::File::open(entry.path()).is_ok())
            .map(|entry| format!("{} was opened", entry.path().display())),
    )
}

fn mknod(_: &Targets) -> Outcome {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let made = mknodat(CWD, "attack-null", FileType::BlockDevice, Mode::RUSR | Mode::WUSR, makedev(8, 0));
    let _ = made.as_ref().map(|()| fs::remove_file("attack-null"));
    unless(made.ok().map(|()| "a block device was made".to_owned()))
}
