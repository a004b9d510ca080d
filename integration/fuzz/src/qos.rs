//! Class of service: profiles, and NICs as they were read. Whatever a NIC is said to be, there is a verdict and a plan or a refusal.

use node_agent_qos::{Options, QosProfile, diff, document, plan, profile, vendor};

/// Reads the text as both.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match profile::from_json(text) {
        Ok(read) => {
            let again = serde_json::to_string(read.spec()).unwrap_or_default();
            assert_eq!(profile::from_json(&again).ok().as_ref(), Some(&read), "{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match document::from_json(text) {
        Ok(all) => {
            let wanted = QosProfile::default();
            for seen in all.iter().take(16) {
                let vendor = vendor::of(seen);
                let verdict = diff(&wanted, seen, vendor);
                if let Ok(plan) = plan(&wanted, seen, vendor, Options { force: true, ..Options::default() }) {
                    assert!(plan.edits.is_empty() || !verdict.deviations.is_empty(), "{text}");
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
