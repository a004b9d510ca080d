//! Frames of steps, between a job's supervisor and the agent: whole ones are taken one by one and what they mean survives being written
//! and read again; what is too long or damaged is refused before room is made for it.

use node_agent_attempt::step_frames::{FRAME_MAX, ORDER_MAX, encode, take};
use proto_model::{StepInput, StepOrder, StepRequest, StepWork};
use proto_wire::v1;

/// The bytes as what a caller sends: an order, then input; and as what is answered.
pub fn run(data: &[u8]) {
    let mut held = data.to_vec();
    if let Ok(Some(wire)) = take::<v1::StepOrder>(&mut held, ORDER_MAX)
        && let Ok(order) = StepOrder::try_from(wire)
    {
        assert!(order.work != StepWork::default() && order.ranks_here <= StepRequest::RANKS_PER_NODE);
        let mut again = encode(&v1::StepOrder::from(order.clone()));
        let read = take::<v1::StepOrder>(&mut again, ORDER_MAX);
        assert_eq!(read.ok().flatten().and_then(|wire| StepOrder::try_from(wire).ok()), Some(order));
    }
    let mut length = held.len();
    while let Ok(Some(wire)) = take::<v1::StepInput>(&mut held, FRAME_MAX) {
        assert!(held.len() < length, "every frame takes something");
        length = held.len();
        let Ok(input) = StepInput::try_from(wire) else { continue };
        if let StepInput::Data(data) = &input {
            assert!(data.len() <= StepRequest::CHUNK);
        }
        assert_eq!(StepInput::try_from(v1::StepInput::from(input.clone())).ok(), Some(input));
    }
    let mut held = data.to_vec();
    while let Ok(Some(event)) = take::<v1::StepEvent>(&mut held, FRAME_MAX) {
        let mut again = encode(&event);
        assert_eq!(take(&mut again, usize::MAX).ok(), Some(Some(event)));
        assert!(again.is_empty());
    }
}
