//! Fabrics that are right in other ways: other classes, thresholds, speeds, ASICs, names.

use proto_profile::{
    Class, Dcqcn, EcnThresholds, ProfileError, ProfileSpec, Purpose, QosProfile, SwitchEnd, Watchdog,
    WatchdogAction,
    words::{Dscp, Priority, PrioritySet, Tsa},
};
use proto_random::Random;

use crate::{asic::Asic, model::Nos, sample::Shape, state::BufferModel};

/// A profile, a fabric, and who works its headroom out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The profile.
    pub profile: QosProfile,
    /// The fabric.
    pub shape: Shape,
    /// The model of buffers.
    pub model: BufferModel,
}

/// Numbers in a random order.
fn shuffled(random: &mut Random, numbers: std::ops::Range<u8>) -> Vec<u8> {
    let mut all: Vec<u8> = numbers.collect();
    for at in (1..all.len()).rev() {
        all.swap(at, random.index(at + 1));
    }
    all
}

/// One of these.
fn one_of<T: Copy>(random: &mut Random, all: &[T], or: T) -> T {
    all.get(random.index(all.len())).copied().unwrap_or(or)
}

fn number(random: &mut Random, low: u64, high: u64) -> u32 {
    u32::try_from(random.within(low, high)).unwrap_or(u32::MAX)
}

/// The variant of a seed.
///
/// # Errors
/// [`ProfileError`] if it made a profile that contradicts itself, which a test has never seen.
pub fn variant(seed: u64) -> Result<Variant, ProfileError> {
    let mut random = Random::new(seed);
    let shape = shape(&mut random);
    let profile = QosProfile::new(spec(&mut random, shape.speed))?;
    let model = if random.below(2) == 0 { BufferModel::Static } else { BufferModel::Dynamic };
    Ok(Variant { profile, shape, model })
}

fn shape(random: &mut Random) -> Shape {
    let servers_per_pod = number(random, 1, 4);
    Shape {
        prefix: format!("{}{}-", one_of(random, &["a", "dc1.x", "Z_", "pod:"], "b"), random.below(1000)),
        servers: servers_per_pod * number(random, 1, 3),
        rails: number(random, 1, 4),
        servers_per_pod,
        spines: number(random, 1, 4),
        speed: one_of(random, &[25, 100, 200, 400, 800], 400),
        nic_cable_m: number(random, 1, 30) as u16,
        spine_cable_m: number(random, 1, 300) as u16,
        asic: one_of(
            random,
            &[Asic::Spectrum3, Asic::Spectrum4, Asic::Tomahawk5, Asic::SonicVs],
            Asic::Spectrum4,
        ),
        nos: one_of(random, &[Nos::Sonic, Nos::Cumulus, Nos::Eos, Nos::NxOs], Nos::Sonic),
    }
}

/// Traffic classes of the NIC: each priority that is apart has its own, all others the first.
fn spec(random: &mut Random, speed: u32) -> ProfileSpec {
    let dscps = shuffled(random, 0..64);
    // Priority 0 stays that of all the rest.
    let priorities: Vec<Priority> = shuffled(random, 1..8).into_iter().map(Priority::of).collect();
    let (data, cnp) = (priorities[0], priorities[1]);
    let extra = random.index(4);
    let mut pfc = PrioritySet::only(data);
    let mut classes = Vec::new();
    for (at, priority) in priorities.iter().skip(2).take(extra).enumerate() {
        let lossless = random.below(4) == 0;
        if lossless {
            pfc = pfc.with(*priority);
        }
        let purpose = one_of(random, &[Purpose::Storage, Purpose::Management], Purpose::Other);
        let dscps =
            dscps[10 + at * 4..].iter().take(1 + random.index(4)).map(|dscp| Dscp::of(*dscp)).collect();
        classes.push(Class { name: format!("class-{at}"), purpose, dscps, priority: *priority, lossless });
    }
    let apart = [data, cnp].into_iter().chain(classes.iter().map(|class| class.priority));
    let (mut prio_tc, mut tsa, mut bandwidth) = ([0; 8], [Tsa::Ets; 8], [0; 8]);
    for priority in apart {
        prio_tc[priority.index()] = priority.get();
        bandwidth[priority.index()] = 1 + u8::try_from(random.below(15)).unwrap_or(0);
    }
    (tsa[cnp.index()], bandwidth[cnp.index()]) = (Tsa::Strict, 0);
    bandwidth[0] = 100 - bandwidth.iter().sum::<u8>();
    let mtu = number(random, 4192, 9100);
    let data_dscp = Dscp::of(dscps[0]);
    ProfileSpec {
        name: format!("variant-{}", random.below(1000)),
        lossless_priority: data,
        data_dscp,
        cnp_priority: cnp,
        cnp_dscp: Dscp::of(dscps[1]),
        dscp_map: dscps[2..8].iter().map(|dscp| (Dscp::of(*dscp), Priority::of(dscp >> 1))).collect(),
        pfc,
        prio_tc,
        tsa,
        bandwidth,
        dcqcn: Dcqcn { notification: pfc, reaction: pfc, ..Dcqcn::default() },
        mtu,
        default_tos: data_dscp.get() << 2 | one_of(random, &[1, 2], 2),
        cable_length: u16::try_from(number(random, 1, 300)).unwrap_or(1),
        classes,
        switch: switch(random, mtu, speed),
        ..ProfileSpec::default()
    }
}

fn switch(random: &mut Random, mtu: u32, speed: u32) -> SwitchEnd {
    let mut ecn = std::collections::BTreeMap::new();
    if random.below(2) == 0 {
        let kmin = random.within(10_000, 400_000);
        let kmax = kmin + random.within(10_000, 400_000);
        ecn.insert(
            speed,
            EcnThresholds { kmin, kmax, pmax: u8::try_from(random.within(1, 100)).unwrap_or(1) },
        );
    }
    let poll_ms = number(random, 100, 300);
    SwitchEnd {
        mtu: mtu + 50 + number(random, 0, 60),
        vxlan: random.below(2) == 0,
        lossless_alpha: i8::try_from(random.below(4)).unwrap_or(0) - 2,
        lossy_alpha: i8::try_from(random.below(6)).unwrap_or(0) - 2,
        pause_bytes: (random.below(4) == 0).then(|| random.within(2_000_000, 4_000_000)),
        headroom_shared_by: u8::try_from(random.below(4)).unwrap_or(0),
        lossless_mtu: number(random, 1024, 4200),
        small_packet_percent: u8::try_from(random.below(101)).unwrap_or(0),
        ecn,
        watchdog: Watchdog {
            detection_ms: poll_ms + number(random, 0, 700),
            restoration_ms: poll_ms + number(random, 0, 900),
            poll_ms,
            action: one_of(random, &[WatchdogAction::Drop, WatchdogAction::Forward], WatchdogAction::Drop),
        },
    }
}
