//! Programs on this server that set class of service by themselves. Two that do so fight without end, so this agent does not begin.

use node_agent_netlink::Files;
use node_agent_qos::{DcbAgent, Reading};

/// Names of processes (`/proc/PID/comm`): the agent of open-lldp, and its forerunner.
const NAMES: [&str; 2] = ["lldpad", "dcbd"];
/// The control socket of lldpad, in the abstract namespace: seen also where its process is in another PID namespace.
const SOCKET: &str = "@/com/intel/lldpad";

/// The programs that run now. An agent in the NIC's firmware shows in the device's DCBX mode instead.
#[must_use]
pub fn find(files: &dyn Files) -> Reading<Vec<DcbAgent>> {
    let processes = match files.list("proc") {
        Ok(names) => names,
        Err(error) => return Reading::Unreadable(format!("/proc: {error}")),
    };
    let agent = |pid: u32| {
        // A process may end while it is looked at.
        let name = files.text(&format!("proc/{pid}/comm"))?;
        NAMES.contains(&name.as_str()).then_some(DcbAgent { name, pid: Some(pid) })
    };
    let pids = processes.iter().filter_map(|name| name.parse().ok());
    let mut found: Vec<DcbAgent> = pids.filter_map(agent).collect();
    found.sort();
    let sockets = files.text("proc/net/unix").unwrap_or_default();
    let listens = sockets.lines().any(|line| line.split_whitespace().last() == Some(SOCKET));
    if listens && !found.iter().any(|agent| agent.name == "lldpad") {
        found.push(DcbAgent { name: "lldpad".into(), pid: None });
    }
    Reading::Known(found)
}
