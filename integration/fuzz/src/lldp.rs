//! LLDP: facts as text against a small fabric, and frames and answers of lldpcli as the agent reads them.

use controller_fabric::{Shape, generate, lldp, verify};

/// Reads the bytes as facts, as a frame and as an answer; what is heard is compared, and the moves never use a port twice.
pub fn run(data: &[u8]) {
    let _ = node_agent_host::lldp::neighbor(data);
    let _ = node_agent_host::lldp::neighbors(data);
    let heard = match lldp::read(data) {
        Ok(heard) => heard,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(heard.facts, heard.neighbors.len() + heard.left_out);
    assert!(heard.faults.len() >= heard.left_out);
    let shape = Shape { nodes: 4, rails: 2, radix: 8, ..Shape::default() };
    let Ok(made) = generate(&shape) else { return };
    for exact in [false, true] {
        let verdict = verify(&made.fabric, &heard.neighbors, exact);
        assert_eq!(verdict.planned, 8);
        assert!(verdict.right + verdict.wrong.len() + verdict.other_port.len() <= verdict.planned);
        assert!(verdict.moves.len() <= 3 * (heard.neighbors.len() + 1));
    }
}
