//! J6: a cabling list of 125,000 servers through every command that reads or writes a fabric, with the real programs: how
//! long each takes, its peak memory, and how much text people get to read.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use integration_harness::{Controllers, binaries};
use serde_json::json;

use super::{Bench, site::Dice};
use crate::report::{Cpu, Goal, Line, Row, Sample};

const RAILS: u32 = 8;
/// Servers of a leaf.
const LEAF: u32 = 64;
/// Goals of every command.
const SECONDS: f64 = 10.0;
const GIB: f64 = 2.0;
/// Lines of a text that people read at most, and characters of each.
const LINES: usize = 400;
const WIDTH: usize = 240;

type Fault = String;

fn text(error: impl ToString) -> Fault {
    error.to_string()
}

/// How a site's names and ports are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Servers and ports are numbered, each server on the same port of all its leaves.
    InOrder,
    /// Neither servers' names nor ports follow an order.
    Irregular,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::InOrder => "names and ports in order",
            Self::Irregular => "no order in names and ports",
        }
    }
}

/// The files of one list.
struct Site {
    folder: tempfile::TempDir,
    servers: u32,
    kind: Kind,
}

/// What a command did.
struct Done {
    seconds: f64,
    rss_gib: f64,
    code: Option<i32>,
    out: PathBuf,
    err: PathBuf,
}

impl Site {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The list, and the same cables as LLDP facts.
    fn write(&self) -> Result<(), Fault> {
        let open = |name| File::create(self.file(name)).map(BufWriter::new).map_err(text);
        let (mut list, mut heard) = (open("site.csv")?, open("heard.csv")?);
        list.write_all(b"node,nic,leaf,port,speed\n").map_err(text)?;
        heard.write_all(b"node,nic,leaf,port\n").map_err(text)?;
        let mut dice = Dice::new(6);
        for leaf in 0..self.servers.div_ceil(LEAF) {
            let servers: Vec<String> =
                (leaf * LEAF..self.servers.min((leaf + 1) * LEAF)).map(|at| self.server(at)).collect();
            for rail in 0..RAILS {
                let mut ports: Vec<u32> = (1..=LEAF).collect();
                if self.kind == Kind::Irregular {
                    for at in (1..ports.len()).rev() {
                        ports.swap(at, dice.below(at as u32 + 1) as usize);
                    }
                }
                for (server, port) in servers.iter().zip(ports) {
                    let cable = format!("{server},mlx5_{rail},r{rail}-leaf{leaf:04},Ethernet{port}");
                    writeln!(list, "{cable},400G").and_then(|()| writeln!(heard, "{cable}")).map_err(text)?;
                }
            }
        }
        list.flush().and_then(|()| heard.flush()).map_err(text)
    }

    fn server(&self, at: u32) -> String {
        match self.kind {
            Kind::InOrder => format!("gpu{at:06}"),
            // One to one below 2^32.
            Kind::Irregular => format!("i-{:08x}q", at.wrapping_mul(0x9E37_79B1) ^ 0x5bd1_e995),
        }
    }

    /// One command of railctl, its output into files.
    fn run(&self, name: &str, args: &[&str]) -> Result<Done, Fault> {
        let (out, err) = (self.file(&format!("{name}.out")), self.file(&format!("{name}.err")));
        let open = |path: &Path| File::create(path).map_err(text);
        let mut command = Command::new(binaries::directory()?.join("railctl"));
        command.args(args).stdin(Stdio::null()).stdout(open(&out)?).stderr(open(&err)?);
        command.env("RAIL_CONFIG", self.file("config.yaml"));
        let begin = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("cannot start railctl: {error}"))?;
        let mut peak = 0;
        let status = loop {
            peak = peak.max(peak_kib(child.id()));
            if let Some(status) = child.try_wait().map_err(text)? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (seconds, rss_gib) = (begin.elapsed().as_secs_f64(), f64::from(peak) / f64::from(1 << 20));
        Ok(Done { seconds, rss_gib, code: status.code(), out, err })
    }
}

