//! What tenant alpha's rank has on the server: a secret in its environment, its memory, its files, sockets and shared memory. It
//! opens what a careless program would open to everybody; who is not of its job must not get there.

use std::{
    env, fs,
    io::Write as _,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use crate::world::SECRET;

/// Part of the names of all that it leaves open.
pub const MARKER: &str = "alpha-dead-drop";
/// What it says when all of it is there.
pub const READY: &str = "victim is ready";

/// The program of `rail-attack victim`.
pub fn run() -> ExitCode {
    // In its memory.
    let heap: Vec<u8> = std::hint::black_box(SECRET.repeat(1_000).into_bytes());
    let work = env::current_dir().unwrap_or_default();
    leave(&work.join("own.secret"), 0o600);
    leave(&work.join("open.secret"), 0o666);
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        leave(&Path::new(dir).join(MARKER), 0o666);
    }
    let segment = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output();
    let path = work.join("open.sock");
    let named = UnixListener::bind(&path);
    let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o777));
    let hidden = SocketAddr::from_abstract_name(MARKER).and_then(|address| UnixListener::bind_addr(&address));
    if let Ok(listener) = hidden {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(SECRET.as_bytes());
            }
        });
    }
    println!("{READY}, log of {SECRET}, socket: {}, segment: {}", named.is_ok(), segment.is_ok());
    std::thread::sleep(Duration::from_secs(600));
    std::hint::black_box(&heap);
    let _ = named;
    ExitCode::SUCCESS
}

fn leave(path: &Path, mode: u32) {
    // Where a folder is closed to it there is nothing to find.
    let _ = fs::write(path, SECRET);
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
}
