//! The Unix socket between a rank and its engine: packets, each with at most one file descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::MAX_MESSAGE;
use crate::codec::ProtocolError;

/// Connections that may wait to be accepted: more than the ranks of any server.
const BACKLOG: i32 = 64;

/// Why the socket failed.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The other side closed the connection or died.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing arrived before the deadline.
    #[error("nothing arrived before the deadline")]
    TimedOut,
    /// The other side does not read its messages, so no more can be sent.
    #[error("the other side does not read its messages")]
    Full,
    /// What arrived is not a message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A system call failed.
    #[error("could not {action} socket {path}: {source}", path = path.display())]
    System {
        /// What was attempted, as a verb: `create`, `bind`, `connect to`, ...
        action: &'static str,
        /// The socket's path, empty for a connection.
        path: PathBuf,
        /// What the kernel answered.
        source: std::io::Error,
    },
}

/// Who is at the other end, as the kernel knows it; it cannot be forged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// User id of the process that connected.
    pub uid: u32,
    /// Process id of the process that connected, in this process's pid namespace.
    pub pid: i32,
}

/// The engine's listening socket; its file is removed on drop.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Binds `path`, readable and writable by its owner only, in place of a stale socket of an earlier engine.
    ///
    /// # Errors
    /// The socket cannot be made, or an earlier one at `path` cannot be removed.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let system =
            |action| move |e: Errno| SocketError::System { action, path: path.into(), source: e.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(system("create"))?;
        match rustix::fs::unlink(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(system("replace")(e)),
        }
        let short = ShortPath::of(path).map_err(|source| named("name", path, source))?;
        let address = SocketAddrUnix::new(short.as_ref()).map_err(system("name"))?;
        rustix::net::bind(&socket, &address).map_err(system("bind"))?;
        rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR).map_err(system("restrict"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(system("listen on"))?;
        Ok(Self { socket, path: path.into() })
    }

    /// Takes a waiting connection, if there is one. The connection does not block.
    ///
    /// # Errors
    /// The kernel refuses; that no connection is waiting is no failure.
    pub fn accept(&self) -> Result<Option<(Channel, PeerIdentity)>, SocketError> {
        let system =
            |e: Errno| SocketError::System { action: "accept on", path: self.path.clone(), source: e.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
            Err(e) => return Err(system(e)),
        };
        let peer = rustix::net::sockopt::socket_peercred(&socket).map_err(system)?;
        let identity = PeerIdentity { uid: peer.uid.as_raw(), pid: peer.pid.as_raw_nonzero().get() };
        Ok(Some((Channel { socket }, identity)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A file that is already gone is what is wanted.
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// One packet as it arrived.
#[derive(Debug)]
pub struct Received {
    /// The packet's bytes, at most [`MAX_MESSAGE`].
    pub packet: Vec<u8>,
    /// The descriptor that came with it.
    pub descriptor: Option<OwnedFd>,
    /// One was sent, but this process may have no more open.
    pub lost: bool,
}

/// A connection between a rank and its engine. It never blocks but in [`Channel::wait_readable`].
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Connects to the engine at `path`.
    ///
    /// # Errors
    /// Nobody listens at `path`, or the kernel refuses.
    pub fn connect(path: &Path) -> Result<Self, SocketError> {
        let system =
            |action| move |e: Errno| SocketError::System { action, path: path.into(), source: e.into() };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(system("create"))?;
        let short = ShortPath::of(path).map_err(|source| named("name", path, source))?;
        let address = SocketAddrUnix::new(short.as_ref()).map_err(system("name"))?;
        rustix::net::connect(&socket, &address).map_err(system("connect to"))?;
        Ok(Self { socket })
    }

    /// Sends one packet, with a descriptor where one is given. Packets are whole: from several threads they do not mix.
    ///
    /// # Errors
    /// [`SocketError::Full`] where the other side does not read, [`SocketError::Closed`] where it is gone.
    pub fn send(&self, packet: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), SocketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|fd| [fd]);
        if let Some(descriptors) = &descriptors {
            // The space above is for exactly one descriptor, so it fits.
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(packet)], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Err(SocketError::Full),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(SocketError::Closed),
                Err(e) => return Err(connection("send on", e)),
            }
        }
    }

    /// Takes the next packet, or `None` if none is waiting.
    ///
    /// # Errors
    /// [`SocketError::Closed`] where the other side is gone, [`SocketError::Protocol`] where the packet is too long or came with more
    /// than one descriptor.
    pub fn receive(&self) -> Result<Option<Received>, SocketError> {
        // One byte more than allowed shows a packet that is too long.
        let mut packet = [0; MAX_MESSAGE + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut reset = false;
        let message = loop {
            match rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut packet)], &mut control, flags)
            {
                Ok(message) => break message,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                // The other side closed before it read all of ours. What it said before that is still to be read: the error
                // is reported once, ahead of it.
                Err(Errno::CONNRESET) if !reset => reset = true,
                Err(Errno::CONNRESET | Errno::NOTCONN) => return Err(SocketError::Closed),
                Err(e) => return Err(connection("receive on", e)),
            }
        };
        let mut descriptor = None;
        let mut found = 0;
        for fd in control.drain().filter_map(rights).flatten() {
            found += 1;
            descriptor = Some(fd);
        }
        // Room is for one: where none came although some were cut off, this process could not take any.
        let cut = message.flags.contains(ReturnFlags::CTRUNC);
        if (cut && found > 0) || found > 1 {
            return Err(ProtocolError::Descriptors { found: found.max(2), wanted: 1 }.into());
        }
        if message.flags.contains(ReturnFlags::TRUNC) || message.bytes > MAX_MESSAGE {
            return Err(ProtocolError::TooLong.into());
        }
        if message.bytes == 0 {
            return Err(SocketError::Closed);
        }
        Ok(Some(Received { packet: packet[..message.bytes].to_vec(), descriptor, lost: cut }))
    }

    /// Whether the other side has closed: nothing more comes than what waits to be taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut watched, Some(&at_once)), Ok(found) if found > 0)
    }

    /// Sleeps until a packet or the end of the connection can be taken, or fails at `deadline`.
    ///
    /// # Errors
    /// [`SocketError::TimedOut`] at `deadline`; or the kernel refuses.
    pub fn wait_readable(&self, deadline: Instant) -> Result<(), SocketError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut watched, Some(&left)) {
                Ok(0) => return Err(SocketError::TimedOut),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(connection("wait on", e)),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn rights<'a>(message: RecvAncillaryMessage<'a>) -> Option<rustix::net::AncillaryIter<'a, OwnedFd>> {
    match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    }
}

