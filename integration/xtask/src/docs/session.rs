//! The blocks of one page, run as a reader would: one shell, a home of its own, and nothing of it left in the end.
//!
//! A keeper, a shell in a session of its own, holds a pipe from this process. When the page is over, or this process is gone for
//! whatever reason, the pipe ends, and the keeper ends what the page has started and removes its home.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::markdown::{Block, Page};
use crate::process::{self, Result};

/// Longest time for one page.
const LIMIT: Duration = Duration::from_secs(120);
/// Lines of output that are shown of a page that fails.
const SHOWN: usize = 25;

/// Where the system's programs are.
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What ends everything: the page's process group, then local clusters, then whatever still names the home.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
if [ -s "$HOME/group" ]; then
    kill -TERM -- "-$(cat "$HOME/group")" 2> /dev/null && sleep 0.3
    kill -KILL -- "-$(cat "$HOME/group")" 2> /dev/null
fi
for folder in "$XDG_STATE_HOME"/railyard/dev/*/; do
    [ -d "$folder" ] && railctl dev down --name "$(basename "$folder")"
done
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [ "$pid" = $$ ] && continue
    { tr "\0" "\n" < "$process/environ" | grep -qx "HOME=$HOME" && kill -KILL "$pid"; } 2> /dev/null
done
rm -rf "$HOME"
"#;

/// A page that was run.
pub struct Ran {
    /// Blocks that were run.
    pub blocks: usize,
    /// How long they took.
    pub took: Duration,
}

/// Runs a page's blocks with the programs of these folders; an error says which block failed and what it printed.
///
/// # Errors
/// A block fails, or all of them take longer than two minutes.
pub fn run(page: &Page, blocks: &[Block], bin: &[PathBuf], logs: &Path) -> Result<Ran> {
    let begin = Instant::now();
    let blocks: Vec<&Block> = blocks.iter().filter(|block| block.runs()).collect();
    fs::create_dir_all(logs)?;
    let log = logs.join(page.path.replace(['/', '.'], "-") + ".log");
    let home = Home::make(bin, &log)?;
    fs::write(home.path.join("page.sh"), script(&blocks))?;
    let output = fs::File::create(&log)?;
    let mut shell = Command::new("bash");
    home.environment(&mut shell, bin);
    shell.arg(home.path.join("page.sh")).current_dir(home.path.join("work")).process_group(0);
    let mut child = shell.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output).spawn()?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if begin.elapsed() > LIMIT => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    drop(home);
    // The keeper has ended it.
    child.wait()?;
    if status.is_some_and(|status| status.success()) {
        return Ok(Ran { blocks: blocks.len(), took: begin.elapsed() });
    }
    let printed = fs::read_to_string(&log)?;
    let line = printed.rmatches("#### line ").count();
    let at =
        printed.rsplit_once("#### line ").map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned());
    let last: Vec<&str> = printed.lines().rev().take(SHOWN).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    let how = status.map_or_else(|| format!("took longer than {} s", LIMIT.as_secs()), |s| s.to_string());
    Err(format!("{}:{}: block {line} {how}\n{}", page.path, at.unwrap_or_default(), last.join("\n")).into())
}

/// The shell's program: every block after a line that says where it stands.
fn script(blocks: &[&Block]) -> String {
    let mut text = String::from("set -euo pipefail\necho $$ > \"$HOME/group\"\n");
    for block in blocks {
        text.push_str(&format!("echo '#### line {}'\n{}", block.line, block.text));
    }
    text
}

/// A home that nobody else has, and the keeper that removes it.
struct Home {
    path: PathBuf,
    keeper: Child,
}

impl Home {
    /// Makes it. Its path is short: sockets are in it.
    fn make(bin: &[PathBuf], log: &Path) -> Result<Self> {
        let mut mktemp = Command::new("mktemp");
        mktemp.args(["-d", "/tmp/rdXXXXXX"]);
        let path = PathBuf::from(String::from_utf8(process::capture(mktemp)?.stdout)?.trim());
        for folder in ["work", "run"] {
            fs::create_dir_all(path.join(folder))?;
        }
        // What a job reads must be readable for the user that it gets.
        for folder in [path.clone(), path.join("work")] {
            fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        fs::set_permissions(path.join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(process::root().join("deploy")).arg(path.join("work/deploy"));
        process::run_quiet(&mut copy)?;
        let mut keeper = Command::new("setsid");
        environment(&mut keeper, &path, bin);
        keeper.args(["bash", "-c", KEEPER]).stdin(Stdio::piped()).current_dir("/");
        let ending = fs::File::create(log.with_extension("ending"))?;
        let keeper = keeper.stderr(ending.try_clone()?).stdout(ending).spawn()?;
        Ok(Self { path, keeper })
    }

    fn environment(&self, command: &mut Command, bin: &[PathBuf]) {
        environment(command, &self.path, bin);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A reader's environment: the programs, a home, and nothing of whoever runs this.
fn environment(command: &mut Command, home: &Path, bin: &[PathBuf]) {
    command.env_clear().env("HOME", home).env("LANG", "C.UTF-8").env("USER", "reader");
    let ours = bin.iter().map(|folder| folder.display().to_string());
    let path: Vec<String> = ours.chain([SYSTEM.to_owned()]).collect();
    command.env("PATH", path.join(":"));
    command.env("XDG_RUNTIME_DIR", home.join("run"));
    for (name, folder) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CACHE_HOME", "cache"),
    ] {
        command.env(name, home.join(folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::markdown::Fate;

    fn run_text(text: &str) -> (Result<Ran>, PathBuf) {
        let logs = std::env::temp_dir().join(format!("rail-docs-{}-{}", std::process::id(), text.len()));
        let page = Page { path: "a.md".into(), text: String::new() };
        let block = |text: &str| Block { line: 7, fate: Fate::Run, text: text.into() };
        let ran = run(&page, &[block("name=x\n"), block(text)], &["/usr/bin".into()], &logs);
        (ran, logs)
    }

    #[test]
    fn a_page_is_one_shell_and_leaves_nothing() {
        let text = "test $name = x && test -d deploy/jobs\nsleep 300 &\necho $! > /tmp/rail-docs-test-$PPID\necho $HOME\n";
        let (ran, logs) = run_text(text);
        assert_eq!(ran.unwrap().blocks, 2);
        let printed = fs::read_to_string(logs.join("a-md.log")).unwrap();
        let home = printed.lines().last().unwrap();
        assert!(home.starts_with("/tmp/rd") && !Path::new(home).exists(), "{home}");
        let reported = PathBuf::from(format!("/tmp/rail-docs-test-{}", std::process::id()));
        let sleeper = fs::read_to_string(&reported).unwrap();
        assert!(!Path::new("/proc").join(sleeper.trim()).join("root").exists(), "{sleeper}");
        fs::remove_file(reported).unwrap();
        fs::remove_dir_all(logs).unwrap();
    }

    #[test]
    fn a_block_that_fails_is_named_with_what_it_printed() {
        let (ran, logs) = run_text("echo said; false; echo never\n");
        let error = ran.err().unwrap().to_string();
        assert!(error.starts_with("a.md:7: block 2 ") && error.ends_with("said"), "{error}");
        fs::remove_dir_all(logs).unwrap();
    }
}
