//! When a switch marks packets: the thresholds of each speed, from the profile or planned, always below the length at which the group
//! pauses.

use proto_profile::{EcnThresholds, QosProfile, SwitchFlaw, ecn_flaws};
use thiserror::Error;

use crate::source::{Source, Sourced};

/// Of each Gbit/s a queue may hold this many bytes before marking begins (HPCC's and DCQCN's 100 KB at 25 Gbit/s).
const KMIN_PER_GBPS: u64 = 4_000;
/// And this many until every packet is marked (400 KB at 25 Gbit/s).
const KMAX_PER_GBPS: u64 = 16_000;
/// Share that is marked just below that, in percent.
const PMAX: u8 = 20;
const RULE: Source = Source::Rule("HPCC and DCQCN: 4 to 16 KB for each Gbit/s, 20 %");
const SHORTENED: Source =
    Source::Rule("three quarters of the length at which the group pauses, and a quarter of that");

/// Why no thresholds are right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EcnRefusal {
    /// They are wrong of themselves.
    #[error(transparent)]
    Wrong(#[from] SwitchFlaw),
    /// There is so little buffer that every mark would come after the pause.
    #[error(
        "ports of {speed} Gbit/s: the group pauses at {pause} bytes, which leaves no room for marking below it"
    )]
    NoRoom {
        /// Speed in Gbit/s.
        speed: u32,
        /// Where the group pauses.
        pause: u64,
    },
}

/// The thresholds of a port of `speed` Gbit/s whose lossless group pauses at `pause` bytes.
///
/// # Errors
/// [`EcnRefusal`] for the profile's own thresholds that never mark or mark after the pause, and where nothing fits below it.
pub fn plan(speed: u32, profile: &QosProfile, pause: u64) -> Result<Sourced<EcnThresholds>, EcnRefusal> {
    if let Some(value) = profile.spec().switch.ecn.get(&speed).copied() {
        if let Some(flaw) = ecn_flaws(speed, value).into_iter().next() {
            return Err(flaw.into());
        }
        if value.kmax >= pause {
            return Err(SwitchFlaw::PauseBeforeEcn { speed, kmax: value.kmax, pause }.into());
        }
        return Ok(Sourced { value, source: Source::Profile("switch.ecn") });
    }
    let gbps = u64::from(speed);
    let value = EcnThresholds { kmin: gbps * KMIN_PER_GBPS, kmax: gbps * KMAX_PER_GBPS, pmax: PMAX };
    if value.kmax < pause {
        return Ok(Sourced { value, source: RULE });
    }
    let kmax = pause / 4 * 3;
    let kmin = kmax / 4;
    if kmin < u64::from(profile.spec().switch.lossless_mtu) {
        return Err(EcnRefusal::NoRoom { speed, pause });
    }
    Ok(Sourced { value: EcnThresholds { kmin, kmax, pmax: PMAX }, source: SHORTENED })
}
