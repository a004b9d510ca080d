//! One packet of the probe: 64 bytes with a proof of the job's key, and padding up to the size that is tried.

use aws_lc_rs::hmac;

const MAGIC: [u8; 4] = *b"RYPB";
const VERSION: u8 = 2;
/// Bytes of a packet that its proof is of.
pub const SIGNED: usize = 48;
/// Bytes of a packet without padding.
pub const BYTES: usize = 64;

/// What a packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// "Answer, with this many bytes of payload."
    Ask {
        /// Bytes, 0 for no padding.
        reply: u32,
    },
    /// To [`Body::Ask`] and [`Body::Done`].
    Answer {
        /// Bytes of payload that arrived.
        seen: u32,
        /// The DSCP that they had.
        dscp: Option<u8>,
        /// The round that the answering node is in.
        at: u32,
        /// Asks of this conversation on this rail, so far.
        asks: u32,
        /// Packets that came to this port and found no room in its socket, so far.
        dropped: u32,
    },
    /// One of a burst.
    Burst {
        /// Number of packets of the burst.
        of: u32,
    },
    /// "Send me a burst."
    Please {
        /// Number of packets that the burst is to have.
        packets: u32,
        /// Bytes of payload of each.
        bytes: u32,
    },
    /// "How did my burst arrive?"
    Ended,
    /// To [`Body::Ended`]; and behind a burst that was asked for.
    Arrived {
        /// Mbit/s; 0 if it could not be seen.
        mbps: u32,
        /// Number of the burst's packets that arrived.
        packets: u32,
        /// Of a burst that was asked for: how long its sender took for the second half of it, in nanoseconds, without waiting for
        /// the rail; 0 if it was not sent to its end.
        pace_ns: u32,
        /// Packets that found no room in the socket so far, as in [`Body::Answer`].
        dropped: u32,
    },
    /// "This turn is over." Answered.
    Done,
}

/// A packet of a probe, as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The node that sends it.
    pub from: u16,
    /// The node that it is for.
    pub to: u16,
    /// The round of the conversation.
    pub round: u32,
    /// The conversation; chosen at random by who began it.
    pub nonce: u64,
    /// Number of the question, repeated in its answer.
    pub sequence: u32,
    /// What it asks, answers or carries.
    pub body: Body,
}

/// Makes and checks proofs.
#[derive(Debug)]
pub struct Seal(hmac::Key);

impl Seal {
    /// For one attempt of one job.
    #[must_use]
    pub fn new(key: &[u8; 32], job_uid: &str, attempt: u32) -> Self {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        context.update(b"rail probe");
        context.update(&attempt.to_le_bytes());
        context.update(job_uid.as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, context.sign().as_ref()))
    }

    /// A packet of these bytes, whatever they say, with the right proof.
    #[must_use]
    pub fn sealed(&self, signed: &[u8; SIGNED]) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let (head, proof) = out.split_at_mut(SIGNED);
        head.copy_from_slice(signed);
        proof.copy_from_slice(&self.proof(signed));
        out
    }

    fn proof(&self, signed: &[u8]) -> [u8; BYTES - SIGNED] {
        let mut proof = [0; BYTES - SIGNED];
        let whole = hmac::sign(&self.0, signed);
        proof.iter_mut().zip(whole.as_ref()).for_each(|(to, from)| *to = *from);
        proof
    }
}

