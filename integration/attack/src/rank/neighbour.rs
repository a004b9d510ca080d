//! A short rank of row X4: it leaves a secret wherever a program can, looks for those of the other tenant for a moment, and prints what
//! it found. Processes, files and memory that it leaves behind are its server's to take away.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open, test_kill_process};

/// How every secret begins.
const BEGIN: &str = "x4-secret-";
/// How long it looks.
const CHECK: Duration = Duration::from_millis(250);

/// What was found, and how often was looked.
struct Finds {
    tenant: String,
    attempts: usize,
    read: Vec<String>,
}

/// The program of `rail-attack neighbour`.
pub fn run() -> ExitCode {
    let secret = env::var("X4_SECRET").unwrap_or_default();
    let tenant = env::var("RAIL_TENANT").unwrap_or_default();
    let heap = std::hint::black_box(secret.repeat(100));
    let _held = leave(&secret);
    let begin = Instant::now();
    let mut finds = Finds { tenant, attempts: 0, read: Vec::new() };
    while begin.elapsed() < CHECK {
        finds.check();
        std::thread::sleep(Duration::from_millis(50));
    }
    std::hint::black_box(&heap);
    finds.read.sort();
    finds.read.dedup();
    for read in &finds.read {
        println!("x4 read {read}");
    }
    println!("x4 tries {}", finds.attempts);
    ExitCode::SUCCESS
}

/// Leaves it in files, sockets, shared memory, and a daemon.
fn leave(secret: &str) -> Vec<UnixListener> {
    let work = env::current_dir().unwrap_or_default();
    for path in [
        work.join("secret"),
        Path::new("/tmp").join(secret),
        Path::new("/var/tmp").join(secret),
        Path::new("/dev/shm").join(secret),
    ] {
        let _ = fs::write(&path, secret);
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o666));
    }
    let _ = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).stdout(Stdio::null()).status();
    let me = env::current_exe().unwrap_or_default();
    let script = format!("(setsid {} linger --mark x4-daemon >/dev/null 2>&1 </dev/null &) &", me.display());
    let _ = Command::new("/bin/sh").args(["-c", &script]).status();
    let mut held = Vec::new();
    let own = work.join("open.sock");
    if let Ok(listener) = UnixListener::bind(&own) {
        let _ = fs::set_permissions(&own, fs::Permissions::from_mode(0o777));
        held.push(listener);
    }
    if let Ok(listener) =
        SocketAddr::from_abstract_name(secret).and_then(|address| UnixListener::bind_addr(&address))
    {
        let (answer, own) = (secret.to_owned(), listener.try_clone());
        std::thread::spawn(move || {
            for mut stream in own.iter().flat_map(UnixListener::incoming).flatten() {
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        held.push(listener);
    }
    held
}

impl Finds {
    /// Whether a text has a secret of the other tenant in it.
    fn weigh(&mut self, place: &str, bytes: &[u8]) {
        self.attempts += 1;
        let text = String::from_utf8_lossy(bytes);
        let own = format!("{BEGIN}{}-", self.tenant);
        let other = text.match_indices(BEGIN).find(|(at, _)| !text[*at..].starts_with(&own));
        if let Some((at, _)) = other {
            let secret: String = text[at..].chars().take(30).filter(|c| c.is_ascii_graphic()).collect();
            self.read.push(format!("{place}: {secret}"));
        }
    }

    fn check(&mut self) {
        self.processes();
        let above =
            env::var("RAIL_JOB_DIR").map(PathBuf::from).ok().and_then(|dir| dir.parent().map(Path::to_owned));
        let jobs = above.into_iter().flat_map(|jobs| entries(&jobs)).map(|job| job.join("work"));
        for dir in jobs.chain(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from)) {
            self.files(&dir);
        }
        self.sockets();
        for kind in ["shm", "sem", "msg"] {
            self.attempts += 1;
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            // One is its own; the kernel names owners by number.
            let me = rustix::process::getuid().as_raw().to_string();
            let foreign = table.lines().skip(1).find(|line| !line.split_whitespace().any(|word| word == me));
            self.read.extend(foreign.map(|line| format!("System V {kind}: {line}")));
        }
    }

    fn processes(&mut self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for entry in entries(Path::new("/proc")) {
            let Some(pid) = entry.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok()) else {
                continue;
            };
            let name = fs::read(entry.join("cmdline")).unwrap_or_default();
            self.weigh("arguments", &name);
            if pid == own {
                continue;
            }
            let environ = fs::read(entry.join("environ")).unwrap_or_default();
            self.weigh("environment", &environ);
            let of_other = String::from_utf8_lossy(&environ).contains(BEGIN)
                && !String::from_utf8_lossy(&environ).contains(&format!("{BEGIN}{}-", self.tenant));
            for file in ["cwd", "root"] {
                self.files(&entry.join(file));
            }
            let Some(target) = Pid::from_raw(pid) else { continue };
            let reached = [
                ("memory", fs::File::open(entry.join("mem")).is_ok()),
                ("signal", test_kill_process(target).is_ok()),
                (
                    "descriptor",
                    pidfd_open(target, PidfdFlags::empty())
                        .is_ok_and(|fd| pidfd_getfd(&fd, 1, PidfdGetfdFlags::empty()).is_ok()),
                ),
            ];
            self.attempts += reached.len();
            // What of its own job it reaches is its own.
            self.read.extend(
                reached
                    .into_iter()
                    .filter(|(_, done)| *done && of_other)
                    .map(|(what, _)| format!("{what} of {pid}")),
            );
        }
    }

    fn files(&mut self, dir: &Path) {
        for path in entries(dir).into_iter().take(500) {
            self.weigh("name", path.to_string_lossy().as_bytes());
            let small = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() < 4_096);
            if small {
                let bytes = fs::read(&path).unwrap_or_default();
                self.weigh(&path.display().to_string(), &bytes);
            }
            if path.extension().is_some_and(|end| end == "sock") {
                self.attempts += 1;
                // Its own is found by many ways, also through its own daemon's folder.
                let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                let foreign = !real.starts_with(env::current_dir().unwrap_or_default());
                if foreign && UnixStream::connect(&path).is_ok() {
                    self.read.push(format!("socket {}", path.display()));
                }
            }
        }
    }

    fn sockets(&mut self) {
        let names = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        for name in
            names.lines().filter_map(|line| line.split('@').nth(1)).filter(|name| name.starts_with(BEGIN))
        {
            let address = SocketAddr::from_abstract_name(name);
            let Ok(mut stream) = address.and_then(|address| UnixStream::connect_addr(&address)) else {
                continue;
            };
            let mut text = Vec::new();
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.read_to_end(&mut text);
            self.weigh("abstract socket", &text);
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
