//! Which addresses the controller calls when a tenant says where: public ones, and what the administrator allows.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use thiserror::Error;

/// Why a text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{text}' is not a network; write an address, a slash and the length of its prefix, for example 10.20.0.0/16 or fd00::/8"
)]
pub struct CidrError {
    text: String,
}

/// A network: an address and how many of its first bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// The bits of an address, from the left of 128.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Cidr {
    /// Whether an address is in it. An IPv4 address in the form of IPv6 counts as what it is.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        address.is_ipv4() == self.address.is_ipv4() && (bits(address) ^ bits(self.address)) & mask == 0
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError { text: text.chars().take(64).collect() };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= most).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// The IPv4 address that an IPv6 address leads to by a translator or a tunnel, where there is one.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match (a, b) {
        // Mapped (::ffff:0:0/96), translated (::ffff:0:0:0/96) and compatible (::/96).
        (0, 0) if (c, d) == (0, 0) && matches!((e, f), (0, 0xffff) | (0xffff, 0) | (0, 0)) => Some(of(g, h)),
        // NAT64, the well-known prefix.
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => Some(of(g, h)),
        // 6to4.
        (0x2002, _) => Some(of(b, c)),
        _ => None,
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0, ..) => Some("unspecified"),
        (127, ..) => Some("loopback"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("private"),
        (169, 254, _) => Some("link-local"),
        (100, 64..=127, _) => Some("shared by carriers"),
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => {
            Some("reserved")
        }
        (224..=239, ..) => Some("multicast"),
        (240.., ..) => Some("reserved"),
        _ => None,
    }
}

fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if let Some(carried) = carried(address) {
        return refused_v4(carried);
    }
    let [first, second, ..] = address.segments();
    match first {
        0xfc00..=0xfdff => Some("private"),
        0xfe80..=0xfebf => Some("link-local"),
        0xfec0..=0xfeff => Some("private"),
        0xff00.. => Some("multicast"),
        // Teredo and other protocol assignments, and documentation.
        0x2001 if second < 0x200 || second == 0xdb8 => Some("reserved"),
        0x3fff if second < 0x1000 => Some("reserved"),
        0x2000..=0x3fff => None,
        _ => Some("reserved"),
    }
}

/// Why an address is not called: of what kind it is. `None`: it is public, or within what is allowed.
#[must_use]
pub fn refused(address: IpAddr, allowed: &[Cidr]) -> Option<&'static str> {
    let address = address.to_canonical();
    if allowed.iter().any(|network| network.contains(address)) {
        return None;
    }
    match address {
        IpAddr::V4(address) => refused_v4(address),
        IpAddr::V6(address) => refused_v6(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(address: &str) -> Option<&'static str> {
        refused(address.parse().unwrap(), &[])
    }

    #[test]
    fn what_is_not_public_is_refused_in_every_form() {
        for (address, expected) in [
            ("0.0.0.0", "unspecified"),
            ("::", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::127.0.0.1", "loopback"),
            ("10.1.2.3", "private"),
            ("172.31.0.1", "private"),
            ("192.168.0.1", "private"),
            ("fd12::1", "private"),
            ("169.254.169.254", "link-local"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:a9fe:a9fe", "link-local"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::a9fe:a9fe", "reserved"),
            ("2002:a9fe:a9fe::1", "link-local"),
            ("::ffff:0:169.254.169.254", "link-local"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("100.100.100.200", "shared by carriers"),
            ("192.0.0.192", "reserved"),
            ("198.18.0.1", "reserved"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "reserved"),
            ("ff02::1", "multicast"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "reserved"),
            ("100::1", "reserved"),
        ] {
            assert_eq!(kind(address), Some(expected), "{address}");
        }
        for public in
            ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"]
        {
            assert_eq!(kind(public), None, "{public}");
        }
    }

    #[test]
    fn what_an_administrator_allows_is_called() {
        let allowed = ["127.0.0.0/8".parse().unwrap(), "fd00:1::/32".parse().unwrap()];
        let reported = |address: &str| refused(address.parse().unwrap(), &allowed);
        assert_eq!(
            (reported("127.0.0.1"), reported("::ffff:127.9.9.9"), reported("fd00:1::7")),
            (None, None, None)
        );
        assert_eq!(
            (reported("128.0.0.1"), reported("::1"), reported("fd00:2::7")),
            (None, Some("loopback"), Some("private"))
        );
        let all: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("169.254.169.254".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        for wrong in
            ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "a/8"]
        {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
        assert_eq!("10.0.0.1".parse::<Cidr>().unwrap().to_string(), "10.0.0.1/32");
    }

    proptest! {
        #[test]
        fn an_ipv4_address_is_judged_alike_in_all_of_its_forms(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let forms = [
                plain.to_ipv6_mapped(),
                Ipv6Addr::from_bits(0x0064_ff9b_u128 << 96 | u128::from(bits)),
                Ipv6Addr::from_bits(0x2002_u128 << 112 | u128::from(bits) << 80 | 1),
            ];
            for form in forms {
                prop_assert_eq!(refused(form.into(), &[]), refused(plain.into(), &[]), "{}", form);
            }
        }

        #[test]
        fn a_network_holds_exactly_what_has_its_prefix(address: u32, other: u32, prefix in 0_u8..=32) {
            let network: Cidr = format!("{}/{prefix}", Ipv4Addr::from_bits(address)).parse().unwrap();
            let same = prefix == 0 || (address ^ other) >> (32 - prefix) == 0;
            prop_assert_eq!(network.contains(Ipv4Addr::from_bits(other).into()), same);
        }
    }
}
