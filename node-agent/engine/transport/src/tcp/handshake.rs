//! Mutual authentication of a connection by the job key, without IO.
//!
//! The node with the higher index dials. Every message has a fixed length, so nothing can be too long:
//! 1. dialer: hello (magic, version, nodes, rail, attempt, epoch, generation, digest of the job's uid, nonce);
//! 2. listener: its nonce, and HMAC-SHA256(key, "listener", hello, nonce);
//! 3. dialer: HMAC-SHA256(key, "dialer", hello, nonce);
//! 4. listener: welcome. From here on frames.
//!
//! The generation names the life of the link that this attempt becomes. The dialer counts its attempts, so it rises; a proof
//! covers it like everything in the hello. Whether it is the latest is for the listener's owner to judge.
//!
//! Byte 5 of the hello also says, from its second bit on, how what follows the handshake is protected ([`super::sealed`]). Both ends were
//! given the same, so another hello is a stranger's; and who is on the way cannot change it, for the proofs cover it.
//!
//! Byte 5 of the hello says whether the dialer can carry the link by a channel; where the listener can too it says so in its welcome, and
//! each then offers its end of the channel, sealed with the key for this conversation and this side ([`Handshake::seal`]).
//!
//! Both nonces are random, so an old conversation proves nothing; the labels keep a proof from being sent back.

use aws_lc_rs::{digest, hmac};
use node_agent_collective::units::{Node, Rail};

use super::sealed::Protection;

const MAGIC: [u8; 4] = *b"RLHI";
const VERSION: u8 = 2;
const WELCOME: [u8; 8] = *b"RLWELCOM";
const NONCE: usize = 32;
const MAC: usize = 32;
/// "Welcome, and we go on to join a channel": where both ends can carry the link otherwise than by the connection.
const WELCOME_CHANNEL: [u8; 8] = *b"RLWELANE";
/// Where a hello says whether the dialer can carry the link otherwise.
const CARRIES: usize = 5;
/// Where a hello holds the generation.
const GENERATION: usize = 24;
/// Bytes of a hello.
pub const HELLO: usize = GENERATION + 4 + digest::SHA256_OUTPUT_LEN + NONCE;

/// What this node is, and the key.
#[derive(Debug)]
pub struct Party {
    pub node: Node,
    pub nodes: usize,
    pub attempt: u32,
    pub epoch: u64,
    /// What is done to what follows the handshake.
    pub protection: Protection,
    uid: [u8; digest::SHA256_OUTPUT_LEN],
    key: hmac::Key,
}

impl Party {
    pub fn new(node: Node, nodes: usize, job_uid: &str, attempt: u32, epoch: u64, key: &[u8; 32]) -> Self {
        let mut uid = [0; digest::SHA256_OUTPUT_LEN];
        uid.copy_from_slice(digest::digest(&digest::SHA256, job_uid.as_bytes()).as_ref());
        let (key, protection) = (hmac::Key::new(hmac::HMAC_SHA256, key), Protection::None);
        Party { node, nodes, attempt, epoch, protection, uid, key }
    }

    /// The same, of a job whose links are protected.
    #[must_use]
    pub fn protecting(self, protection: Protection) -> Self {
        Party { protection, ..self }
    }

    fn hello(&self, to: Node, rail: Rail, generation: u32, nonce: &[u8; NONCE]) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        let parts: [&[u8]; 10] = [
            &MAGIC,
            &[VERSION, self.protection.code() << 1],
            &self.node.to_le_bytes(),
            &to.to_le_bytes(),
            &rail.to_le_bytes(),
            &self.attempt.to_le_bytes(),
            &self.epoch.to_le_bytes(),
            &generation.to_le_bytes(),
            &self.uid,
            nonce,
        ];
        let mut at = 0;
        for part in parts {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        out
    }

    fn mac(&self, label: &[u8], hello: &[u8], nonce: &[u8]) -> [u8; MAC] {
        let mut context = hmac::Context::with_key(&self.key);
        [label, hello, nonce].iter().for_each(|part| context.update(part));
        let mut out = [0; MAC];
        out.copy_from_slice(context.sign().as_ref());
        out
    }

