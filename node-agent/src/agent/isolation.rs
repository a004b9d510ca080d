//! How far this server keeps jobs apart: what each part of the agent found out about its features, put together for the inventory.

use proto_model::{Isolation, IsolationFeature, IsolationState};

/// What the parts of the agent say; of a feature that none of them names, that it is absent. What an inventory file says of isolation
/// does not count: a feature is only there where this agent sets it up.
pub(crate) fn found(said: impl IntoIterator<Item = IsolationState>) -> Isolation {
    let silent = |feature: &IsolationFeature| {
        IsolationState::absent(*feature, "this agent does not set it up", "upgrade rail-node-agent")
    };
    Isolation::new(IsolationFeature::ALL.iter().map(silent).chain(said))
}

#[cfg(test)]
mod tests {
    use proto_model::IsolationSet;

    use super::*;

    #[test]
    fn every_feature_is_told_and_only_what_was_found_is_active() {
        let seccomp = IsolationState::active(IsolationFeature::Seccomp, "a list of system calls");
        let isolation = found([seccomp]);
        assert_eq!(isolation.states().len(), IsolationFeature::ALL.len());
        assert_eq!(isolation.active(), IsolationSet::of(&[IsolationFeature::Seccomp]));
    }
}
