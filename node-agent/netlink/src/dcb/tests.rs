//! Tests of `dcb`: every structure and request byte for byte. Offsets are those that a C compiler gives for
//! `linux/dcbnl.h` on x86-64; requests marked "as dcb sends it" were recorded from iproute2 6.1 on Linux 6.18.

use proptest::prelude::*;

use super::{layout::*, table::*};
use crate::wire::{Builder, Message, Messages};

fn eight<T>(first: T) -> [T; 8]
where
    T: Copy + From<u8> + std::ops::Add<Output = T>,
{
    std::array::from_fn(|i| first + T::from(i as u8))
}

#[test]
fn structures_lie_as_the_kernel_lays_them() {
    let ets = Ets {
        willing: 1,
        classes: 2,
        credit_based: 3,
        tx_percent: eight(10),
        rx_percent: eight(20),
        tsa: eight(30),
        class_of: eight(40),
        recommended_percent: eight(50),
        recommended_tsa: eight(60),
        recommended_class_of: eight(70),
    };
    let bytes = ets.encode();
    assert_eq!((bytes.len(), &bytes[..3]), (59, &[1, 2, 3][..]));
    for (at, first) in [(3, 10), (11, 20), (19, 30), (27, 40), (35, 50), (43, 60), (51, 70)] {
        assert_eq!(bytes[at..at + 8], eight::<u8>(first), "at {at}");
    }
    let pfc = Pfc {
        capable: 8,
        enabled: 0x08,
        bypass: 1,
        delay: 0x0102,
        requests: eight(0x1000),
        indications: eight(0x2000),
    };
    let bytes = pfc.encode();
    assert_eq!((bytes.len(), bytes[0], bytes[1], bytes[2], bytes[3]), (136, 8, 8, 1, 0));
    assert_eq!(bytes[4..6], 0x0102u16.to_ne_bytes());
    assert_eq!((bytes[6], bytes[7]), (0, 0));
    for priority in 0..8usize {
        let at = |base: usize| u64::from_ne_bytes(bytes[base + 8 * priority..][..8].try_into().unwrap());
        assert_eq!((at(8), at(72)), (0x1000 + priority as u64, 0x2000 + priority as u64));
    }
    let bytes = MaxRate(eight(7)).encode();
    assert_eq!((bytes.len(), &bytes[56..]), (64, &14u64.to_ne_bytes()[..]));
    let buffer = Buffer { buffer_of: eight(1), size: eight(0x0102_0304), total: 0x0506_0708 };
    let bytes = buffer.encode();
    assert_eq!((bytes.len(), &bytes[..8]), (44, &eight::<u8>(1)[..]));
    assert_eq!(bytes[8..12], 0x0102_0304u32.to_ne_bytes());
    assert_eq!(bytes[36..40], 0x0102_030bu32.to_ne_bytes());
    assert_eq!(bytes[40..], 0x0506_0708u32.to_ne_bytes());
    let app = App { selector: 5, priority: 3, protocol: 26 };
    let [low, high] = 26u16.to_ne_bytes();
    assert_eq!((app.encode(), app), ([5, 3, low, high], App::dscp(26, 3)));
    let kinds =
        [1, 2, 3, 4, 5, 6, 255, 0].map(|selector| App { selector, priority: 0, protocol: 0 }.attribute());
    assert_eq!(kinds, [1, 1, 1, 1, 1, 2, 2, 2]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[cfg(target_endian = "little")]
fn requests_are_as_dcb_sends_them() {
    let name = "0700010076300000";
    let app = |first, second| Change::AddApp([first].into_iter().chain(second).collect());
    let cases = [
        // dcb app show dev v0
        (get("v0"), format!("1c0000004e000500{:08}0000000000150000{name}", "00000000")),
        // dcb app add dev v0 dscp-prio 26:3 48:6
        (
            app(App::dscp(26, 3), Some(App::dscp(48, 6))).request("v0"),
            format!("340000004f000500000000000000000000140000{name}18000d80140003800800010005031a000800010005063000"),
        ),
        // dcb app del dev v0 dscp-prio 26:3
        (
            Change::DeleteApp(vec![App::dscp(26, 3)]).request("v0"),
            format!("2c0000004f0005000000000000000000001b0000{name}10000d800c0003800800010005031a00"),
        ),
        // dcb dcbx set dev v0 host ieee
        (
            Change::Dcbx(dcbx::HOST | dcbx::IEEE).request("v0"),
            format!("240000004f000500000000000000000000170000{name}05000e0009000000"),
        ),
        // Not recorded: made of the same parts. A PCP entry has the other attribute; trust is a nest of single bytes.
        (
            app(App { selector: selector::PCP, priority: 3, protocol: 11 }, None).request("v0"),
            format!("2c0000004f000500000000000000000000140000{name}10000d800c00038008000200ff030b00"),
        ),
        (
            Change::Trust(vec![selector::DSCP, selector::PCP]).request("v0"),
            format!("340000004f000500000000000000000000140000{name}18000d8014000b800500010005000000050001 00ff000000").replace(' ', ""),
        ),
        (
            Change::AddRewrite(vec![App::dscp(26, 3)]).request("v0"),
            format!("2c0000004f000500000000000000000000140000{name}10000d800c000c800800010005031a00"),
        ),
        (get_dcbx("v0"), format!("1c0000004e000500000000000000000000160000{name}")),
    ];
    for (request, expected) in cases {
        assert_eq!(hex(&request.finish(0)), expected);
    }
}

#[test]
fn sets_carry_the_whole_structure() {
    let changes = [
        (Change::Ets(Ets::default()), 1, 59),
        (Change::Pfc(Pfc::default()), 2, 136),
        (Change::MaxRate(MaxRate::default()), 7, 64),
        (Change::Buffer(Buffer::default()), 10, 44),
    ];
    for (change, kind, length) in changes {
        let bytes = change.request("eth0").finish(9);
        let message = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!((message.kind, message.sequence, message.body[1]), (79, 9, 20));
        let attributes: Vec<_> = message.attributes(4).map(Result::unwrap).collect();
        assert_eq!((attributes[0].kind, attributes[0].value), (1, &b"eth0\0"[..]));
        let inside: Vec<_> = attributes[1].nest().map(Result::unwrap).collect();
        assert_eq!(
            (attributes[1].kind, inside.len(), inside[0].kind, inside[0].value.len()),
            (13, 1, kind, length)
        );
    }
}

#[test]
fn the_driver_says_why_in_a_byte() {
    for (byte, errno) in [(0u8.wrapping_sub(95), 95), (0u8.wrapping_sub(22), 22), (1, 22)] {
        assert_eq!(super::driver_errno(byte).0, errno);
    }
}

fn arb_app() -> impl Strategy<Value = App> {
    (any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(selector, priority, protocol)| App {
        selector,
        priority,
        protocol,
    })
}

proptest! {
    #[test]
    fn structures_survive(bytes: [u8; 59], pfc in prop::collection::vec(any::<u8>(), 136), rest in prop::collection::vec(any::<u8>(), 64), app in arb_app()) {
        prop_assert_eq!(Ets::decode(&bytes).unwrap().encode(), bytes);
        let mut padded = pfc.clone();
        for at in [3, 6, 7] {
            padded[at] = 0;
        }
        prop_assert_eq!(Pfc::decode(&pfc).unwrap().encode().to_vec(), padded);
        prop_assert_eq!(MaxRate::decode(&rest).unwrap().encode().to_vec(), rest.clone());
        prop_assert_eq!(Buffer::decode(&rest).unwrap().encode().to_vec(), rest[..44].to_vec());
        prop_assert_eq!(App::decode(&app.encode()), Ok(app));
        prop_assert!(Ets::decode(&bytes[..58]).is_err() && Pfc::decode(&pfc[..135]).is_err());
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Table::decode(Message { kind: GET, flags: 0, sequence: 0, body: &body });
        let nest = Builder::default().nest(attribute::IEEE, |b| b.put(attribute::APP, &body).put(attribute::TRUST, &body));
        let _ = Table::decode(Message { kind: GET, flags: 0, sequence: 0, body: &[&[0; 4], nest.bytes()].concat() });
    }

    #[test]
    fn entries_survive(apps in prop::collection::vec(arb_app(), 0..70)) {
        let bytes = Change::AddApp(apps.clone()).request("e").finish(1);
        let message = Messages::new(&bytes).next().unwrap().unwrap();
        prop_assert_eq!(Table::decode(message).unwrap().app, Some(apps));
    }
}
