//! What contradicts itself in the switches' end of a profile.

use thiserror::Error;

use crate::{
    spec::ProfileSpec,
    switch::{Class, EcnThresholds, VXLAN_BYTES},
    words::{Dscp, Priority},
};

/// The smallest MTU of a switch's port that carries RoCE packets of 4096 bytes.
const MTU_MIN: u32 = 4192;
/// The largest that switches of this kind carry.
const MTU_MAX: u32 = 9416;
/// No queue of a switch gets as long, in bytes: what begins there never begins (profiles of shipped switches have 266,338,050).
pub const KMAX_MAX: u64 = 64 * 1024 * 1024;
/// Speeds of ports that there are, in Gbit/s.
pub const SPEEDS: [u32; 10] = [1, 10, 25, 40, 50, 100, 200, 400, 800, 1600];

/// What is wrong with a field of the switches' end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwitchFlaw {
    /// No name, or one that no configuration can hold as it is.
    #[error("classes: name {0:?} must be 1 to 32 letters, digits, '-' or '_'")]
    ClassName(String),
    /// Two classes with one name.
    #[error("classes: '{0}' is there twice")]
    ClassTwice(String),
    /// Nothing would be in it.
    #[error("classes.{0}: has no DSCP, so nothing is in it")]
    ClassEmpty(String),
    /// Packets of one DSCP in two classes.
    #[error("classes.{class}: DSCP {dscp} is that of {other} as well")]
    DscpTwice {
        /// The class that is named later.
        class: String,
        /// The DSCP that both have.
        dscp: Dscp,
        /// What has it before.
        other: String,
    },
    /// Two classes of one priority are one class.
    #[error("classes.{class}: priority {priority} is that of {other} as well")]
    PriorityTwice {
        /// The class that is named later.
        class: String,
        /// The priority that both have.
        priority: Priority,
        /// What has it before.
        other: String,
    },
    /// Packets would be lost that must not be.
    #[error("classes.{class}: is lossless, but pfc has not its priority {priority}")]
    ClassWithoutPfc {
        /// The lossless class.
        class: String,
        /// Its priority.
        priority: Priority,
    },
    /// It would wait behind others in the NIC.
    #[error("prioTc[{other}]: priority {other} shares traffic class {tc} with class {class}")]
    ClassShared {
        /// The class.
        class: String,
        /// The priority that is in its traffic class.
        other: Priority,
        /// The traffic class.
        tc: u8,
    },
    /// A port that carries no RoCE packets.
    #[error("switch.mtu: {0} is not from {MTU_MIN} to {MTU_MAX}")]
    Mtu(u32),
    /// What servers send does not fit.
    #[error(
        "switch.mtu: {switch} is less than the servers' mtu {nic} and {extra} bytes around it (VXLAN); packets would be dropped"
    )]
    MtuInside {
        /// MTU of the switches' ports.
        switch: u32,
        /// MTU of the servers' ports.
        nic: u32,
        /// Bytes around a packet between switches.
        extra: u32,
    },
    /// No power of 2 that switches take.
    #[error("switch.{field}: {found} is not from -8 to 7 (a power of 2)")]
    Alpha {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: i8,
    },
    /// A number of packets out of 100.
    #[error("switch.smallPacketPercent: {0} is more than 100")]
    SmallPackets(u8),
    /// No packet of RDMA is as small or as large.
    #[error("switch.losslessMtu: {0} is not from 1024 to {MTU_MAX}")]
    LosslessMtu(u32),
    /// Nothing has this speed.
    #[error("switch.ecn[{0}]: there are no ports of {0} Gbit/s")]
    Speed(u32),
    /// Marking that begins after it should be complete, or at once.
    #[error("switch.ecn[{speed}]: kmin {kmin} must be more than 0 and less than kmax {kmax}")]
    EcnOrder {
        /// Speed in Gbit/s.
        speed: u32,
        /// Where marking begins.
        kmin: u64,
        /// Where it is complete.
        kmax: u64,
    },
    /// Marking that never happens.
    #[error(
        "switch.ecn[{speed}]: kmin {kmin}, kmax {kmax}, pmax {pmax} % never marks: it is a placeholder that switches ECN off"
    )]
    EcnOff {
        /// Speed in Gbit/s.
        speed: u32,
        /// Where marking begins.
        kmin: u64,
        /// Where it is complete.
        kmax: u64,
        /// The share at `kmax`.
        pmax: u8,
    },
    /// More than all packets.
    #[error("switch.ecn[{speed}]: pmax {found} % is more than 100")]
    Probability {
        /// Speed in Gbit/s.
        speed: u32,
        /// The share.
        found: u8,
    },
    /// Pauses would come before marks, and nobody would slow down.
    #[error(
        "switch.ecn[{speed}]: kmax {kmax} is not below the length of {pause} bytes at which the group pauses"
    )]
    PauseBeforeEcn {
        /// Speed in Gbit/s.
        speed: u32,
        /// Where marking is complete.
        kmax: u64,
        /// Where the group pauses.
        pause: u64,
    },
    /// A time that switches do not take.
    #[error("switch.watchdog.{field}: {found} ms is not from {min} to {max}")]
    WatchdogTime {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: u32,
        /// The least.
        min: u32,
        /// The greatest.
        max: u32,
    },
    /// A storm that is over before anybody looks.
    #[error("switch.watchdog.detectionMs: {detection} ms is shorter than pollMs {poll}")]
    WatchdogPoll {
        /// Time of detection.
        detection: u32,
        /// Time between looks.
        poll: u32,
    },
    /// An end of a storm that nobody has looked for: SONiC refuses it.
    #[error("switch.watchdog.restorationMs: {restoration} ms is shorter than pollMs {poll}")]
    WatchdogRestores {
        /// Time of restoration.
        restoration: u32,
        /// Time between looks.
        poll: u32,
    },
}

