//! Units, as systemd itself reads and judges them.

use crate::tools::{repository, tool};

/// What `systemd-analyze security` gives a unit at most, times ten: 100 is no protection at all. What it gives changes with its version: the agent has
/// 5.8 of version 252 (Debian 12) and 6.0 of version 257 (Debian 13).
const EXPOSURE: [(&str, u32); 5] = [
    ("systemd/rail-controller.service", 20),
    ("systemd/rail-node-agent.service", 65),
    ("systemd/rail-switch-agent.service", 75),
    ("systemd/rail-switch-agent@.service", 20),
    ("slurm/railyard-slurm.service", 20),
];

#[test]
fn units_are_confined_as_their_work_allows() {
    for (unit, most) in EXPOSURE {
        let path = repository().join("deploy").join(unit).canonicalize().unwrap();
        let threshold = format!("--threshold={most}");
        let path = path.display().to_string();
        let arguments = ["security", "--no-pager", "--offline=true", &threshold, &path];
        let Some((passed, said)) = tool("systemd-analyze", &arguments) else { return };
        let verdict = said.lines().find(|line| line.contains("exposure level"));
        let Some(verdict) = verdict else {
            eprintln!("skipped: this systemd-analyze judges no files: {said}");
            return;
        };
        assert!(passed, "{verdict}; at most {most} of 100: {said}");
    }
}
