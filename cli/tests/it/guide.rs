//! The install guide, run line by line as a new administrator would: a home of its own, and nothing of a cluster there.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// One block of commands of the guide.
struct Block {
    text: String,
    /// It serves until the guide is over.
    goes_on: bool,
}

/// The blocks of commands in the order in which they are to be run.
fn blocks(guide: &str) -> Vec<Block> {
    let (mut found, mut block, mut goes_on) = (Vec::new(), None::<String>, false);
    for line in guide.lines() {
        match (&mut block, line) {
            (None, "<!-- goes on -->") => goes_on = true,
            (None, line) if line.starts_with("```sh ") => block = Some(String::new()),
            (Some(text), "```") => {
                found.push(Block { text: std::mem::take(text), goes_on });
                (block, goes_on) = (None, false);
            }
            (Some(text), line) => text.push_str(&format!("{line}\n")),
            (None, _) => {}
        }
    }
    found
}

/// What serves; ended with the test, with all that it started.
struct Serving(Vec<Child>);

impl Drop for Serving {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}

struct Reader {
    home: PathBuf,
    bin: PathBuf,
    port: String,
}

impl Reader {
    /// A machine that has nothing but the programs.
    fn shell(&self, text: &str) -> Command {
        let at = |path: &str| self.home.join(path).display().to_string();
        let mut text = text
            .replace("/var/lib/rail-controller", &at("controller"))
            .replace("/var/lib/rail-node-agent", &at("agent"))
            .replace("0.0.0.0:7443", "127.0.0.1:0")
            .replace("controller.example:7443", &format!("127.0.0.1:{}", self.port))
            .replace("controller.example", "127.0.0.1");
        if !rustix::process::geteuid().is_root() {
            text = text.replace(" --rank-uids 200000-265535", "");
        }
        let mut command = Command::new("bash");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin.display());
        command.args(["-euo", "pipefail", "-c", &text]).env_clear().current_dir(&self.home);
        command.env("HOME", &self.home).env("PATH", path).stdin(Stdio::null());
        command
    }

    /// The port that the controller has found.
    fn find_port(&mut self) {
        let file = self.home.join("controller/controller.json");
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "the controller has not begun to serve");
            let text = fs::read_to_string(&file).unwrap_or_default();
            let port = text
                .split("127.0.0.1:")
                .nth(1)
                .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            if let Some(port) = port.filter(|port| !port.is_empty()) {
                self.port = port;
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_install_guide_works_line_by_line() {
    let bin = Path::new(env!("CARGO_BIN_EXE_railctl")).parent().unwrap();
    if !["rail-controller", "rail-node-agent", "rail-engine"].iter().all(|program| bin.join(program).exists())
    {
        eprintln!("skipped: rail-controller, rail-node-agent and rail-engine are not built");
        return;
    }
    let home = tempfile::Builder::new().prefix("rg").tempdir_in("/tmp").unwrap();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/install.md");
    let blocks = blocks(&fs::read_to_string(guide).unwrap());
    assert!(blocks.len() >= 9 && blocks.iter().filter(|block| block.goes_on).count() == 2);
    let mut reader = Reader { home: home.path().into(), bin: bin.into(), port: String::new() };
    let mut serving = Serving(Vec::new());
    let mut said = String::new();
    for block in blocks {
        let mut command = reader.shell(&block.text);
        if block.goes_on {
            let log = |end: &str| {
                let number = serving.0.len();
                fs::File::create(home.path().join(format!("serving-{number}.{end}"))).unwrap()
            };
            let (out, err) = (log("out"), log("err"));
            serving.0.push(command.process_group(0).stdout(out).stderr(err).spawn().unwrap());
            if reader.port.is_empty() {
                reader.find_port();
            }
            continue;
        }
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let logs: Vec<String> = (0..serving.0.len())
            .filter_map(|number| fs::read_to_string(home.path().join(format!("serving-{number}.err"))).ok())
            .collect();
        assert!(output.status.success(), "{}\n{out}{err}\n{}", block.text, logs.join("\n---\n"));
        said.push_str(&out);
    }
    for expected in ["Role:", "Ready", "rank 0 of 2", "rank 1 of 2", "fabric/", "Submitted"] {
        assert!(said.contains(expected), "`{expected}` is not in what the guide printed:\n{said}");
    }
}
