//! The process that holds an attempt's namespaces: the first one of the PID namespace, where there is one. It arranges what ranks see,
//! gives up its privileges, and then only takes the ends of processes that nobody else waits for. When it ends, the kernel ends all
//! others of the namespace; and it ends with its supervisor, however that ends.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    path::PathBuf,
    process::ExitCode,
};

use node_agent_os::process;
use rustix::{
    fs::Mode,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, recv,
        sendto, socket_with,
    },
    process::{Signal, WaitOptions, getppid, set_parent_process_death_signal, umask, wait},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncReadExt,
    signal::unix::{SignalKind, signal},
};

use super::{Isolation, leave, mounts, view::View};
use crate::{
    ids::Ids,
    privileges::{self, RankLimits},
};

/// All paths of an attempt fit many times.
const ORDER_MAX: u64 = 1 << 20;

/// What the supervisor sends to it, as one line of JSON on the socket that is its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The supervisor, as this process sees its parent: none from inside a PID namespace.
    pub parent: Option<i32>,
    /// The isolation that is to be set up.
    pub isolation: Isolation,
    /// The ranks' user, who this process becomes, too.
    pub ids: Option<Ids>,
    /// The part of the server's file system that ranks see.
    pub view: View,
    /// Device files of the job's GPUs.
    pub devices: Vec<PathBuf>,
}

/// What it answers once everything is made. Anything else is why not.
pub const READY: &str = "ready";

/// Runs until the supervisor closes the socket, or dies.
#[must_use]
pub fn run() -> ExitCode {
    let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let Ok(mut socket) = socket else { return ExitCode::FAILURE };
    let made = read(&socket).and_then(|order| make(&order));
    let answer = made.as_ref().map_or_else(String::as_str, |()| READY);
    let reported = writeln!(socket, "{answer}");
    if made.is_err() || reported.is_err() {
        let _ = socket.shutdown(Shutdown::Both);
        return ExitCode::FAILURE;
    }
    match hold(socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read(socket: &UnixStream) -> Result<Order, String> {
    let mut line = String::new();
    let read = BufReader::new(socket.take(ORDER_MAX)).read_line(&mut line);
    read.map_err(|error| format!("cannot read what to do: {error}"))?;
    serde_json::from_str(&line).map_err(|error| format!("cannot understand what to do: {error}"))
}

fn make(order: &Order) -> Result<(), String> {
    let namespaces = order.isolation.namespaces;
    // Folders that are made around what is shown must let ranks pass.
    umask(Mode::from_raw_mode(0o022));
    leave(namespaces.flags()).map_err(|error| format!("cannot make namespaces: {error}"))?;
    if namespaces.network {
        loopback().map_err(|error| format!("cannot bring loopback up: {error}"))?;
    }
    if namespaces.mount {
        mounts::arrange(&order.isolation, &order.view, &order.devices, namespaces.pid)
            .map_err(|error| error.to_string())?;
    }
    let limits = RankLimits { processes: u64::MAX, ..RankLimits::default() };
    privileges::give_up(order.ids.as_ref(), limits).map_err(|error| error.to_string())?;
    // Ranks have the same user: none of them may look into this process, or hold it up.
    process::hide();
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot be tied to the supervisor: {error}"))?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent == order.parent { Ok(()) } else { Err("the supervisor is gone".to_owned()) }
}

/// Brings the new network namespace's only interface up (RTM_NEWLINK, rtnetlink(7)): its number is 1.
fn loopback() -> io::Result<()> {
    // Its protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::new();
    // Length, type RTM_NEWLINK, flags REQUEST and ACK, sequence, port.
    message.extend(32_u32.to_ne_bytes());
    message.extend(16_u16.to_ne_bytes());
    message.extend(5_u16.to_ne_bytes());
    message.extend([0; 8]);
    // Family and type any, interface 1, flags IFF_UP, and that this flag alone is to change.
    message.extend([0; 4]);
    message.extend(1_i32.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // An error message's number, negative, follows its header; 0 is the acknowledgement.
    let code = answer.get(16..20).filter(|_| length >= 20).and_then(|bytes| bytes.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel's answer is too short")),
    }
}

/// Until the socket closes.
fn hold(socket: UnixStream) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ends = signal(SignalKind::child())?;
        socket.set_nonblocking(true)?;
        let mut socket = tokio::net::UnixStream::from_std(socket)?;
        let mut byte = [0];
        loop {
            tokio::select! {
                read = socket.read(&mut byte) => if !matches!(read, Ok(1..)) { return Ok(()) },
                _ = ends.recv() => while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {},
            }
        }
    })
}
