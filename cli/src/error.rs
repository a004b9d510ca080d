//! What can go wrong, said once: what, where, what to do; and the exit code of each.

use std::{io, path::PathBuf, time::Duration};

pub use proto_model::human;
use proto_rpc::{ErrorClass, RpcError};

/// Every failure of a command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense in a way that clap cannot see.
    #[error("{0}")]
    Usage(String),
    /// A document is wrong; the text names file, line and column of every finding.
    #[error("{0}")]
    Document(String),
    /// The controller said no, or did not answer.
    #[error("{doing}: {error}")]
    Rpc {
        /// What was tried, as in "submit job `a`".
        doing: String,
        /// The error that the controller answered, or why it did not.
        error: Box<RpcError>,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The operation: read, write, create, remove.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing says where the cluster is, or as whom to speak.
    #[error("{0}")]
    Config(String),
    /// The OpenID provider gives no token.
    #[error("{0}")]
    SignOn(String),
    /// A name that should be there is not.
    #[error("{0}")]
    NotFound(String),
    /// What was waited for is there no more.
    #[error("{0}")]
    Gone(String),
    /// The job was waited for and did not end well.
    #[error("job {job} ended as {phase}{because}")]
    JobEnded {
        /// The job as TENANT/JOB.
        job: String,
        /// The phase that it ended in: Failed or Cancelled.
        phase: String,
        /// ": " and the reasons, or nothing.
        because: String,
    },
    /// The array was waited for and not all of it ended well.
    #[error("{bad} of the {all} elements of array {array} did not complete ({words}){because}")]
    ArrayEnded {
        /// The array as TENANT/ARRAY.
        array: String,
        /// Elements that failed or were cancelled.
        bad: usize,
        /// Elements that were waited for.
        all: usize,
        /// How many are in which phase.
        words: String,
        /// ": " and the first failures, or nothing.
        because: String,
    },
    /// What is there differs from what should be; the differences are on standard output.
    #[error("{0}")]
    Differs(String),
    /// It cannot run on this cluster as it is.
    #[error("{0}")]
    Infeasible(String),
    /// It took longer than the user or a bound allows.
    #[error("{what} took longer than {}", human(*limit))]
    Timeout {
        /// What was waited for.
        what: String,
        /// The time that was allowed.
        limit: Duration,
    },
    /// A local cluster could not be started or removed.
    #[error("{0}")]
    Dev(String),
    /// Somebody was asked and said no.
    #[error("nothing was done")]
    Declined,
    /// Ctrl-C. Everything that had to be said has been said.
    #[error("interrupted")]
    Interrupted,
    /// What was run has ended with this code, which is ours then. It has said itself what it had to say.
    #[error("ended with {0}")]
    Exited(u8),
    /// Whoever read our output has gone.
    #[error("output closed")]
    OutputClosed,
    /// Standard output cannot be written to, and its reader has not gone.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl Error {
    /// An answer of the controller, with what was tried.
    pub fn rpc(doing: impl Into<String>, status: &tonic::Status) -> Self {
        Self::Rpc { doing: doing.into(), error: Box::new(RpcError::from_status(status)) }
    }

    /// The error of doing `action` with the file at `path`.
    pub fn file(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { action, path: path.into(), source }
    }

    /// What the controller said is wrong, if it was the controller.
    fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Rpc { error, .. } => Some(error.class),
            _ => None,
        }
    }

    /// Whether what was asked for is not there, or not any more.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.class() == Some(ErrorClass::NotFound) || matches!(self, Self::NotFound(_) | Self::Gone(_))
    }

    /// Whether it is not so any more, or not yet: somebody changed it meanwhile, or it is there already.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self.class(), Some(ErrorClass::Conflict | ErrorClass::AlreadyExists))
    }

    /// Whether the caller may not do it, or is not known.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self.class(), Some(ErrorClass::Denied | ErrorClass::Unauthenticated))
    }

    /// The exit code of the process for this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Document(_) | Self::Config(_) => 2,
            Self::Rpc { error, .. } => error.exit_code(),
            Self::NotFound(_) | Self::Gone(_) => 3,
            Self::SignOn(_) => 4,
            Self::Infeasible(_) => 6,
            Self::Timeout { .. } => 7,
            Self::Interrupted => 130,
            Self::Exited(code) => *code,
            Self::OutputClosed => 0,
            Self::File { .. }
            | Self::JobEnded { .. }
            | Self::ArrayEnded { .. }
            | Self::Declined
            | Self::Differs(_)
            | Self::Dev(_)
            | Self::Output(_) => 1,
        }
    }

    /// The lines for standard error; none where nothing more is to be said.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::OutputClosed | Self::Exited(_) => Vec::new(),
            Self::Interrupted => vec!["interrupted".to_owned()],
            // A difference is what was asked for.
            Self::Differs(text) => vec![text.clone()],
            Self::Document(text) => text.lines().map(str::to_owned).collect(),
            Self::Rpc { error, .. } => {
                let mut lines = vec![format!("error: {self}")];
                let reported = error.violations.iter().filter(|one| !one.message.is_empty());
                lines.extend(reported.map(|one| match one.field.as_str() {
                    "" => format!("  {}", one.message),
                    field => format!("  {field}: {}", one.message),
                }));
                lines.extend(hint(error).map(|hint| format!("hint: {hint}")));
                lines
            }
            other => format!("error: {other}").lines().map(str::to_owned).collect(),
        }
    }
}

