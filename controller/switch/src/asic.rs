//! What is known of switching ASICs, each value with its source. A new ASIC is one row.

use std::fmt;

use proto_model::SwitchAsic;

use crate::source::Sourced;

/// An ASIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asic {
    /// NVIDIA Spectrum-2 (SN3700 and others).
    Spectrum2,
    /// NVIDIA Spectrum-3 (SN4600, SN4700).
    Spectrum3,
    /// NVIDIA Spectrum-4 (SN5600).
    Spectrum4,
    /// NVIDIA Spectrum-5.
    Spectrum5,
    /// Broadcom Tomahawk 4.
    Tomahawk4,
    /// Broadcom Tomahawk 5.
    Tomahawk5,
    /// Intel Tofino 2.
    Tofino2,
    /// SONiC's virtual switch.
    SonicVs,
}

/// How an ASIC hashes the fields that choose among equal ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashFamily {
    /// CRC with the CCITT polynomial, 16 bits.
    Crc16,
    /// CRC with Ethernet's polynomial, 32 bits.
    Crc32,
    /// Exclusive or.
    Xor,
    /// Symmetric CRC: both directions of a flow hash alike.
    SymmetricCrc,
}

/// How long a group's headroom is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadroomRule {
    /// SONiC's dynamic buffer model; `tile` where a tile between chiplets holds bytes of its own.
    Formula {
        /// Whether there is that tile.
        tile: bool,
    },
    /// A vendor's table: speed in Gbit/s, cable in m, xoff in bytes; between rows in a straight line.
    Table(&'static [(u32, u16, u64)]),
}

/// An ASIC's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub asic: Asic,
    /// Its usual name.
    pub name: &'static str,
    /// Size of a cell of its buffer in bytes.
    pub cell: Sourced<u32>,
    /// What its pipeline holds, in KiB.
    pub pipeline_kib: Sourced<u32>,
    /// The packet buffer, in bytes.
    pub buffer: Sourced<u64>,
    /// How the length of headroom is found.
    pub headroom: Sourced<HeadroomRule>,
    /// Hashes that it has.
    pub hashes: Sourced<&'static [HashFamily]>,
}

const ASIC_TABLE: &str = "SONiC, asic_table.json.j2";
const DYNAMIC: &str = "SONiC, dynamic buffer model (buffer_headroom_mellanox.lua)";
const SHEET: &str = "vendor's data sheet";
const SAI: &str = "vendors do not publish them by ASIC; of SAI's sai_hash_algorithm_t those that are in use";
const PIPELINE: &str = "as Spectrum's; xon is little beside xoff";

/// SONiC, Arista 7060X6, `pg_profile_lookup.ini`. Of the lengths at 400G and 5 m that it has, the greatest.
const TOMAHAWK5: &[(u32, u16, u64)] = &[
    (400, 5, 445_770),
    (400, 40, 612_140),
    (400, 500, 1_136_396),
    (800, 5, 724_662),
    (800, 40, 833_536),
    (800, 300, 1_621_536),
];

const FORMULA: Sourced<HeadroomRule> = Sourced::published(HeadroomRule::Formula { tile: false }, DYNAMIC);
const TILED: Sourced<HeadroomRule> = Sourced::published(HeadroomRule::Formula { tile: true }, DYNAMIC);
const SPECTRUM_HASHES: Sourced<&[HashFamily]> =
    Sourced::assumed(&[HashFamily::Crc32, HashFamily::Xor, HashFamily::SymmetricCrc], SAI);
const BROADCOM_HASHES: Sourced<&[HashFamily]> =
    Sourced::assumed(&[HashFamily::Crc16, HashFamily::Crc32, HashFamily::Xor], SAI);