    fn proves(&self, label: &[u8], hello: &[u8], nonce: &[u8], mac: &[u8]) -> bool {
        let message: Vec<u8> = [label, hello, nonce].concat();
        hmac::verify(&self.key, &message, mac).is_ok()
    }
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No message of this protocol.
    #[error("no hello of this protocol")]
    Garbage,
    /// Another job, attempt, epoch, node or rail.
    #[error("hello of another job, attempt, epoch, node or rail")]
    Stranger,
    /// The proof was not made with the job key.
    #[error("wrong job key")]
    WrongKey,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Dialer,
    Listener,
}

impl Side {
    /// The side at the other end of the connection.
    pub fn other(self) -> Self {
        match self {
            Side::Dialer => Side::Listener,
            Side::Listener => Side::Dialer,
        }
    }

    fn label(self) -> &'static [u8] {
        match self {
            Side::Dialer => b"dialer's offer",
            Side::Listener => b"listener's offer",
        }
    }
}

/// A proof that a message was made by one end of one conversation.
#[derive(Debug)]
pub struct Seal(pub [u8; MAC]);

impl Seal {
    /// Length of a seal, in bytes.
    pub const BYTES: usize = MAC;
}

#[derive(Debug)]
enum Stage {
    /// Listener: waits for the hello.
    Hello,
    /// Listener: waits for the dialer's proof.
    Proof { peer: Node },
    /// Dialer: waits for the listener's nonce and proof.
    Challenge { peer: Node },
    /// Dialer: waits for the welcome.
    Welcome { peer: Node },
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    stage: Stage,
    rail: Rail,
    hello: [u8; HELLO],
    nonce: [u8; NONCE],
    /// This end can carry the link by a channel; once the handshake is over: both can.
    carries: bool,
}

/// What follows from a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// The message to be sent to the peer now; empty where there is none.
    pub send: Vec<u8>,
    /// The handshake is over: this is the peer, and the generation of the link.
    pub done: Option<(Node, u32)>,
}

impl Handshake {
    /// A listener's side on a rail.
    pub fn listener(rail: Rail, nonce: [u8; NONCE]) -> Self {
        Handshake { stage: Stage::Hello, rail, hello: [0; HELLO], nonce, carries: false }
    }

    /// A listener that can carry the link by a channel.
    #[must_use]
    pub fn carrying(self) -> Self {
        Handshake { carries: true, ..self }
    }

    /// A dialer's side; what it holds as hello is to be sent first.
    pub fn dialer(
        party: &Party,
        peer: Node,
        rail: Rail,
        generation: u32,
        nonce: [u8; NONCE],
    ) -> (Self, Vec<u8>) {
        Self::dialer_that(party, peer, rail, generation, nonce, false)
    }

    /// As [`Handshake::dialer`], saying whether it can carry the link by a channel.
    pub fn dialer_that(
        party: &Party,
        peer: Node,
        rail: Rail,
        generation: u32,
        nonce: [u8; NONCE],
        carries: bool,
    ) -> (Self, Vec<u8>) {
        let mut hello = party.hello(peer, rail, generation, &nonce);
        hello[CARRIES] |= u8::from(carries);
        let stage = Stage::Challenge { peer };
        (Handshake { stage, rail, hello, nonce: [0; NONCE], carries }, hello.to_vec())
    }

    /// Once the handshake is over: whether both ends go on to join a channel.
    pub fn carries(&self) -> bool {
        self.carries
    }

    /// Seals a message of one end of this conversation, once the handshake is over.
    pub fn seal(&self, party: &Party, side: Side, message: &[u8]) -> Seal {
        Seal(party.mac(side.label(), &self.hello, &[&self.nonce, message].concat()))
    }

    /// Whether that end sealed this message.
    pub fn is_sealed(&self, party: &Party, side: Side, message: &[u8], seal: &[u8]) -> bool {
        party.proves(side.label(), &self.hello, &[&self.nonce, message].concat(), seal)
    }

