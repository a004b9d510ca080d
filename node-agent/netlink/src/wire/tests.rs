//! Tests of `wire`: both ways, and whatever bytes.

use proptest::prelude::*;

use super::*;

fn header(length: u32, kind: u16, flags: u16) -> Vec<u8> {
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

#[test]
fn lengths_that_lie_are_named() {
    fn message(bytes: &[u8]) -> Vec<Result<Message<'_>, WireError>> {
        Messages::new(bytes).collect()
    }
    assert_eq!(message(&[1; 15]), [Err(WireError::ShortHeader { left: 15 })]);
    for length in [0, 15, 17, u32::MAX] {
        assert_eq!(message(&header(length, 1, 0)), [Err(WireError::MessageLength { length, left: 16 })]);
    }
    fn attribute(bytes: &[u8]) -> Vec<Result<Attribute<'_>, WireError>> {
        Attributes::new(bytes).collect()
    }
    assert_eq!(attribute(&[1; 3]), [Err(WireError::ShortAttribute { left: 3 })]);
    for length in [0u16, 3, 9, u16::MAX] {
        let bytes = [&length.to_ne_bytes()[..], &7u16.to_ne_bytes(), &[0; 4]].concat();
        assert_eq!(attribute(&bytes), [Err(WireError::AttributeLength { kind: 7, length, left: 8 })]);
    }
}

#[test]
fn an_error_carries_the_kernels_words() {
    let words = Builder::default().put_text(1, "no such thing");
    let mut body = (-22i32).to_ne_bytes().to_vec();
    body.extend(header(40, 78, 5));
    body.extend([0; 24]);
    let whole = [&body[..], words.bytes()].concat();
    let capped = [&body[..20], words.bytes()].concat();
    for (body, flags, expected) in [
        (&whole, ACK_TLVS, Some("no such thing")),
        (&capped, ACK_TLVS | CAPPED, Some("no such thing")),
        (&whole, 0, None),
        (&body[..3].to_vec(), ACK_TLVS, None),
    ] {
        let message = Message { kind: ERROR, flags, sequence: 0, body };
        assert_eq!(message.words(), expected);
    }
    assert_eq!(Message { kind: ERROR, flags: 0, sequence: 0, body: &body }.code(), Ok(-22));
    for cut in 0..4 {
        let message = Message { kind: ERROR, flags: 0, sequence: 0, body: &body[..cut] };
        let short = WireError::Short { what: "the code of an answer", found: cut, wanted: 4 };
        assert_eq!(message.code(), Err(short), "it is no success");
    }
}

#[test]
fn deep_nests_are_read_as_deep_as_asked() {
    let mut builder = Builder::default().put(1, b"x");
    for _ in 0..10_000 {
        let inside = builder.bytes().to_vec();
        if inside.len() > 60_000 {
            break;
        }
        builder = Builder::default().put(2 | NESTED, &inside);
    }
    let outer = Attributes::new(builder.bytes()).next().unwrap().unwrap();
    assert_eq!(outer.kind, 2);
    assert_eq!(outer.nest().next().unwrap().unwrap().kind, 2);
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let messages: Vec<_> = Messages::new(&bytes).collect();
        prop_assert!(messages.len() <= bytes.len() / HEADER + 1);
        prop_assert!(messages.iter().rev().skip(1).all(Result::is_ok), "nothing follows an error");
        for message in messages.into_iter().flatten() {
            let _ = (message.code(), message.words(), message.attributes(8).count());
        }
        let attributes: Vec<_> = Attributes::new(&bytes).collect();
        prop_assert!(attributes.len() <= bytes.len() / ATTRIBUTE + 1);
        for attribute in attributes.into_iter().flatten() {
            let _ = (attribute.u8("x"), attribute.u32("x"), attribute.u64("x"), attribute.text("x"), attribute.nest().count());
        }
    }

    #[test]
    fn what_was_put_is_read(
        kind: u16, flags: u16, sequence: u32,
        fixed in prop::collection::vec(any::<u8>(), 0..9),
        values in prop::collection::vec((0u16..0x4000, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        more in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let mut builder = Builder::message(kind, flags, &fixed);
        for (kind, value) in &values {
            builder = builder.put(*kind, value);
        }
        builder = builder.nest(9, |inside| inside.put(3, &more));
        let bytes = builder.finish(sequence);
        let read: Vec<_> = Messages::new(&bytes).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!((read[0].kind, read[0].flags, read[0].sequence), (kind, flags, sequence));
        let attributes: Vec<_> = read[0].attributes(fixed.len()).collect::<Result<_, _>>().unwrap();
        let (nest, flat) = attributes.split_last().unwrap();
        let flat: Vec<_> = flat.iter().map(|a| (a.kind, a.value.to_vec())).collect();
        prop_assert_eq!(flat, values);
        let inside: Vec<_> = nest.nest().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(inside, vec![Attribute { kind: 3, value: &more }]);
    }
}
