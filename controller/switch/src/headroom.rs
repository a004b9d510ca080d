//! Headroom: how many bytes still come after a pause was sent, and have to fit. SONiC's dynamic buffer model, with its own arithmetic
//! (double precision, rounded up to KiB at the end), or a vendor's table.

use thiserror::Error;

use crate::{
    asic::{Asic, HeadroomRule},
    source::Source,
};

/// Signals in a cable, in m/s.
const SIGNAL: f64 = 198e6;
/// The smallest packet, in bytes.
const SMALLEST: f64 = 64.0;
/// What is under way in MAC and PHY, in bytes.
const MAC_PHY: f64 = 0.8 * 1024.0;
/// Ports of as many lanes are served by two pipelines.
const WIDE: u8 = 8;

/// What headroom depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Input {
    /// The switch's ASIC.
    pub asic: Asic,
    /// Speed of the port in Gbit/s.
    pub speed: u32,
    /// Number of its lanes.
    pub lanes: u8,
    /// Length of its cable in metres.
    pub cable_m: u16,
    /// MTU of the port in bytes: a packet that has begun is sent to its end.
    pub port_mtu: u32,
    /// The largest packet of the lossless class, in bytes.
    pub lossless_mtu: u32,
    /// How many of 100 packets are of the smallest size.
    pub small_packet_percent: u8,
    /// Delay of a gearbox, in SONiC's unit; 0 without one.
    pub gearbox: u32,
    /// Whether ports share a pool of headroom.
    pub shared: bool,
}

/// What a lossless group of a port needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Headroom {
    /// What comes after a pause was sent.
    pub xoff: u64,
    /// What has to be free before the pause ends.
    pub xon: u64,
    /// What is reserved for the group alone.
    pub size: u64,
    /// How it was found.
    pub source: Source,
}

/// What xoff is made of, before it is rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// On the cable, there and back.
    pub cable: f64,
    /// What the peer still sends until it obeys (IEEE 802.3 31B.3.7).
    pub peer: f64,
    /// In a gearbox, both ways.
    pub gearbox: f64,
    /// In the tile between chiplets.
    pub tile: f64,
    /// The packet that had begun.
    pub port_mtu: f64,
    /// How much of cells small packets leave empty: 1 where all are filled.
    pub occupancy: f64,
    /// The same if every packet were the smallest.
    pub worst: f64,
}

/// Nobody says how long a peer of this speed takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a port of {speed} Gbit/s on {asic}: nothing is published of how long its peer takes to obey a pause"
)]
pub struct NoHeadroom {
    /// The speed.
    pub speed: u32,
    /// The ASIC.
    pub asic: Asic,
}

/// How long a peer takes to obey, in quanta of 64 bytes.
const fn quanta(speed: u32) -> Option<u32> {
    Some(match speed {
        1 => 2,
        10 => 67,
        25 => 80,
        40 => 118,
        50 => 147,
        100 => 394,
        200 => 453,
        400 | 800 => 905,
        _ => return None,
    })
}

/// The terms of the formula.
///
/// # Errors
/// [`NoHeadroom`] for a speed that nothing is published of.
pub fn terms(input: &Input, tile: bool) -> Result<Terms, NoHeadroom> {
    let Input { asic, speed, .. } = *input;
    let peer = quanta(speed).ok_or(NoHeadroom { speed, asic })?;
    let bits = f64::from(speed) * 1e9;
    let cell = f64::from(asic.row().cell.value);
    let cells = if cell > 2.0 * SMALLEST { cell / SMALLEST } else { 2.0 * cell / (1.0 + cell) };
    let worst = cells.ceil();
    let s = f64::from(input.small_packet_percent);
    let small = 100.0 * SMALLEST / ((s * SMALLEST + (100.0 - s) * f64::from(input.lossless_mtu)) / 100.0);
    Ok(Terms {
        cable: 2.0 * f64::from(input.cable_m) * bits / SIGNAL / 8.0,
        peer: f64::from(peer) * 64.0,
        gearbox: 2.0 * (f64::from(speed) * 1000.0 * f64::from(input.gearbox) / 8192.0),
        tile: if tile { f64::from(speed) * 120.0 / 8.0 } else { 0.0 },
        port_mtu: f64::from(input.port_mtu),
        occupancy: (100.0 - small + small * worst) / 100.0,
        worst,
    })
}

impl Terms {
    /// Bytes that are under way.
    #[must_use]
    pub fn under_way(&self) -> f64 {
        self.port_mtu + self.cable + self.gearbox + MAC_PHY + self.peer + self.tile
    }
}

/// Up to whole KiB.
fn whole_kib(bytes: f64) -> u64 {
    // Not negative, and far below 2^53.
    (bytes / 1024.0).ceil() as u64 * 1024
}

fn formula(input: &Input, tile: bool) -> Result<u64, NoHeadroom> {
    let terms = terms(input, tile)?;
    let mtu = f64::from(input.lossless_mtu);
    let xoff = whole_kib(mtu + terms.under_way() * terms.occupancy);
    let spare = xoff + 2048;
    let worst = whole_kib(mtu + terms.under_way() * terms.worst);
    let adds = !input.shared && input.small_packet_percent != 100 && spare < worst;
    Ok(if adds { spare } else { xoff })
}

/// Between the rows of a vendor's table for this speed, and beyond them with their last slope; never less than the first row.
fn looked_up(input: &Input, rows: &[(u32, u16, u64)]) -> Result<u64, NoHeadroom> {
    let Input { asic, speed, cable_m, .. } = *input;
    let rows: Vec<(u64, u64)> =
        rows.iter().filter(|row| row.0 == speed).map(|row| (u64::from(row.1), row.2)).collect();
    let cable = u64::from(cable_m);
    let last = rows.len().saturating_sub(2);
    let pair = rows.windows(2).enumerate().find(|(at, pair)| cable <= pair[1].0 || *at == last);
    let Some((_, &[(from, low), (to, high)])) = pair else { return Err(NoHeadroom { speed, asic }) };
    let beyond = cable.saturating_sub(from) * (high - low);
    Ok(low + beyond.div_ceil(to - from))
}

/// What a lossless group of such a port needs.
///
/// # Errors
/// [`NoHeadroom`] for a speed that nothing is published of.
pub fn plan(input: &Input) -> Result<Headroom, NoHeadroom> {
    let row = input.asic.row();
    let xoff = match row.headroom.value {
        HeadroomRule::Formula { tile } => formula(input, tile)?,
        HeadroomRule::Table(rows) if rows.iter().any(|one| one.0 == input.speed) => looked_up(input, rows)?,
        HeadroomRule::Table(_) => formula(input, false)?,
    };
    let wide = input.lanes >= WIDE;
    let pipeline = u64::from(row.pipeline_kib.value) * 1024;
    let xon = if wide { pipeline * 2 } else { pipeline };
    let overhead = if wide { u64::from(input.port_mtu) } else { 0 };
    let size = if input.shared { xon } else { (xoff + xon + overhead).div_ceil(1024) * 1024 };
    Ok(Headroom { xoff, xon, size, source: row.headroom.source })
}