fn named(action: &'static str, path: &Path, source: std::io::Error) -> SocketError {
    SocketError::System { action, path: path.into(), source }
}

fn connection(action: &'static str, error: Errno) -> SocketError {
    SocketError::System { action, path: PathBuf::new(), source: error.into() }
}

/// A name for a socket file that fits in a socket address (108 bytes), whatever the length of its own path. It is to be
/// used at once, while this value lives.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl ShortPath {
    /// The path itself where it fits, else one that goes through a descriptor of its directory.
    ///
    /// # Errors
    /// The path is too long and its directory cannot be opened, or no path at all.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        match SocketAddrUnix::new(path) {
            Err(Errno::NAMETOOLONG) => {}
            Err(other) => return Err(other.into()),
            Ok(_) => return Ok(Self { path: path.into(), _directory: None }),
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NAMETOOLONG.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory).to_string();
        let path = Path::new("/proc/self/fd").join(number).join(name);
        Ok(Self { path, _directory: Some(directory) })
    }
}

impl AsRef<Path> for ShortPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Region, Reply, Request};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn pair(path: &Path) -> (Listener, Channel, Channel, PeerIdentity) {
        let listener = Listener::bind(path).unwrap();
        let rank = Channel::connect(path).unwrap();
        let (engine, identity) = listener.accept().unwrap().unwrap();
        (listener, rank, engine, identity)
    }

    #[test]
    fn packets_descriptors_and_identity_pass() {
        let room = tempfile::tempdir().unwrap();
        let (_listener, rank, engine, identity) = pair(&room.path().join("s"));
        assert_eq!(identity.uid, rustix::process::geteuid().as_raw());
        assert_eq!(identity.pid, rustix::process::getpid().as_raw_nonzero().get());
        assert!(engine.receive().unwrap().is_none());

        rank.send(&Request::Alloc { bytes: 4096 }.encode(7), None).unwrap();
        engine.wait_readable(soon()).unwrap();
        let asked = engine.receive().unwrap().unwrap();
        assert_eq!(Request::decode(&asked.packet).unwrap(), (7, Request::Alloc { bytes: 4096 }));

        let (region, file) = Region::create(4096).unwrap();
        let reply = Reply::Buffer { buffer: 1, bytes: 4096 };
        engine.send(&reply.encode(7), Some(file.as_fd())).unwrap();
        let got = rank.receive().unwrap().unwrap();
        let mirror = Region::open(got.descriptor.unwrap(), 4096).unwrap();
        mirror.write(4000, b"hello").unwrap();
        let mut seen = [0; 5];
        region.read(4000, &mut seen).unwrap();
        assert_eq!(&seen, b"hello");
    }

    #[test]
    fn a_path_longer_than_a_socket_address_works() {
        let room = tempfile::tempdir().unwrap();
        let deep = room.path().join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let (listener, rank, engine, _) = pair(&deep.join("engine.sock"));
        rank.send(b"x", None).unwrap();
        assert_eq!(engine.receive().unwrap().unwrap().packet, b"x");
        drop(listener);
        assert!(!deep.join("engine.sock").exists());
    }

    #[test]
    fn too_long_and_too_many_descriptors_are_refused() {
        let room = tempfile::tempdir().unwrap();
        let (_listener, rank, engine, _) = pair(&room.path().join("s"));
        rank.send(&vec![0; MAX_MESSAGE + 1], None).unwrap();
        assert!(matches!(engine.receive(), Err(SocketError::Protocol(ProtocolError::TooLong))));

        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [rank.as_fd(), rank.as_fd(), rank.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        rustix::net::sendmsg(&rank.socket, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        assert!(matches!(engine.receive(), Err(SocketError::Protocol(ProtocolError::Descriptors { .. }))));
    }

    #[test]
    fn a_dead_peer_is_seen_at_once_and_a_deaf_one_is_bounded() {
        let room = tempfile::tempdir().unwrap();
        let (listener, rank, engine, _) = pair(&room.path().join("s"));
        let full = (0..100_000).find_map(|_| engine.send(&[0; MAX_MESSAGE], None).err());
        assert!(matches!(full, Some(SocketError::Full)));
        drop(rank);
        engine.wait_readable(soon()).unwrap();
        assert!(matches!(engine.receive(), Err(SocketError::Closed)));
        assert!(matches!(engine.send(b"x", None), Err(SocketError::Closed)));
        let late = Instant::now() + Duration::from_millis(5);
        let waiting = Channel::connect(&room.path().join("s")).unwrap();
        assert!(matches!(waiting.wait_readable(late), Err(SocketError::TimedOut)));
        drop(listener);
    }

    #[test]
    fn last_words_are_heard_after_a_close_that_ignored_ours() {
        let room = tempfile::tempdir().unwrap();
        let (_listener, rank, engine, _) = pair(&room.path().join("s"));
        rank.send(b"never read", None).unwrap();
        engine.send(b"go away", None).unwrap();
        drop(engine);
        assert_eq!(rank.receive().unwrap().unwrap().packet, b"go away");
        assert!(matches!(rank.receive(), Err(SocketError::Closed)));
    }

    #[test]
    fn nobody_there_is_a_clear_error() {
        let room = tempfile::tempdir().unwrap();
        let error = Channel::connect(&room.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
