//! The supervisor's hold on an attempt's namespaces: makes them, starts ranks in them, ends them.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use node_agent_os::process::Identity;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        DumpableBehavior, Pid, PidfdFlags, Signal, getegid, geteuid, pidfd_open, set_dumpable_behavior,
    },
    thread::{
        CapabilitySet, ThreadNameSpaceType, UnshareFlags, capabilities, clear_ambient_capability_set,
        configure_capability_in_ambient_set, move_into_thread_name_spaces, set_capabilities,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    Namespaces,
    init::{Order, READY},
    leave,
};
use crate::orders;

/// Arranging an attempt's files takes milliseconds; a server whose disks hang is not waited for longer.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// An answer is a line.
const ANSWER_MAX: u64 = 4096;
/// After SIGKILL the kernel ends a namespace within this, unless somebody is held in the kernel.
const END_LIMIT: Duration = Duration::from_millis(100);

/// Where a rank that is started finds its attempt's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The process that holds them, by its pid where the rank is.
    pub holder: i32,
    /// The namespaces that the rank enters.
    pub namespaces: Namespaces,
}

/// A process to be started, and who waits for it.
type Wanted = (Command, mpsc::Sender<io::Result<Child>>);

/// The namespaces of one attempt.
#[derive(Debug)]
pub struct Room {
    /// The process that holds them.
    pub holder: Identity,
    namespaces: Namespaces,
    pidfd: OwnedFd,
    /// It ends when this closes.
    socket: UnixStream,
    /// It has got its order.
    reported: bool,
    ready: Option<Result<(), String>>,
    /// Starts processes in the PID namespace: a thread's children are born in the namespace that it has chosen, and only its own. (To
    /// come back from there needs a right that a user namespace of our own does not give.) It lives as long as this: what it starts is
    /// tied to it.
    starter: Option<mpsc::Sender<Wanted>>,
}

impl Room {
    /// Starts the process that makes them, and waits for what to arrange ([`Room::arrange`]); `program` is the agent's own, or the small
    /// one (`program.rs`).
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn open(program: &Path, namespaces: Namespaces) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command.arg(orders::INIT).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        let starter = if namespaces.pid { Some(starter()?) } else { None };
        let child = spawn(starter.as_ref(), command)?;
        let pid = child.id().cast_signed();
        let holder = Identity::of(pid).ok_or_else(|| io::Error::other("it ended at once"))?;
        let raw = Pid::from_raw(pid).ok_or_else(|| io::Error::other("it has no pid"))?;
        let pidfd = pidfd_open(raw, PidfdFlags::empty())?;
        Ok(Self { holder, namespaces, pidfd, socket, reported: false, ready: None, starter })
    }

    /// Tells it what to arrange, once; it does so while we go on. The namespaces are those that it was opened with.
    ///
    /// # Errors
    /// It has ended.
    pub fn arrange(&mut self, mut order: Order) -> io::Result<()> {
        if std::mem::replace(&mut self.reported, true) {
            return Ok(());
        }
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        order.parent = (!self.namespaces.pid).then_some(parent);
        order.isolation.namespaces = self.namespaces;
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        (&self.socket).write_all(&line)
    }

    /// True once it has got its order.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        self.reported
    }

    /// Waits until all is arranged.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn ready(&mut self) -> Result<(), String> {
        self.ready.get_or_insert_with(|| answer(&self.socket)).clone()
    }

    /// What a rank is to enter.
    #[must_use]
    pub fn join(&self) -> Join {
        let holder = if self.namespaces.pid { 1 } else { self.holder.pid };
        Join { holder, namespaces: self.namespaces }
    }

    /// Starts a process in the PID namespace, as a child of this one.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        spawn(self.starter.as_ref(), command)
    }

    /// Ends everybody in the PID namespace at once.
    pub fn kill(&self) {
        self.holder.signal(Signal::KILL);
    }

    /// Ends it, and with it whatever is left. False if it is not over yet: somebody's end is still to be taken.
    #[must_use]
    pub fn end(&self) -> bool {
        self.kill();
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(END_LIMIT.subsec_nanos()) };
        poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0)
    }
}

