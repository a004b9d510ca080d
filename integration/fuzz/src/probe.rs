//! A packet of the probe before a job starts: nobody gets in without the key, and what is read with it survives being written.

use node_agent_probe::packet::{BYTES, Packet, SIGNED, Seal};

/// The bytes as a packet as it comes, and as one whose sender knows the key.
pub fn run(data: &[u8]) {
    let (own, other) = (Seal::new(&[7; 32], "job", 1), Seal::new(&[7; 32], "job", 2));
    if let Some(packet) = Packet::decode(data, &own) {
        assert_eq!(Packet::decode(data, &other), None, "it is of another attempt");
        written(&packet, &own);
    }
    let mut signed = [0; SIGNED];
    signed.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    let mut bytes = own.sealed(&signed).to_vec();
    assert_eq!(Packet::decode(&bytes, &other), None);
    let packet = Packet::decode(&bytes, &own);
    if let Some(packet) = &packet {
        written(packet, &own);
    }
    // Padding says nothing, and what is cut is nothing.
    bytes.extend_from_slice(data.get(SIGNED..).unwrap_or_default());
    assert_eq!(Packet::decode(&bytes, &own), packet);
    assert_eq!(Packet::decode(&bytes[..BYTES - 1], &own), None);
}

fn written(packet: &Packet, seal: &Seal) {
    assert_eq!(Packet::decode(&packet.encode(seal), seal), Some(*packet));
}