/// Every flaw, in the order of the fields.
pub(crate) fn check(spec: &ProfileSpec) -> Vec<SwitchFlaw> {
    let mut flaws = Vec::new();
    classes(spec, &mut flaws);
    buffers(spec, &mut flaws);
    for (speed, ecn) in &spec.switch.ecn {
        if !SPEEDS.contains(speed) {
            flaws.push(SwitchFlaw::Speed(*speed));
        }
        flaws.extend(ecn_flaws(*speed, *ecn));
        flaws.extend(
            spec.switch
                .pause_bytes
                .filter(|pause| ecn.kmax >= *pause)
                .map(|pause| SwitchFlaw::PauseBeforeEcn { speed: *speed, kmax: ecn.kmax, pause }),
        );
    }
    watchdog(spec, &mut flaws);
    flaws
}

/// What is wrong with thresholds of themselves, whatever the buffer.
#[must_use]
pub fn ecn_flaws(speed: u32, ecn: EcnThresholds) -> Vec<SwitchFlaw> {
    let EcnThresholds { kmin, kmax, pmax } = ecn;
    let mut flaws = Vec::new();
    if pmax == 0 || kmax > KMAX_MAX {
        flaws.push(SwitchFlaw::EcnOff { speed, kmin, kmax, pmax });
    } else if kmin == 0 || kmin >= kmax {
        flaws.push(SwitchFlaw::EcnOrder { speed, kmin, kmax });
    }
    if pmax > 100 {
        flaws.push(SwitchFlaw::Probability { speed, found: pmax });
    }
    flaws
}