impl Packet {
    /// Its bytes without padding.
    #[must_use]
    pub fn encode(&self, seal: &Seal) -> [u8; BYTES] {
        let none = u32::from(u8::MAX) + 1;
        let (kind, words): (u8, [u32; 5]) = match self.body {
            Body::Ask { reply } => (1, [reply, 0, 0, 0, 0]),
            Body::Answer { seen, dscp, at, asks, dropped } => {
                (2, [seen, dscp.map_or(none, u32::from), at, asks, dropped])
            }
            Body::Burst { of } => (3, [of, 0, 0, 0, 0]),
            Body::Please { packets, bytes } => (4, [packets, bytes, 0, 0, 0]),
            Body::Ended => (5, [0; 5]),
            Body::Arrived { mbps, packets, pace_ns, dropped } => (6, [mbps, packets, pace_ns, dropped, 0]),
            Body::Done => (7, [0; 5]),
        };
        let mut out = [0; SIGNED];
        let [a, b, c, d, e] = words.map(u32::to_le_bytes);
        let parts: [&[u8]; 12] = [
            &MAGIC,
            &[VERSION, kind],
            &self.from.to_le_bytes(),
            &self.to.to_le_bytes(),
            &self.round.to_le_bytes(),
            &self.nonce.to_le_bytes(),
            &self.sequence.to_le_bytes(),
            &a,
            &b,
            &c,
            &d,
            &e,
        ];
        let mut at = 0;
        for part in parts {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        seal.sealed(&out)
    }

    /// A packet of this job, or `None`. What follows the first 64 bytes is padding.
    #[must_use]
    pub fn decode(bytes: &[u8], seal: &Seal) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk::<BYTES>()?;
        let (signed, proof) = head.split_at(SIGNED);
        if signed[..5] != [MAGIC.as_slice(), &[VERSION]].concat() {
            return None;
        }
        let own = seal.proof(signed);
        aws_lc_rs::constant_time::verify_slices_are_equal(&own, proof).ok()?;
        let word = |at: usize| Some(u32::from_le_bytes(*signed.get(at..)?.first_chunk::<4>()?));
        let half = |at: usize| Some(u16::from_le_bytes(*signed.get(at..)?.first_chunk::<2>()?));
        let [a, b, c, d, e] = [word(26)?, word(30)?, word(34)?, word(38)?, word(42)?];
        let body = match signed[5] {
            1 => Body::Ask { reply: a },
            2 => Body::Answer { seen: a, dscp: u8::try_from(b).ok(), at: c, asks: d, dropped: e },
            3 => Body::Burst { of: a },
            4 => Body::Please { packets: a, bytes: b },
            5 => Body::Ended,
            6 => Body::Arrived { mbps: a, packets: b, pace_ns: c, dropped: d },
            7 => Body::Done,
            _ => return None,
        };
        let nonce = u64::from_le_bytes(*signed.get(14..)?.first_chunk::<8>()?);
        Some(Self { from: half(6)?, to: half(8)?, round: word(10)?, nonce, sequence: word(22)?, body })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_body() -> impl Strategy<Value = Body> {
        let answer = |(seen, dscp, at, asks, dropped)| Body::Answer { seen, dscp, at, asks, dropped };
        let arrived = |(mbps, packets, pace_ns, dropped)| Body::Arrived { mbps, packets, pace_ns, dropped };
        prop_oneof![
            any::<u32>().prop_map(|reply| Body::Ask { reply }),
            any::<(u32, Option<u8>, u32, u32, u32)>().prop_map(answer),
            any::<u32>().prop_map(|of| Body::Burst { of }),
            any::<(u32, u32)>().prop_map(|(packets, bytes)| Body::Please { packets, bytes }),
            Just(Body::Ended),
            any::<(u32, u32, u32, u32)>().prop_map(arrived),
            Just(Body::Done),
        ]
    }

    proptest! {
        #[test]
        fn a_packet_comes_back_and_nothing_else_passes(
            from: u16, to: u16, round: u32, nonce: u64, sequence: u32, body in any_body(), at in 0_usize..BYTES, bit in 0_u8..8,
        ) {
            let seal = Seal::new(&[7; 32], "job", 1);
            let packet = Packet { from, to, round, nonce, sequence, body };
            let bytes = packet.encode(&seal);
            prop_assert_eq!(Packet::decode(&bytes, &seal), Some(packet));
            let padded = [bytes.as_slice(), &[0; 100]].concat();
            prop_assert_eq!(Packet::decode(&padded, &seal), Some(packet));
            let mut wrong = bytes;
            wrong[at] ^= 1 << bit;
            prop_assert_eq!(Packet::decode(&wrong, &seal), None);
            prop_assert_eq!(Packet::decode(&bytes[..at], &seal), None);
            for other in [Seal::new(&[8; 32], "job", 1), Seal::new(&[7; 32], "jobs", 1), Seal::new(&[7; 32], "job", 2)] {
                prop_assert_eq!(Packet::decode(&bytes, &other), None);
            }
        }
    }
}