fn spawn(starter: Option<&mpsc::Sender<Wanted>>, mut command: Command) -> io::Result<Child> {
    let Some(starter) = starter else { return with_capabilities(|| command.spawn()) };
    let (sender, receiver) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts processes has ended");
    starter.send((command, sender)).map_err(|_| gone())?;
    receiver.recv().map_err(|_| gone())?
}

/// The thread whose children are born in a PID namespace of their own; the first of them is its first process.
fn starter() -> io::Result<mpsc::Sender<Wanted>> {
    let (sender, wanted) = mpsc::channel::<Wanted>();
    let (report, left) = mpsc::channel();
    let run = move || {
        let outcome = leave(UnshareFlags::NEWPID);
        let works = outcome.is_ok();
        if report.send(outcome).is_err() || !works {
            return;
        }
        for (mut command, waiting) in wanted {
            // Who does not wait any more has ended.
            let _ = waiting.send(with_capabilities(|| command.spawn()));
        }
    };
    thread::Builder::new().name("starter".into()).spawn(run)?;
    left.recv().map_err(|_| io::Error::other("the thread that starts processes has ended"))??;
    Ok(sender)
}

fn answer(socket: &UnixStream) -> Result<(), String> {
    let reported = |error: io::Error| format!("the attempt's namespaces are not made: {error}");
    socket.set_read_timeout(Some(READY_LIMIT)).map_err(reported)?;
    let mut line = String::new();
    BufReader::new(socket.take(ANSWER_MAX)).read_line(&mut line).map_err(reported)?;
    match line.trim() {
        READY => Ok(()),
        "" => Err("the attempt's namespaces are not made: the process that makes them ended".to_owned()),
        why => Err(format!("the attempt's namespaces are not made: {why}")),
    }
}

/// Lets the program that is started keep our capabilities where it is not root who has them (in a user namespace of our own).
fn with_capabilities<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if geteuid().is_root() {
        return start();
    }
    let mut sets = capabilities(None)?;
    let inherited = sets.inheritable;
    sets.inheritable = sets.permitted;
    set_capabilities(None, sets)?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if sets.permitted.contains(one) {
            configure_capability_in_ambient_set(one, true)?;
        }
    }
    let started = start();
    clear_ambient_capability_set()?;
    sets.inheritable = inherited;
    set_capabilities(None, sets)?;
    started
}

/// Enters a user namespace of this process's own, in which it has every capability and is the user that it was. Nothing else of this
/// server changes for it. To be called before there are threads.
///
/// # Errors
/// What the kernel refused.
pub fn enter_user_namespace() -> io::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // Files in /proc of a process that may not be dumped are root's.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    leave(UnshareFlags::NEWUSER)?;
    let map = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
    map("setgroups", "deny".to_owned())?;
    map("gid_map", format!("{gid} {gid} 1"))?;
    map("uid_map", format!("{uid} {uid} 1"))?;
    node_agent_os::process::hide();
    Ok(())
}

impl Join {
    /// Enters namespaces that another process holds; the PID namespace is entered by being started there.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn enter(self) -> io::Result<()> {
        let Self { holder, namespaces } = self;
        let mut kinds = ThreadNameSpaceType::empty();
        for (wanted, kind) in [
            (namespaces.mount, ThreadNameSpaceType::MOUNT),
            (namespaces.ipc, ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION),
            (namespaces.network, ThreadNameSpaceType::NETWORK),
        ] {
            kinds.set(kind, wanted);
        }
        if kinds.is_empty() {
            return Ok(());
        }
        let pid = Pid::from_raw(holder).ok_or_else(|| io::Error::other("the holder has no pid"))?;
        let holder = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(move_into_thread_name_spaces(holder.as_fd(), kinds)?)
    }
}