/// Classes beside data and CNPs.
fn classes(spec: &ProfileSpec, flaws: &mut Vec<SwitchFlaw>) {
    let mut dscps = vec![(spec.data_dscp, "data".to_owned()), (spec.cnp_dscp, "CNPs".to_owned())];
    let mut priorities =
        vec![(spec.lossless_priority, "data".to_owned()), (spec.cnp_priority, "CNPs".to_owned())];
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    for (at, class) in spec.classes.iter().enumerate() {
        let name = &class.name;
        if name.is_empty() || name.len() > 32 || !name.chars().all(fine) {
            flaws.push(SwitchFlaw::ClassName(name.clone()));
        }
        if spec.classes[..at].iter().any(|other| other.name == *name) {
            flaws.push(SwitchFlaw::ClassTwice(name.clone()));
        }
        if class.dscps.is_empty() {
            flaws.push(SwitchFlaw::ClassEmpty(name.clone()));
        }
        for dscp in &class.dscps {
            let mapped = spec.dscp_map.get(dscp).filter(|priority| **priority != class.priority);
            let other = dscps.iter().find(|(one, _)| one == dscp).map(|(_, other)| other.clone());
            let other = other.or_else(|| mapped.map(|priority| format!("dscpMap (priority {priority})")));
            let class = name.clone();
            flaws.extend(other.map(|other| SwitchFlaw::DscpTwice { class, dscp: *dscp, other }));
            dscps.push((*dscp, name.clone()));
        }
        let other = priorities.iter().find(|(one, _)| *one == class.priority);
        flaws.extend(other.map(|(priority, other)| SwitchFlaw::PriorityTwice {
            class: name.clone(),
            priority: *priority,
            other: other.clone(),
        }));
        priorities.push((class.priority, name.clone()));
        apart(spec, class, flaws);
    }
}

/// Whether a class has its flow control, and its traffic class for itself.
fn apart(spec: &ProfileSpec, class: &Class, flaws: &mut Vec<SwitchFlaw>) {
    let (name, priority) = (&class.name, class.priority);
    if class.lossless && !spec.pfc.contains(priority) {
        flaws.push(SwitchFlaw::ClassWithoutPfc { class: name.clone(), priority });
    }
    let tc = spec.prio_tc[priority.index()];
    let others = Priority::all().filter(|other| *other != priority && spec.prio_tc[other.index()] == tc);
    flaws.extend(others.map(|other| SwitchFlaw::ClassShared { class: name.clone(), other, tc }));
}

fn buffers(spec: &ProfileSpec, flaws: &mut Vec<SwitchFlaw>) {
    let end = &spec.switch;
    if !(MTU_MIN..=MTU_MAX).contains(&end.mtu) {
        flaws.push(SwitchFlaw::Mtu(end.mtu));
    }
    let extra = if end.vxlan { VXLAN_BYTES } else { 0 };
    if end.mtu < spec.mtu.saturating_add(extra) {
        flaws.push(SwitchFlaw::MtuInside { switch: end.mtu, nic: spec.mtu, extra });
    }
    for (field, found) in [("losslessAlpha", end.lossless_alpha), ("lossyAlpha", end.lossy_alpha)] {
        if !(-8..=7).contains(&found) {
            flaws.push(SwitchFlaw::Alpha { field, found });
        }
    }
    if !(1024..=MTU_MAX).contains(&end.lossless_mtu) {
        flaws.push(SwitchFlaw::LosslessMtu(end.lossless_mtu));
    }
    if end.small_packet_percent > 100 {
        flaws.push(SwitchFlaw::SmallPackets(end.small_packet_percent));
    }
}

fn watchdog(spec: &ProfileSpec, flaws: &mut Vec<SwitchFlaw>) {
    let dog = spec.switch.watchdog;
    let times = [
        ("detectionMs", dog.detection_ms, 100, 5000),
        ("restorationMs", dog.restoration_ms, 100, 60_000),
        ("pollMs", dog.poll_ms, 100, 1000),
    ];
    for (field, found, min, max) in times {
        if !(min..=max).contains(&found) {
            flaws.push(SwitchFlaw::WatchdogTime { field, found, min, max });
        }
    }
    if dog.detection_ms < dog.poll_ms {
        flaws.push(SwitchFlaw::WatchdogPoll { detection: dog.detection_ms, poll: dog.poll_ms });
    }
    if dog.restoration_ms < dog.poll_ms {
        flaws.push(SwitchFlaw::WatchdogRestores { restoration: dog.restoration_ms, poll: dog.poll_ms });
    }
}
