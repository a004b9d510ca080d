//! What a rank is started with: the tenant's part never reaches the supervisor's, and what is taken can be passed to a program.

use node_agent_rank::exec::launch::{Program, divide};

/// The bytes as a whole launch, and as the tenant's part of one.
pub fn run(data: &[u8]) {
    if let Ok((confinement, rest)) = divide(data) {
        // Whatever follows the first line changes nothing of it.
        let first = &data[..data.len() - rest.len()];
        let again = divide(first).map(|(again, rest)| (again, rest.is_empty()));
        assert_eq!(again.ok(), Some((confinement, true)));
        taken(rest);
    }
    taken(data);
}

fn taken(bytes: &[u8]) {
    let Ok(program) = Program::decode(bytes) else { return };
    assert!(!program.argv.is_empty() && !program.argv[0].is_empty());
    let texts = program.argv.iter().chain(program.environment.keys()).chain(program.environment.values());
    assert!(texts.clone().all(|text| !text.contains('\0')));
    assert!(program.environment.keys().all(|name| !name.is_empty() && !name.contains('=')));
    // A path that is read from text can be written as text, and all of it is as before.
    let text = serde_json::to_vec(&program).unwrap_or_default();
    if let Ok(again) = Program::decode(&text) {
        assert_eq!(again, program);
    }
}
