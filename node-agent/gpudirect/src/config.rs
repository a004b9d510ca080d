//! PCI configuration space: whether a bridge redirects traffic between the devices below it (PCI Express Base Specification, extended
//! capabilities; `linux/pci_regs.h`).

/// Where extended capabilities begin.
const EXTENDED: usize = 0x100;
/// Bytes of the configuration space of a PCI Express device.
const ALL: usize = 4096;
/// Number of the extended capability Access Control Services (`PCI_EXT_CAP_ID_ACS` in Linux `pci_regs.h`).
const ACS: u16 = 0x0d;
/// `PCI_ACS_CTRL`, from the capability's beginning.
const CONTROL: usize = 6;
/// `PCI_ACS_RR` and `PCI_ACS_CR`: requests and completions between peers go up.
const REDIRECT: u16 = 1 << 2 | 1 << 3;

fn word(config: &[u8], at: usize) -> Option<u16> {
    config.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

/// Whether a bridge redirects traffic between peers; `None` if that cannot be found out: who is not root reads the first 64 bytes only.
#[must_use]
pub fn redirects(config: &[u8]) -> Option<bool> {
    if config.len() < ALL {
        return None;
    }
    let mut at = EXTENDED;
    // As many as there is room for: a list that leads back to itself ends.
    for _ in 0..(ALL - EXTENDED) / 8 {
        let (kind, next) = (word(config, at)?, word(config, at + 2)? >> 4);
        match kind {
            0 | 0xffff => return Some(false),
            ACS => return Some(word(config, at + CONTROL)? & REDIRECT != 0),
            _ => {}
        }
        at = usize::from(next) & !3;
        if at < EXTENDED {
            return Some(false);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A configuration space with these capabilities, each with its place and the word at its place + 6.
    fn space(capabilities: &[(usize, u16, u16)]) -> Vec<u8> {
        let mut config = vec![0; ALL];
        for (at, (place, kind, control)) in capabilities.iter().enumerate() {
            let next = capabilities.get(at + 1).map_or(0, |next| next.0 as u16);
            config[*place..place + 2].copy_from_slice(&kind.to_le_bytes());
            config[place + 2..place + 4].copy_from_slice(&(next << 4 | 1).to_le_bytes());
            config[place + 6..place + 8].copy_from_slice(&control.to_le_bytes());
        }
        config
    }

    #[test]
    fn redirection_is_found_wherever_it_is_in_the_list() {
        // Advanced error reporting (1) first, as in most bridges; 0x1d is what Linux sets with an IOMMU on: SV, RR, CR, UF.
        assert_eq!(redirects(&space(&[(0x100, 1, 0xffff), (0x148, ACS, 0x1d)])), Some(true));
        assert_eq!(redirects(&space(&[(0x100, 1, 0xffff), (0x148, ACS, 0x01)])), Some(false));
        assert_eq!(redirects(&space(&[(0x100, ACS, 1 << 3)])), Some(true));
        assert_eq!(redirects(&space(&[(0x100, 1, 0)])), Some(false), "no such capability");
        assert_eq!(redirects(&space(&[])), Some(false), "no extended capabilities");
    }

    #[test]
    fn what_cannot_be_told_is_not_known() {
        assert_eq!(redirects(&[0; 64]), None, "who is not root");
        assert_eq!(redirects(&[0; 256]), None);
        assert_eq!(
            redirects(&vec![0xff; ALL]),
            Some(false),
            "a device that has fallen off the bus redirects nothing"
        );
        let mut endless = space(&[(0x100, 1, 0)]);
        endless[0x102..0x104].copy_from_slice(&(0x100_u16 << 4).to_le_bytes());
        assert_eq!(redirects(&endless), None, "a list that leads to itself");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(config in prop::collection::vec(any::<u8>(), 0..5000)) {
            let reported = redirects(&config);
            prop_assert!(config.len() >= ALL || reported.is_none());
        }
    }
}
