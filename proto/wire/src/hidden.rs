//! How messages are printed that hold what must be in no log.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        let (metadata, status) = (&self.metadata, &self.status);
        f.debug_struct("Secret")
            .field("metadata", metadata)
            .field("status", status)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::assignment::DesiredState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str_name())
    }
}

impl fmt::Debug for v1::Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&String> = self.env_values.keys().collect();
        f.debug_struct("Assignment")
            .field("job_uid", &self.job_uid)
            .field("attempt", &self.attempt)
            .field("tenant", &self.tenant)
            .field("job", &self.job)
            .field("desired", &self.desired().as_str_name())
            .field("stop_reason", &self.stop_reason)
            .field("env_values", &variables)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let data = || [("token".to_owned(), "hunter2".to_owned())].into();
        let secret = v1::Secret { data: data(), ..Default::default() };
        let request = v1::ApplySecretRequest { secret: Some(secret), dry_run: false };
        let job_key = vec![0xAB; 32];
        let assignment = v1::Assignment { env_values: data(), job_key, ..Default::default() };
        let body = Some(v1::controller_message::Body::Assignment(assignment));
        let message = v1::ControllerMessage { body, ..Default::default() };
        for text in [format!("{request:#?}"), format!("{message:?}")] {
            assert!(text.contains("token") && !text.contains("hunter2") && !text.contains("171"), "{text}");
        }
    }
}