    /// Once the handshake is over: the secret of what that end sends on this connection, and on no other.
    pub fn secret(&self, party: &Party, side: Side) -> [u8; MAC] {
        let label: &[u8] = match side {
            Side::Dialer => b"records of the dialer",
            Side::Listener => b"records of the listener",
        };
        party.mac(label, &self.hello, &self.nonce)
    }

    fn generation(&self) -> u32 {
        let rest = &self.hello[GENERATION..];
        u32::from_le_bytes(rest.first_chunk().copied().unwrap_or_default())
    }

    /// Length of the message that is awaited.
    pub fn expects(&self) -> usize {
        match self.stage {
            Stage::Hello => HELLO,
            Stage::Proof { .. } => MAC,
            Stage::Challenge { .. } => NONCE + MAC,
            Stage::Welcome { .. } => WELCOME.len(),
        }
    }

    /// Whether the first bytes of a message can still become one.
    pub fn plausible(&self, start: &[u8]) -> bool {
        let expected: &[u8] = match self.stage {
            Stage::Hello => &[MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION],
            Stage::Welcome { .. } if self.carries && start.get(5) == Some(&WELCOME_CHANNEL[5]) => {
                &WELCOME_CHANNEL
            }
            Stage::Welcome { .. } => &WELCOME,
            _ => &[],
        };
        start.iter().zip(expected).all(|(a, b)| a == b)
    }

