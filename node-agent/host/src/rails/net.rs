//! Subnets and the rails that they are.

use std::{fmt, net::IpAddr, str::FromStr};

use super::error::{RAILS_MOST, RailRuleError};

/// An IP network: an address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    address: IpAddr,
    prefix: u8,
}

impl Net {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, true),
            IpAddr::V6(v6) => (v6.to_bits(), false),
        };
        let ((ours, v4), (theirs, theirs_v4)) = (bits(self.address), bits(address));
        // A shift by all of the bits is none that Rust does; a network of prefix 0 contains all.
        v4 == theirs_v4 && (ours ^ theirs).checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
    }
}

impl FromStr for Net {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = text.split_once('/').ok_or(())?;
        let (address, prefix): (IpAddr, u8) =
            (address.parse().map_err(|_| ())?, prefix.parse().map_err(|_| ())?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix <= most { Ok(Self { address, prefix }) } else { Err(()) }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Networks with their rails, as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnets {
    text: String,
    nets: Vec<(Net, u32)>,
}

impl Subnets {
    /// The network of the longest prefix that an address is in, and its rail.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<(Net, u32)> {
        let within = self.nets.iter().filter(|(net, _)| net.contains(address));
        within.max_by_key(|(net, rail)| (net.prefix, std::cmp::Reverse(*rail))).copied()
    }
}

impl FromStr for Subnets {
    type Err = RailRuleError;

    /// Reads a pattern (`10.0.{k}.0/24`) or a list of networks with their rails (`10.8.0.0/24=0,10.9.0.0/24=1`).
    fn from_str(text: &str) -> Result<Self, RailRuleError> {
        let wrong = |part: &str| RailRuleError::Subnet(part.to_owned());
        let nets: Vec<(Net, u32)> = if text.contains("{k}") {
            if text.matches("{k}").count() != 1 {
                return Err(wrong(text));
            }
            // Where only some numbers make an address (10.{k}0.0.0), the others are no rails.
            let net = |rail: u32| Some((text.replace("{k}", &rail.to_string()).parse().ok()?, rail));
            (0..RAILS_MOST).filter_map(net).collect()
        } else {
            let entry = |entry: &str| {
                let (net, rail) = entry.split_once('=').ok_or_else(|| wrong(entry))?;
                let rail = rail.parse().ok().filter(|rail| *rail < RAILS_MOST).ok_or_else(|| wrong(entry))?;
                Ok((net.parse().map_err(|()| wrong(entry))?, rail))
            };
            text.split(',').map(entry).collect::<Result<_, _>>()?
        };
        if nets.is_empty() { Err(wrong(text)) } else { Ok(Self { text: text.to_owned(), nets }) }
    }
}

impl fmt::Display for Subnets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