/// The most memory that a process has held so far, in KiB; 0 if it is not there.
fn peak_kib(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Lines of a file, the longest of them in characters, and bytes.
fn size(path: &Path) -> Result<(usize, usize, usize), Fault> {
    let text = fs::read_to_string(path).map_err(text)?;
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    Ok((text.lines().count(), widest, text.len()))
}

fn reported(row: &Row, site: &Site, what: &str, done: &Done, cpu: &Cpu, to_read: bool) -> Result<(), Fault> {
    let case = format!("{what}, {} servers, {}", site.servers, site.kind.words());
    if done.code != Some(0) {
        let said = fs::read_to_string(&done.err).unwrap_or_default();
        row.failed(
            &case,
            &format!("exit code {:?}: {}", done.code, said.chars().take(400).collect::<String>()),
        );
        return Ok(());
    }
    let (lines, widest, bytes) = size(&done.out)?;
    let (said, said_widest, _) = size(&done.err)?;
    let peers = json!({"lines": lines, "widest": widest, "bytes": bytes, "said_lines": said, "said_widest": said_widest});
    let sample = Sample::new(vec![done.seconds]);
    row.line(&Line {
        case: &format!("{case}: time"),
        value: done.seconds,
        unit: "s",
        goal: Goal::AtMost(SECONDS),
        sample: &sample,
        cpu: cpu.cores(),
        peers: peers.clone(),
    });
    let sample = Sample::new(vec![done.rss_gib]);
    row.line(&Line {
        case: &format!("{case}: peak memory"),
        value: done.rss_gib,
        unit: "GiB",
        goal: Goal::AtMost(GIB),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({}),
    });
    if to_read && (lines.max(said) > LINES || widest.max(said_widest) > WIDTH) {
        row.failed(
            &format!("{case}: text"),
            &format!("more than {LINES} lines of {WIDTH} characters: {peers}"),
        );
    }
    Ok(())
}

/// J6: every command on both kinds of sites.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn documents(row: &Row, bench: &Bench) -> Result<(), String> {
    let servers = if bench.quick { 12_500 } else { 125_000 };
    for kind in [Kind::InOrder, Kind::Irregular] {
        let site = Site { folder: tempfile::tempdir().map_err(text)?, servers, kind };
        site.write()?;
        through(row, &site)?;
    }
    Ok(())
}

fn through(row: &Row, site: &Site) -> Result<(), Fault> {
    let name = |path: PathBuf| path.display().to_string();
    let (list, heard, document) =
        (name(site.file("site.csv")), name(site.file("heard.csv")), name(site.file("import.out")));
    let document = document.as_str();
    let cpu = Cpu::start();
    let done = site.run("import", &["fabric", "import", &list])?;
    reported(row, site, "fabric import", &done, &cpu, false)?;
    // Commands recognise YAML by the name or the text: this one has no ending that says JSON.
    let done = site.run("check", &["fabric", "check", document])?;
    reported(row, site, "fabric check", &done, &cpu, true)?;
    let said = fs::read_to_string(&done.out).map_err(text)?;
    let counts = format!("{} servers, {} cables", site.servers, site.servers * RAILS);
    if !said.contains(&counts) {
        row.failed("fabric check", &format!("it does not say {counts}: {said}"));
    }
    let done = site.run("show", &["topology", "show", "-f", document])?;
    reported(row, site, "topology show", &done, &cpu, true)?;
    for format in ["slurm-conf", "slurm-yaml", "kueue", "volcano"] {
        let done = site.run("export", &["topology", "export", "--format", format, "-f", document])?;
        reported(row, site, &format!("topology export to {format}"), &done, &cpu, false)?;
    }
    let done = site.run("verify", &["topology", "verify", "--ports", "-f", document, "--lldp", &heard])?;
    reported(row, site, "topology verify", &done, &cpu, true)?;
    applied(row, site, document)
}

/// Applied to a controller with an embedded store, twice: the second time it reads its own.
fn applied(row: &Row, site: &Site, document: &str) -> Result<(), Fault> {
    let mut controllers = Controllers::start(1, &[])?;
    let folder = controllers.folder(0);
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, cert, key, address) =
        (file("ca.pem"), file("admin.pem"), file("admin.key"), controllers.addresses());
    let admin = ["--controller", &address, "--ca", &ca, "--cert", &cert, "--key", &key];
    let cpu = Cpu::start();
    for what in ["apply", "apply again after a restart"] {
        let done = site.run("apply", &[&admin[..], &["apply", "-f", document]].concat())?;
        reported(row, site, what, &done, &cpu, true)?;
        let peak = controllers.pid(0).map_or(0, peak_kib);
        let gib = f64::from(peak) / f64::from(1 << 20);
        let sample = Sample::new(vec![gib]);
        row.line(&Line {
            case: &format!(
                "{what}, {} servers, {}: peak memory of the controller",
                site.servers,
                site.kind.words()
            ),
            value: gib,
            unit: "GiB",
            goal: Goal::AtMost(GIB),
            sample: &sample,
            cpu: cpu.cores(),
            peers: json!({}),
        });
        controllers.restart(0)?;
    }
    let done = site.run("get", &[&admin[..], &["get", "fabric"]].concat())?;
    reported(row, site, "get fabric", &done, &cpu, true)
}
