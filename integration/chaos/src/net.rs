//! Where everybody is: a network namespace for each part on one bridge, and nftables rules for what goes wrong between them.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::plan::Part;

/// The address of the namespace in which callers are.
pub const HUB: &str = "10.77.0.1";
/// Rails of a node.
pub const RAILS: usize = 2;

/// Where a part is. Roles have been resolved.
pub fn address(part: Part) -> String {
    match part {
        Part::Etcd(n) => format!("10.77.1.{}", n + 1),
        Part::Controller(n) => format!("10.77.2.{}", n + 1),
        Part::Agent(n) => format!("10.77.3.{}", n + 1),
        Part::Leader | Part::EtcdLeader => String::new(),
    }
}

/// A node's address on a rail.
pub fn rail_address(node: usize, rail: usize) -> String {
    format!("10.{}.3.{}", 80 + rail, node + 1)
}

/// All addresses of a part.
fn addresses(part: Part) -> Vec<String> {
    let mut all = vec![address(part)];
    if let Part::Agent(node) = part {
        all.extend((0..RAILS).map(|rail| rail_address(node, rail)));
    }
    all
}

/// The file by which a part's namespace is entered.
pub fn namespace(part: Part) -> PathBuf {
    Path::new("/run/netns").join(part.to_string())
}

/// A program in a part's namespace; its process is the program's own.
pub fn inside(part: Part, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", namespace(part).display())).arg("--").arg(program);
    command
}

/// Runs a program with this input.
///
/// # Errors
/// What it said.
pub fn feed(command: &mut Command, input: &str) -> Result<(), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Makes the bridge and all namespaces, in the network namespace of this process.
///
/// # Errors
/// What `ip` said.
pub fn lay(parts: &[Part]) -> Result<(), String> {
    let hub = format!(
        "link set lo up\nlink add hub type bridge\naddr add {HUB}/16 dev hub\nlink set hub up\n{}",
        parts.iter().map(|part| format!("netns add {part}\n")).collect::<String>()
    );
    feed(Command::new("ip").args(["-batch", "-"]), &hub)?;
    let links: String = parts
        .iter()
        .map(|part| {
            format!(
                "link add v-{part} type veth peer name eth0 netns {part}\nlink set v-{part} master hub up\n"
            )
        })
        .collect();
    feed(Command::new("ip").args(["-batch", "-"]), &links)?;
    for part in parts {
        let own: String =
            addresses(*part).iter().map(|own| format!("addr add {own}/16 dev eth0\n")).collect();
        let lines = format!("link set lo up\n{own}link set eth0 up\n");
        feed(Command::new("ip").args(["-n", &part.to_string(), "-batch", "-"]), &lines)?;
    }
    Ok(())
}

/// What is to happen to packets.
#[derive(Debug, Clone, Copy)]
pub enum Verdict {
    /// Both ways are shut.
    Shut,
    /// What comes in is dropped.
    Deaf,
    /// What comes in is dropped with this probability in percent.
    Lossy(u64),
}

/// The rules of one fault, at one of the parts that it meets.
fn rules(fault: usize, from: &[Part], verdict: Verdict) -> String {
    let far: Vec<String> = from.iter().flat_map(|part| addresses(*part)).collect();
    let far = far.join(", ");
    let chain = |hook: &str, side: &str, how: &str| {
        format!(
            "  chain {hook} {{\n    type filter hook {hook} priority 0;\n    ip {side} {{ {far} }} {how}\n  }}\n"
        )
    };
    let chains = match verdict {
        Verdict::Shut => chain("input", "saddr", "drop") + &chain("output", "daddr", "drop"),
        Verdict::Deaf => chain("input", "saddr", "drop"),
        Verdict::Lossy(percent) => {
            chain("input", "saddr", &format!("numgen random mod 100 < {percent} drop"))
        }
    };
    format!("table inet f{fault} {{\n{chains}}}\n")
}

/// Lays a fault's rules at each of `at`.
///
/// # Errors
/// What `nft` said.
pub fn hurt(nft: &Path, fault: usize, at: &[Part], from: &[Part], verdict: Verdict) -> Result<(), String> {
    at.iter().try_for_each(|part| {
        let others: Vec<Part> = from.iter().copied().filter(|other| other != part).collect();
        if others.is_empty() {
            return Ok(());
        }
        feed(inside(*part, nft).args(["-f", "-"]), &rules(fault, &others, verdict))
    })
}

/// Takes the rules of a fault away at these parts; gives what went wrong.
pub fn heal(nft: &Path, fault: usize, at: &[Part]) -> Vec<String> {
    let delete = |part: &Part| {
        let rules = format!("table inet f{fault}\ndelete table inet f{fault}\n");
        feed(inside(*part, nft).args(["-f", "-"]), &rules).err()
    };
    at.iter().filter_map(delete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_cut_off_with_its_rails() {
        let text = rules(7, &[Part::Agent(4), Part::Controller(0)], Verdict::Shut);
        assert!(text.contains("table inet f7"), "{text}");
        assert!(text.contains("ip saddr { 10.77.3.5, 10.80.3.5, 10.81.3.5, 10.77.2.1 } drop"), "{text}");
        assert!(text.contains("ip daddr { 10.77.3.5, 10.80.3.5, 10.81.3.5, 10.77.2.1 } drop"), "{text}");
        let lossy = rules(7, &[Part::Etcd(0)], Verdict::Lossy(20));
        assert!(lossy.contains("ip saddr { 10.77.1.1 } numgen random mod 100 < 20 drop"), "{lossy}");
        assert!(!lossy.contains("output"), "{lossy}");
    }
}
