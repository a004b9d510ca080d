//! What NCCL's plugin reads: handles that other ranks made, and what they notify; a rank goes on whatever they say.

use rail_nccl_net::core::handle::{HANDLE_BYTES, note, set_note};
use rail_nccl_net::core::wire::Message;
use rail_nccl_net::core::{Action, Handle, Identity, Limits, Machine};

/// Bytes of one notification: the rank that makes it, and its words.
const NOTIFICATION: usize = 25;
/// The job's digest, and its attempt.
const JOB: (u64, u32) = (1, 1);

/// The bytes as a handle, and as notifications of rank 1 and of this one.
pub fn run(data: &[u8]) {
    let limits = Limits { slots: 4, bytes: 1 << 20 };
    let identity = Identity { job: JOB.0, attempt: JOB.1, rank: 0, world: 2, life: 0 };
    let mut machine = Machine::new(identity, limits);
    if let Some(handle) = data.first_chunk::<HANDLE_BYTES>() {
        if let Ok(read) = Handle::decode(handle) {
            let mut again = read.encode();
            set_note(&mut again, note(handle));
            assert_eq!(Handle::decode(&again), Ok(read), "the same handle");
        }
        let _ = machine.connect(handle);
    }
    // Something to speak of: a listener with a connection, and one of ours that waits.
    let Ok((listener, own)) = machine.listen() else { return };
    let _ = machine.connect(&own);
    for record in data.chunks_exact(NOTIFICATION) {
        let words = [1, 9, 17].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(word)
        });
        if let Some(message) = Message::read(words) {
            assert_eq!(message.words(), words, "the same message");
        }
        machine.on_notification(u32::from(record[0] & 1), words);
        if let Ok(Some(receiver)) = machine.accept(listener) {
            let _ = machine.receive(receiver, &[(100, 0), (1, -1)]);
        }
        act(&mut machine);
    }
}

/// Does what the machine wants, as far as it goes.
fn act(machine: &mut Machine) {
    for _ in 0..64 {
        let ended = match machine.next_action() {
            None => return,
            Some(Action::Notify { .. }) => {
                machine.notified();
                None
            }
            Some(Action::Send { .. }) => machine.send_begun(),
            Some(Action::Receive { .. }) => machine.receive_begun(),
        };
        if let Some(transfer) = ended {
            machine.ended(transfer);
        }
    }
}
