//! System calls that a rank has no use for; what it may call on purpose (`ptrace`, `process_vm_readv`) is bound by its user and its PID
//! namespace, and tried on other processes. They are made by a small Python program, since there is no safe way to make any call by
//! its number from here; each with arguments that do nothing where it is let in.

use std::{collections::BTreeMap, process::Command};

use super::outcome::Outcome;

/// Name, number on x86-64, number on aarch64, and arguments. Let in, the arguments give another error than that of a refusal, or do
/// nothing.
pub const CALLS: &[(&str, i32, i32, &str)] = &[
    ("mount", 165, 40, "b'none', b'/tmp', b'tmpfs', 0, 0"),
    ("umount2", 166, 39, "b'/proc', 0"),
    ("pivot_root", 155, 41, "b'/nowhere', b'/nowhere'"),
    ("chroot", 161, 51, "b'/'"),
    ("unshare-user", 272, 97, "0x10000000"),
    ("unshare-mount", 272, 97, "0x00020000"),
    ("unshare-net", 272, 97, "0x40000000"),
    ("setns", 308, 268, "-1, 0x20000"),
    ("fsopen", 430, 430, "b'tmpfs', 0"),
    ("open_tree", 428, 428, "-100, b'/', 1"),
    ("move_mount", 429, 429, "-1, b'', -1, b'', 0"),
    ("kexec_load", 246, 104, "0, 0, 0, 0"),
    ("kexec_file_load", 320, 294, "-1, -1, 0, 0, 0"),
    ("init_module", 175, 105, "0, 0, 0"),
    ("finit_module", 313, 273, "-1, 0, 0"),
    ("delete_module", 176, 106, "b'no_such_module', 0"),
    ("bpf", 321, 280, "0, 0, 0"),
    ("perf_event_open", 298, 241, "0, 0, 0, 0, 0"),
    ("userfaultfd", 323, 282, "0"),
    ("io_uring_setup", 425, 425, "0, 0"),
    ("keyctl", 250, 219, "0, -4, 0"),
    ("add_key", 248, 217, "b'user', b'a', b'a', 1, -4"),
    ("request_key", 249, 218, "b'user', b'a', 0, -4"),
    ("open_by_handle_at", 304, 265, "-100, 0, 0"),
    ("swapon", 167, 224, "b'/nowhere', 0"),
    ("reboot", 169, 142, "0, 0, 0, 0"),
    ("sethostname", 170, 161, "b'x', 0x7fffffff"),
    ("clock_settime", 227, 112, "0, 0"),
    ("acct", 163, 89, "b'/nowhere'"),
    ("quotactl", 179, 60, "0x80000100, b'/dev/none', 0, 0"),
    ("syslog", 103, 116, "3, 0, 0"),
    ("fanotify_init", 300, 262, "0, 0"),
    ("mknod", 259, 33, "-100, b'attack-node', 0x6180, 0x800"),
    ("vhangup", 153, 58, ""),
    ("clone-user", 56, 220, "0x10000011, 0, 0, 0, 0"),
    ("clone-pid", 56, 220, "0x20000011, 0, 0, 0, 0"),
    ("socket-rds", 41, 198, "21, 5, 0"),
    ("socket-alg", 41, 198, "38, 5, 0"),
    ("socket-vsock", 41, 198, "40, 1, 0"),
    ("socket-smc", 41, 198, "43, 1, 0"),
    ("socket-xdp", 41, 198, "44, 3, 0"),
    ("socket-key", 41, 198, "15, 3, 2"),
    ("settimeofday", 164, 170, "0, 0"),
    ("setdomainname", 171, 162, "b'x', 0x7fffffff"),
    ("fsmount", 432, 432, "-1, 0, 0"),
    ("mount_setattr", 442, 442, "-1, b'', 0, 0, 0"),
    ("swapoff", 168, 225, "b'/nowhere'"),
];

/// Errors by which the kernel, or a filter, refuses: EPERM, EACCES, ENOSYS.
const REFUSALS: [i32; 3] = [1, 13, 38];

const PROGRAM: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
for line in sys.stdin.read().splitlines():
    name, number, args = line.split('|')
    values = eval('[' + args + ']')
    values = [ctypes.c_char_p(v) if isinstance(v, bytes) else ctypes.c_long(v) for v in values]
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        done = libc.syscall(ctypes.c_long(int(number)), *values)
        if done == 0 and 'clone' in name: os._exit(0)
        os.write(w, str(0 if done >= 0 else ctypes.get_errno()).encode())
        os._exit(0)
    os.close(w)
    told = os.read(r, 16).decode()
    os.close(r)
    os.waitpid(pid, 0)
    print(name, told or 'killed', flush=True)
"#;

/// The names as attempts have them.
pub fn names() -> impl Iterator<Item = String> {
    CALLS.iter().map(|(name, ..)| format!("sys-{}", name.replace('_', "-")))
}

/// Makes all of them.
pub fn run() -> Vec<(String, Outcome)> {
    let reported = called();
    let outcome = |name: &str| match &reported {
        Err(why) => Outcome::Absent(why.clone()),
        Ok(reported) => match reported.get(name).map(String::as_str) {
            None => Outcome::Absent("it was not made".to_owned()),
            Some("killed") => Outcome::Held,
            Some(number) => match number.parse::<i32>() {
                Ok(number) if REFUSALS.contains(&number) => Outcome::Held,
                Ok(number) => Outcome::Gave(format!("{name} was let in (errno {number})")),
                Err(_) => Outcome::Absent(format!("it told {number}")),
            },
        },
    };
    names().zip(CALLS).map(|(attempt, (name, ..))| (attempt, outcome(name))).collect()
}

fn called() -> Result<BTreeMap<String, String>, String> {
    let column = if cfg!(target_arch = "x86_64") {
        0
    } else if cfg!(target_arch = "aarch64") {
        1
    } else {
        return Err("the numbers of system calls are not known for this processor".to_owned());
    };
    let lines: Vec<String> = CALLS
        .iter()
        .map(|(name, x86, arm, args)| format!("{name}|{}|{args}", if column == 0 { x86 } else { arm }))
        .collect();
    let python = ["/usr/bin/python3", "/usr/local/bin/python3", "python3"];
    for program in python {
        let child = Command::new(program)
            .args(["-I", "-c", PROGRAM])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn();
        let Ok(mut child) = child else { continue };
        if let Some(mut stdin) = child.stdin.take() {
            let _ = std::io::Write::write_all(&mut stdin, lines.join("\n").as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let reported: BTreeMap<String, String> = text
            .lines()
            .filter_map(|line| {
                line.split_once(' ').map(|(name, reported)| (name.to_owned(), reported.to_owned()))
            })
            .collect();
        if !reported.is_empty() {
            return Ok(reported);
        }
    }
    Err("it needs python3".to_owned())
}
