//! `cargo xtask demo`: the main job on a fresh machine, from a job file to a verified all-reduce over every rail.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::process::{self, Result};

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Servers of the cluster.
    #[arg(long, default_value_t = 4)]
    nodes: u32,
    /// Rails of each server.
    #[arg(long, default_value_t = 4)]
    rails: u32,
    /// Rails on loopback addresses even where network namespaces could be made.
    #[arg(long)]
    loopback: bool,
    /// Line rate of each rail, where there are namespaces.
    #[arg(long, default_value = "400mbit")]
    rail_rate: String,
}

/// A running local cluster. Dropped, or its process killed, it takes everything with it.
struct Cluster {
    bin: PathBuf,
    dir: PathBuf,
    /// Its standard input is the guard's leash: the guard ends the cluster when it closes.
    up: Child,
}

impl Cluster {
    fn up(bin: &Path, args: &Args, netns: bool) -> Result<Self> {
        // The guard removes this folder, so nothing may be put beside it.
        let dir = std::env::temp_dir().join(format!("railyard-demo-{}", std::process::id()));
        let mut up = railctl(bin, &dir);
        up.args([
            "dev",
            "up",
            "--owner-stdin",
            "--gpus",
            "4",
            "--name",
            &format!("demo{}", std::process::id()),
        ]);
        up.args(["--nodes", &args.nodes.to_string(), "--rails", &args.rails.to_string(), "--dir"]).arg(&dir);
        if netns {
            up.args(["--netns", "--rail-rate", &args.rail_rate]);
        }
        let up = up.stdin(Stdio::piped()).spawn()?;
        let mut cluster = Self { bin: bin.to_owned(), dir, up };
        let status = cluster.up.wait_keeping_stdin()?;
        if status.success() { Ok(cluster) } else { Err(format!("railctl dev up ended with {status}").into()) }
    }

    fn railctl(&self, args: &[&str]) -> Command {
        let mut command = railctl(&self.bin, &self.dir);
        command.args(args).env("RAIL_DIE_WITH_PARENT", "1");
        command
    }

    fn down(&mut self) -> Result<()> {
        let mut down =
            self.railctl(&["dev", "down", "--name", &format!("demo{}", std::process::id()), "--dir"]);
        process::run_quiet(down.arg(&self.dir))?;
        drop(self.up.stdin.take());
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.dir.exists()
            && let Err(error) = self.down()
        {
            eprintln!("while taking the cluster down: {error}");
        }
    }
}

/// `Child::wait` closes the child's standard input first; the guard must not see that.
trait WaitKeepingStdin {
    fn wait_keeping_stdin(&mut self) -> Result<std::process::ExitStatus>;
}

impl WaitKeepingStdin for Child {
    fn wait_keeping_stdin(&mut self) -> Result<std::process::ExitStatus> {
        let stdin = self.stdin.take();
        let status = self.wait();
        self.stdin = stdin;
        Ok(status?)
    }
}

fn railctl(bin: &Path, dir: &Path) -> Command {
    let mut command = Command::new(bin.join("railctl"));
    command.env("RAIL_CONFIG", dir.join("config.yaml")).env("RAIL_BIN_DIR", bin).current_dir(process::root());
    command
}

/// Runs the demo; exit 0 means that every element of every result was right.
///
/// # Errors
/// Something cannot be built, the cluster does not come up, or the result is not right.
pub fn run(args: &Args) -> Result<ExitCode> {
    println!("==> building (the first time: about half an hour on two cores)");
    let bin = process::build_release()?;
    let begin = Instant::now();
    let netns = !args.loopback && process::may_make_namespaces();
    let rails = if netns {
        format!("in their own network namespaces, {} each", args.rail_rate)
    } else {
        "on loopback addresses, unshaped (namespaces and shaping need root, ip and tc)".to_owned()
    };
    println!("==> {} servers with 4 GPUs and {} rails {rails}", args.nodes, args.rails);
    let mut cluster = Cluster::up(&bin, args, netns)?;
    println!(
        "==> railctl submit deploy/jobs/all-reduce.yaml --wait ({:.1} s)",
        begin.elapsed().as_secs_f32()
    );
    process::run(cluster.railctl(&["submit", "deploy/jobs/all-reduce.yaml", "--name", "demo", "--wait"]))?;
    let output = process::capture(cluster.railctl(&["get", "jobs", "demo", "-o", "json"]))?;
    let job: Value = serde_json::from_slice(&output.stdout)?;
    let verdict = report(&job, args.rails);
    cluster.down()?;
    println!("==> {:.1} s", begin.elapsed().as_secs_f32());
    verdict?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the placement and what was measured; an error unless all of it is as promised.
fn report(job: &Value, rails: u32) -> Result<()> {
    let placement = &job["status"]["placement"];
    println!("\n{:>4}  {:<8} {:<8} {:<10} {:>4}  {:<12}", "RANK", "NODE", "GPUS", "NIC", "RAIL", "LEAF");
    for rank in list(&placement["ranks"]) {
        let gpus: Vec<String> = list(&rank["gpus"]).iter().map(Value::to_string).collect();
        let (node, nic, leaf) = (text(&rank["node"]), text(&rank["nic"]), text(&rank["leaf"]));
        let (number, rail) = (number(&rank["rank"]), number(&rank["rail"]));
        println!("{number:>4}  {node:<8} {:<8} {nic:<10} {rail:>4}  {leaf:<12}", gpus.join(","));
    }
    let result = &job["status"]["result"];
    println!("\n{:>4}  {:>14}  {:>14}", "RAIL", "SENT BYTES", "RECEIVED BYTES");
    let mut sent = Vec::new();
    for rail in list(&result["rails"]) {
        let (tx, rx) = (number(&rail["txBytes"]), number(&rail["rxBytes"]));
        println!("{:>4}  {tx:>14}  {rx:>14}", number(&rail["rail"]));
        sent.push(tx);
    }
    let (least, most) =
        (sent.iter().copied().fold(f64::MAX, f64::min), sent.iter().copied().fold(0.0, f64::max));
    let spread = if most > 0.0 { 100.0 * (most - least) / most } else { 100.0 };
    println!("\nbalance        rails differ by {spread:.2} % (limit 5 %)");
    println!(
        "bus bandwidth  {:.3} Gbit/s ({:.1} ms median for {} bytes)",
        number(&result["busBwGbps"]),
        number(&result["timeUsMedian"]) / 1e3,
        number(&result["bytes"])
    );
    let verified = result["verified"] == Value::Bool(true);
    println!("result         {}", if verified { "verified" } else { "NOT verified" });
    match (verified, sent.len() == rails as usize, spread <= 5.0) {
        (true, true, true) => Ok(()),
        (false, ..) => Err("the result was not verified".into()),
        (_, false, _) => Err(format!("{} of {rails} rails were used", sent.len()).into()),
        (_, _, false) => Err(format!("the rails' bytes differ by {spread:.2} %").into()),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// Canonical JSON writes 64-bit integers as strings and leaves zeros out.
fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok())).unwrap_or(0.0)
}