/// Every ASIC.
pub const ROWS: [Row; 8] = [
    Row {
        asic: Asic::Spectrum2,
        name: "Spectrum-2",
        cell: Sourced::published(144, ASIC_TABLE),
        pipeline_kib: Sourced::published(19, ASIC_TABLE),
        buffer: Sourced::published(42_000_000, SHEET),
        headroom: FORMULA,
        hashes: SPECTRUM_HASHES,
    },
    Row {
        asic: Asic::Spectrum3,
        name: "Spectrum-3",
        cell: Sourced::published(144, ASIC_TABLE),
        pipeline_kib: Sourced::published(19, ASIC_TABLE),
        buffer: Sourced::published(64_000_000, SHEET),
        headroom: FORMULA,
        hashes: SPECTRUM_HASHES,
    },
    Row {
        asic: Asic::Spectrum4,
        name: "Spectrum-4",
        cell: Sourced::published(192, ASIC_TABLE),
        pipeline_kib: Sourced::published(19, ASIC_TABLE),
        buffer: Sourced::published(160_000_000, SHEET),
        headroom: TILED,
        hashes: SPECTRUM_HASHES,
    },
    Row {
        asic: Asic::Spectrum5,
        name: "Spectrum-5",
        cell: Sourced::published(192, ASIC_TABLE),
        pipeline_kib: Sourced::published(19, ASIC_TABLE),
        buffer: Sourced::assumed(160_000_000, "not less than Spectrum-4's"),
        headroom: TILED,
        hashes: SPECTRUM_HASHES,
    },
    Row {
        asic: Asic::Tomahawk4,
        name: "Tomahawk 4",
        cell: Sourced::published(254, "Intel Gaudi's guide for Arista switches (cells of 254 bytes)"),
        pipeline_kib: Sourced::assumed(19, PIPELINE),
        buffer: Sourced::published(113_000_000, SHEET),
        headroom: Sourced::assumed(HeadroomRule::Formula { tile: false }, "SONiC's formula with this cell"),
        hashes: BROADCOM_HASHES,
    },
    Row {
        asic: Asic::Tomahawk5,
        name: "Tomahawk 5",
        cell: Sourced::published(254, "Intel Gaudi's guide for Arista switches (cells of 254 bytes)"),
        pipeline_kib: Sourced::assumed(19, PIPELINE),
        buffer: Sourced::published(164_505_640, "SONiC, Arista 7060X6, buffers_defaults"),
        headroom: Sourced::published(
            HeadroomRule::Table(TOMAHAWK5),
            "SONiC, Arista 7060X6, pg_profile_lookup.ini",
        ),
        hashes: BROADCOM_HASHES,
    },
    Row {
        asic: Asic::Tofino2,
        name: "Tofino 2",
        cell: Sourced::published(176, ASIC_TABLE),
        pipeline_kib: Sourced::published(68, ASIC_TABLE),
        buffer: Sourced::published(64_000_000, SHEET),
        headroom: Sourced::published(
            HeadroomRule::Formula { tile: false },
            "SONiC, dynamic buffer model (buffer_headroom_barefoot.lua)",
        ),
        hashes: Sourced::assumed(&[HashFamily::Crc16, HashFamily::Crc32, HashFamily::Xor], SAI),
    },
    Row {
        asic: Asic::SonicVs,
        name: "SONiC-VS",
        cell: Sourced::published(128, ASIC_TABLE),
        pipeline_kib: Sourced::published(18, ASIC_TABLE),
        buffer: Sourced::assumed(64_000_000, "it buffers nothing; as a switch of 12.8 Tbit/s"),
        headroom: FORMULA,
        hashes: Sourced::assumed(&[HashFamily::Xor], "the kernel's layer 4 hash stands in its place"),
    },
];

impl Asic {
    /// Its values.
    #[must_use]
    pub fn row(self) -> &'static Row {
        // A test finds each ASIC in its place.
        &ROWS[self as usize]
    }
}

impl From<SwitchAsic> for Asic {
    fn from(asic: SwitchAsic) -> Self {
        match asic {
            SwitchAsic::Spectrum2 => Self::Spectrum2,
            SwitchAsic::Spectrum3 => Self::Spectrum3,
            SwitchAsic::Spectrum4 => Self::Spectrum4,
            SwitchAsic::Spectrum5 => Self::Spectrum5,
            SwitchAsic::Tomahawk4 => Self::Tomahawk4,
            SwitchAsic::Tomahawk5 => Self::Tomahawk5,
            SwitchAsic::Tofino2 => Self::Tofino2,
            SwitchAsic::SonicVs => Self::SonicVs,
        }
    }
}

impl fmt::Display for Asic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}
