//! How rows are printed that hold what must be in no log.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        f.debug_struct("Values")
            .field("metadata", &self.metadata)
            .field("status", &self.status)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::WebhookSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSpec").field("events", &self.events).finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("job_uid", &self.job_uid)
            .field("attempt", &self.attempt)
            .field("peers", &self.peers)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey(..)")
    }
}

impl fmt::Debug for v1::JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("node", &self.node).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let values = v1::Values { data: [("token".into(), "hunter2".into())].into(), ..Default::default() };
        let spec = v1::WebhookSpec { secret: "hunter2".into(), events: vec![1], ..Default::default() };
        let attempt = v1::Attempt { job_key: vec![0xAB; 32], attempt: 7, ..Default::default() };
        let (key, hash) = (v1::PageKey { key: vec![0xAB; 32] }, vec![0xAB; 32]);
        let token = v1::JoinToken { hash, node: "n1".into(), ..Default::default() };
        let text = format!("{values:?} {spec:?} {attempt:?} {key:?} {token:?}");
        assert!(text.contains("token") && !text.contains("hunter2") && !text.contains("171"), "{text}");
    }
}