impl Error {
    /// The same for programs: `{"error": {class, reason, message, violations, hint, exitCode}}`.
    #[must_use]
    pub fn as_json(&self) -> serde_json::Value {
        let (class, reason) = match self {
            Self::Rpc { error, .. } => (error.class.as_str(), error.reason.as_str()),
            Self::Usage(_) => ("invalid", "USAGE"),
            Self::Document(_) => ("invalid", "BAD_DOCUMENT"),
            Self::Config(_) => ("invalid", "BAD_CONFIGURATION"),
            Self::SignOn(_) => (ErrorClass::Unauthenticated.as_str(), "NOT_SIGNED_ON"),
            Self::NotFound(_) => ("not-found", "NOT_FOUND"),
            Self::Gone(_) => ("not-found", "DELETED"),
            Self::Infeasible(_) => ("infeasible", "INFEASIBLE"),
            Self::Timeout { .. } => ("timeout", "WAITED_TOO_LONG"),
            Self::JobEnded { .. } | Self::ArrayEnded { .. } => ("failed", "JOB_NOT_COMPLETED"),
            Self::Differs(_) => ("failed", "DIFFERS"),
            Self::Declined => ("cancelled", "DECLINED"),
            Self::Interrupted => ("cancelled", "INTERRUPTED"),
            Self::Exited(_) => ("failed", "EXITED"),
            Self::File { .. } | Self::Output(_) | Self::OutputClosed => ("failed", "FILE"),
            Self::Dev(_) => ("failed", "LOCAL_CLUSTER"),
        };
        let mut object = serde_json::json!({
            "class": class,
            "reason": reason,
            "message": self.to_string(),
            "violations": [],
            "exitCode": self.exit_code(),
        });
        if let Self::Rpc { error, .. } = self {
            let reported = error.violations.iter().filter(|one| !one.message.is_empty());
            let one =
                |one: &proto_rpc::Violation| serde_json::json!({"field": one.field, "message": one.message});
            object["violations"] = reported.map(one).collect();
            if let Some(hint) = hint(error) {
                object["hint"] = hint.into();
            }
            if let Some(after) = error.retry_after {
                object["retryAfterMs"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
            }
        }
        serde_json::json!({ "error": object })
    }
}

/// What to do about an answer, where the answer itself cannot know it.
fn hint(error: &RpcError) -> Option<&'static str> {
    match (error.class, error.reason.as_str()) {
        (ErrorClass::Unavailable, "UNREACHABLE") => Some(
            "is the controller running, and is its address right? See `railctl config view` and --controller.",
        ),
        (ErrorClass::Unauthenticated, "SERVER_NOT_TRUSTED") => {
            Some("the CA file belongs to another cluster; see --ca and `railctl config view`.")
        }
        (ErrorClass::Unauthenticated, _) => {
            Some("give a certificate (--cert, --key) or a token (--token), or choose another --context.")
        }
        (ErrorClass::Denied, _) => Some("`railctl whoami` tells who you are to the controller."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_its_exit_code() {
        let rpc = |class| Error::Rpc { doing: "x".into(), error: Box::new(RpcError::new(class, "R", "m")) };
        let cases = [
            (Error::Usage(String::new()), 2),
            (Error::Document(String::new()), 2),
            (Error::Config(String::new()), 2),
            (Error::SignOn(String::new()), 4),
            (Error::NotFound(String::new()), 3),
            (rpc(ErrorClass::NotFound), 3),
            (rpc(ErrorClass::Denied), 4),
            (rpc(ErrorClass::Conflict), 5),
            (rpc(ErrorClass::Infeasible), 6),
            (Error::Infeasible(String::new()), 6),
            (rpc(ErrorClass::Unavailable), 7),
            (Error::Timeout { what: String::new(), limit: Duration::ZERO }, 7),
            (Error::Differs(String::new()), 1),
            (Error::Dev(String::new()), 1),
            (Error::Interrupted, 130),
            (Error::Exited(3), 3),
        ];
        for (error, code) in cases {
            assert_eq!(error.exit_code(), code, "{error:?}");
        }
    }

    #[test]
    fn an_answer_is_told_with_its_fields_and_what_to_do() {
        let error = RpcError::new(ErrorClass::Invalid, "BAD_FIELD", "the job is not valid")
            .with_violation("spec.gang.nodes", "must be at least 1");
        let error = Error::Rpc { doing: "submit".into(), error: Box::new(error) };
        assert_eq!(
            error.lines(),
            ["error: submit: the job is not valid", "  spec.gang.nodes: must be at least 1"]
        );
        let away = Error::rpc(
            "list jobs",
            &tonic::Status::from(RpcError::new(ErrorClass::Unavailable, "UNREACHABLE", "no")),
        );
        assert!(away.lines()[1].starts_with("hint: is the controller running"));
    }

    #[test]
    fn programs_are_told_as_much_as_people() {
        let error = RpcError::new(ErrorClass::Invalid, "BAD_FIELD", "the job is not valid")
            .with_violation("spec.gang.nodes", "must be at least 1");
        let error = Error::Rpc { doing: "submit".into(), error: Box::new(error) };
        let expected = serde_json::json!({"error": {
            "class": "invalid",
            "reason": "BAD_FIELD",
            "message": "submit: the job is not valid",
            "violations": [{"field": "spec.gang.nodes", "message": "must be at least 1"}],
            "exitCode": 2,
        }});
        assert_eq!(error.as_json(), expected);
        let value = Error::NotFound("there is no job `a`".into()).as_json();
        assert_eq!((&value["error"]["class"], &value["error"]["exitCode"]), (&"not-found".into(), &3.into()));
    }

    #[test]
    fn durations_read_well() {
        let cases = [
            (0, "0ms"),
            (250, "250ms"),
            (1500, "1.5s"),
            (59_000, "59s"),
            (90_000, "1m30s"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
        ];
        for (millis, text) in cases {
            assert_eq!(human(Duration::from_millis(millis)), text);
        }
    }
}