    /// Takes a message of the awaited length.
    ///
    /// # Errors
    /// [`Refused`]: the message is none of this handshake, names another job or node, or was not made with the job key.
    pub fn take(&mut self, message: &[u8], party: &Party) -> Result<Next, Refused> {
        if message.len() != self.expects() || !self.plausible(message) {
            return Err(Refused::Garbage);
        }
        match self.stage {
            Stage::Hello => {
                self.hello.copy_from_slice(message);
                let peer = Node::from_le_bytes([message[6], message[7]]);
                let nonce: [u8; NONCE] = message.last_chunk().copied().unwrap_or_default();
                let other = Party {
                    node: peer,
                    nodes: party.nodes,
                    attempt: party.attempt,
                    epoch: party.epoch,
                    protection: party.protection,
                    uid: party.uid,
                    key: party.key.clone(),
                };
                let mut expected = other.hello(party.node, self.rail, self.generation(), &nonce);
                expected[CARRIES] |= message[CARRIES] & 1;
                self.carries &= message[CARRIES] & 1 == 1;
                if expected != self.hello || peer <= party.node || usize::from(peer) >= party.nodes {
                    return Err(Refused::Stranger);
                }
                self.stage = Stage::Proof { peer };
                let mac = party.mac(b"listener", &self.hello, &self.nonce);
                Ok(Next { send: [&self.nonce[..], &mac].concat(), done: None })
            }
            Stage::Challenge { peer } => {
                let (nonce, mac) = message.split_at(NONCE);
                if !party.proves(b"listener", &self.hello, nonce, mac) {
                    return Err(Refused::WrongKey);
                }
                self.stage = Stage::Welcome { peer };
                self.nonce = nonce.first_chunk().copied().unwrap_or_default();
                Ok(Next { send: party.mac(b"dialer", &self.hello, nonce).to_vec(), done: None })
            }
            Stage::Proof { peer } => {
                if !party.proves(b"dialer", &self.hello, &self.nonce, message) {
                    return Err(Refused::WrongKey);
                }
                let welcome = if self.carries { WELCOME_CHANNEL } else { WELCOME };
                Ok(Next { send: welcome.to_vec(), done: Some((peer, self.generation())) })
            }
            Stage::Welcome { peer } => {
                self.carries = message == WELCOME_CHANNEL;
                Ok(Next { send: Vec::new(), done: Some((peer, self.generation())) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn party(node: Node, key: u8) -> Party {
        Party::new(node, 4, "uid", 1, 7, &[key; 32])
    }

    type Met = (Node, u32);

    /// Runs a handshake; gives the peer that each side found, or which side refused and why.
    fn meet(dialer: &Party, listener: &Party, rails: (Rail, Rail)) -> Result<(Met, Met), Refused> {
        let (mut d, hello) = Handshake::dialer(dialer, listener.node, rails.0, 77, [1; NONCE]);
        let mut l = Handshake::listener(rails.1, [2; NONCE]);
        let challenge = l.take(&hello, listener)?.send;
        let proof = d.take(&challenge, dialer)?.send;
        let last = l.take(&proof, listener)?;
        let met = d.take(&last.send, dialer)?.done.unwrap();
        Ok((met, last.done.unwrap()))
    }

    #[test]
    fn those_who_know_the_key_meet() {
        assert_eq!(meet(&party(3, 9), &party(1, 9), (2, 2)), Ok(((1, 77), (3, 77))));
    }

    #[test]
    fn others_are_refused() {
        let stranger = Err(Refused::Stranger);
        assert_eq!(meet(&party(3, 9), &party(1, 8), (2, 2)), Err(Refused::WrongKey));
        assert_eq!(meet(&party(3, 9), &party(1, 9), (2, 1)), stranger);
        assert_eq!(meet(&party(1, 9), &party(3, 9), (2, 2)), stranger);
        assert_eq!(meet(&party(1, 9), &party(1, 9), (2, 2)), stranger);
        for other in [
            Party::new(3, 4, "other", 1, 7, &[9; 32]),
            Party::new(3, 4, "uid", 2, 7, &[9; 32]),
            Party::new(3, 4, "uid", 1, 8, &[9; 32]),
            Party::new(4, 5, "uid", 1, 7, &[9; 32]),
        ] {
            assert_eq!(meet(&other, &party(1, 9), (2, 2)), stranger);
        }
    }

    /// The whole conversation of two ends that can carry the link, or not; what both know at its end.
    fn converse(dialer_can: bool, listener_can: bool) -> (Handshake, Handshake) {
        let (dialer, listener) = (party(3, 9), party(1, 9));
        let (mut d, hello) = Handshake::dialer_that(&dialer, 1, 0, 1, [1; NONCE], dialer_can);
        let mut l = Handshake::listener(0, [2; NONCE]);
        l.carries = listener_can;
        let challenge = l.take(&hello, &listener).unwrap().send;
        let proof = d.take(&challenge, &dialer).unwrap().send;
        let welcome = l.take(&proof, &listener).unwrap().send;
        assert!((0..8).all(|n| d.plausible(&welcome[..n])));
        assert_eq!(d.take(&welcome, &dialer).unwrap().done, Some((1, 1)));
        (d, l)
    }

    #[test]
    fn a_channel_is_joined_where_both_ends_can() {
        for (dialer, listener) in [(false, false), (true, false), (false, true), (true, true)] {
            let (d, l) = converse(dialer, listener);
            assert_eq!((d.carries(), l.carries()), (dialer && listener, dialer && listener));
        }
        // A hello that was changed on its way in this byte is known by the proof over it.
        let (mut dialer, mut hello) = Handshake::dialer_that(&party(3, 9), 1, 0, 5, [1; NONCE], false);
        hello[CARRIES] = 1;
        let challenge =
            Handshake::listener(0, [2; NONCE]).carrying().take(&hello, &party(1, 9)).unwrap().send;
        assert_eq!(dialer.take(&challenge, &party(3, 9)), Err(Refused::WrongKey));
        hello[CARRIES] = 2;
        assert_eq!(Handshake::listener(0, [2; NONCE]).take(&hello, &party(1, 9)), Err(Refused::Stranger));
        // Who cannot carry is not welcomed to a channel.
        let (mut d, _) = Handshake::dialer(&party(3, 9), 1, 0, 1, [1; NONCE]);
        d.stage = Stage::Welcome { peer: 1 };
        assert_eq!(d.take(&WELCOME_CHANNEL, &party(3, 9)), Err(Refused::Garbage));
    }

    #[test]
    fn a_seal_is_good_for_one_side_of_one_conversation_and_one_message() {
        let (d, l) = converse(true, true);
        let seal = d.seal(&party(3, 9), Side::Dialer, b"offer").0;
        assert!(l.is_sealed(&party(1, 9), Side::Dialer, b"offer", &seal));
        assert!(!l.is_sealed(&party(1, 9), Side::Listener, b"offer", &seal));
        assert!(!l.is_sealed(&party(1, 9), Side::Dialer, b"offes", &seal));
        assert!(!l.is_sealed(&party(1, 8), Side::Dialer, b"offer", &seal));
        assert!(!l.is_sealed(&party(1, 9), Side::Dialer, b"offer", &seal[1..]));
        let other = Handshake { nonce: [7; NONCE], ..converse(true, true).1 };
        assert!(!other.is_sealed(&party(1, 9), Side::Dialer, b"offer", &seal));
    }

    #[test]
    fn both_ends_have_the_same_two_secrets_and_no_other_conversation_has_them() {
        let (dialer, listener) = (party(3, 9), party(1, 9));
        let (d, l) = converse(false, false);
        let all = [
            d.secret(&dialer, Side::Dialer),
            d.secret(&dialer, Side::Listener),
            Handshake { nonce: [7; NONCE], ..converse(false, false).1 }.secret(&listener, Side::Dialer),
            l.secret(&party(1, 8), Side::Dialer),
        ];
        assert_eq!([l.secret(&listener, Side::Dialer), l.secret(&listener, Side::Listener)], all[..2]);
        assert!((0..4).all(|a| (0..a).all(|b| all[a] != all[b])));
    }

    #[test]
    fn ends_that_protect_otherwise_are_strangers_and_nobody_on_the_way_changes_that() {
        use Protection::{Encrypted, Integrity, None};
        let kinds = [None, Integrity, Encrypted];
        for (one, other) in kinds.into_iter().flat_map(|one| kinds.map(|other| (one, other))) {
            let (dialer, listener) = (party(3, 9).protecting(one), party(1, 9).protecting(other));
            let met = meet(&dialer, &listener, (2, 2));
            assert_eq!(met.is_ok(), one == other, "{one:?} {other:?}");
            // Who makes a protected hello one without protection is found out by the proof.
            let (mut d, mut hello) = Handshake::dialer(&dialer, 1, 0, 1, [1; NONCE]);
            hello[CARRIES] = other.code() << 1;
            let challenge = Handshake::listener(0, [2; NONCE]).take(&hello, &listener).unwrap().send;
            assert_eq!(d.take(&challenge, &dialer).is_ok(), one == other);
        }
    }

    #[test]
    fn a_proof_sent_back_proves_nothing() {
        let (dialer, listener) = (party(3, 9), party(1, 9));
        let (_, hello) = Handshake::dialer(&dialer, 1, 0, 1, [1; NONCE]);
        let mut l = Handshake::listener(0, [2; NONCE]);
        let challenge = l.take(&hello, &listener).unwrap().send;
        assert_eq!(l.take(&challenge[NONCE..], &listener), Err(Refused::WrongKey));
    }

    #[test]
    fn a_changed_generation_is_refused() {
        let (mut dialer, hello) = Handshake::dialer(&party(3, 9), 1, 0, 5, [1; NONCE]);
        for byte in GENERATION..GENERATION + 4 {
            let (mut changed, mut listener) = (hello.clone(), Handshake::listener(0, [2; NONCE]));
            changed[byte] ^= 1;
            let challenge = listener.take(&changed, &party(1, 9)).unwrap().send;
            assert_eq!(dialer.take(&challenge, &party(3, 9)), Err(Refused::WrongKey));
        }
    }

    proptest! {
        #[test]
        fn random_messages_never_pass(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..HELLO) {
            let listener = party(1, 9);
            prop_assert!(Handshake::listener(0, [2; NONCE]).take(&bytes, &listener).is_err());
            let (_, mut hello) = Handshake::dialer(&party(3, 9), 1, 0, 1, [1; NONCE]);
            let mut l = Handshake::listener(0, [2; NONCE]);
            hello[cut] ^= bytes.first().copied().unwrap_or(0);
            if let Ok(next) = l.take(&hello, &listener) {
                prop_assert_eq!(next.done, None);
                prop_assert!(l.take(&[7; MAC], &listener).is_err());
            }
        }
    }
}
