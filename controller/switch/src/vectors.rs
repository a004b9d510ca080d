//! Published vectors and tables that planners are held against: row F2. Sources: SONiC's `buffer_headroom_mellanox.lua` (the vectors, worked out by
//! that script's rule with cells of 192 bytes), SN5600's and Arista 7060X6's static `pg_profile_lookup.ini`, and SONiC's published ECN thresholds by
//! speed.

use proto_profile::{EcnThresholds, QosProfile};

use crate::{
    asic::Asic,
    ecn,
    headroom::{self, Input},
};

/// Speed, and xoff at 5, 40 and 300 m.
pub type Vectors = [(u32, [u64; 3]); 5];

/// Small packets alone.
pub const MTU_1024: Vectors = [
    (25, [48128, 51200, 75776]),
    (100, [113_664, 126_976, 225_280]),
    (200, [131_072, 157_696, 354_304]),
    (400, [230_400, 283_648, 677_888]),
    (800, [256_000, 362_496, 1_149_952]),
];
/// Jumbo packets alone.
pub const MTU_9100: Vectors = [
    (25, [25600, 26624, 34816]),
    (100, [47104, 52224, 84992]),
    (200, [53248, 62464, 129_024]),
    (400, [87040, 105_472, 238_592]),
    (800, [95232, 131_072, 398_336]),
];
/// RoCE's packets of 4,096 bytes with their headers.
pub const MTU_4200: Vectors = [
    (25, [20480, 21504, 30720]),
    (100, [43008, 48128, 81920]),
    (200, [49152, 58368, 125_952]),
    (400, [82944, 101_376, 236_544]),
    (800, [92160, 129_024, 399_360]),
];
/// Lossless MTU, percentage of small packets, and the vectors for them.
pub const HEADROOM: [(u32, u8, Vectors); 3] =
    [(1024, 100, MTU_1024), (9100, 0, MTU_9100), (4200, 0, MTU_4200)];

/// ASIC, speed, cable in metres, and the vendor's xoff.
pub const STATIC: [(Asic, u32, u16, u64); 14] = [
    (Asic::Spectrum4, 100, 5, 44032),
    (Asic::Spectrum4, 100, 40, 49152),
    (Asic::Spectrum4, 200, 5, 50176),
    (Asic::Spectrum4, 200, 40, 60416),
    (Asic::Spectrum4, 400, 5, 86016),
    (Asic::Spectrum4, 400, 40, 104_448),
    (Asic::Spectrum4, 800, 5, 95232),
    (Asic::Spectrum4, 800, 40, 132_096),
    (Asic::Tomahawk5, 400, 5, 445_770),
    (Asic::Tomahawk5, 400, 40, 612_140),
    (Asic::Tomahawk5, 400, 500, 1_136_396),
    (Asic::Tomahawk5, 800, 5, 724_662),
    (Asic::Tomahawk5, 800, 40, 833_536),
    (Asic::Tomahawk5, 800, 300, 1_621_536),
];

/// Speed, and where marking begins and is certain, in kB.
pub const ECN: [(u32, u64, u64); 5] =
    [(25, 100, 400), (100, 400, 1600), (200, 800, 3200), (400, 1600, 6400), (800, 3200, 12800)];

/// A port of Spectrum-4 with 4 lanes.
#[must_use]
pub fn input(speed: u32, cable_m: u16) -> Input {
    Input {
        asic: Asic::Spectrum4,
        speed,
        lanes: 4,
        cable_m,
        port_mtu: 9100,
        lossless_mtu: 4200,
        small_packet_percent: 0,
        gearbox: 0,
        shared: true,
    }
}

/// What the planners find beside what was published.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Vectors of headroom and marking that are the same to the byte, and all of them.
    pub exact: (usize, usize),
    /// The farthest from a vendor's table, in per cent of it.
    pub farthest_percent: f64,
    /// Where anything differs, in words.
    pub differences: Vec<String>,
}

/// Compares all of them.
#[must_use]
pub fn compare() -> Comparison {
    let mut all = Comparison::default();
    for (lossless_mtu, small_packet_percent, vectors) in HEADROOM {
        for (speed, wanted) in vectors {
            for (cable, wanted) in [5, 40, 300].into_iter().zip(wanted) {
                let input = Input { lossless_mtu, small_packet_percent, ..input(speed, cable) };
                let found = headroom::plan(&input).map(|found| found.xoff).ok();
                all.note(found == Some(wanted), || {
                    format!("{speed}G {cable} m, MTU {lossless_mtu}: {found:?} in place of {wanted}")
                });
            }
        }
    }
    for (speed, kmin, kmax) in ECN {
        let wanted = EcnThresholds { kmin: kmin * 1000, kmax: kmax * 1000, pmax: 20 };
        let found = ecn::plan(speed, &QosProfile::default(), 20_000_000).map(|found| found.value).ok();
        all.note(found == Some(wanted), || format!("ECN at {speed}G: {found:?} in place of {wanted:?}"));
    }
    for (asic, speed, cable, wanted) in STATIC {
        let found = headroom::plan(&Input { asic, ..input(speed, cable) }).map_or(0, |found| found.xoff);
        let off = found.abs_diff(wanted) as f64 * 100.0 / wanted as f64;
        all.farthest_percent = all.farthest_percent.max(off);
    }
    all
}

impl Comparison {
    fn note(&mut self, same: bool, what: impl FnOnce() -> String) {
        self.exact.0 += usize::from(same);
        self.exact.1 += 1;
        if !same {
            self.differences.push(what());
        }
    }
}
