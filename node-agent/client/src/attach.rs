//! How a rank finds its engine.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// Where the engine is and who this rank is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// Path of the Unix socket on which the engine of this node accepts ranks.
    pub socket: PathBuf,
    /// Rank within the job.
    pub rank: u32,
    /// Ranks that this one expects, if it knows: the engine's answer must agree.
    pub size: Option<u32>,
    /// Uid of the job, so that a rank of another job is refused; empty where it is not known.
    pub job_uid: String,
    /// How long attaching may take.
    pub timeout: Duration,
}

/// How long attaching may take unless said otherwise: the engine is on this machine and answers at once.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(20);

impl Attach {
    /// What the environment of a rank says: RAIL_ENGINE_SOCKET, RANK, and where set WORLD_SIZE and RAIL_JOB_UID.
    ///
    /// # Errors
    /// [`Error::Environment`] names the variable that is missing or has a value that cannot be.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_lookup(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`Attach::from_env`], with `lookup` in the environment's place.
    ///
    /// # Errors
    /// As of [`Attach::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let missing = |name| Error::Environment { name, problem: "is not set".into() };
        let number = |name, text: String| {
            text.parse::<u32>().map_err(|_| {
                let problem = format!("holds {text:?}, which is not a whole number");
                Error::Environment { name, problem }
            })
        };
        let socket = lookup("RAIL_ENGINE_SOCKET").ok_or_else(|| missing("RAIL_ENGINE_SOCKET"))?;
        let rank = lookup("RANK").ok_or_else(|| missing("RANK"))?;
        Ok(Self {
            socket: socket.into(),
            rank: number("RANK", rank)?,
            size: lookup("WORLD_SIZE").map(|text| number("WORLD_SIZE", text)).transpose()?,
            job_uid: lookup("RAIL_JOB_UID").unwrap_or_default(),
            timeout: ATTACH_TIMEOUT,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Attach, Error> {
        Attach::from_lookup(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn a_rank_environment_is_read() {
        let all =
            [("RAIL_ENGINE_SOCKET", "/run/e"), ("RANK", "3"), ("WORLD_SIZE", "8"), ("RAIL_JOB_UID", "u")];
        let attach = from(&all).unwrap();
        assert_eq!((attach.rank, attach.size, attach.job_uid.as_str()), (3, Some(8), "u"));
        assert_eq!(from(&all[..2]).unwrap().size, None);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (pairs, word) in [
            (&[][..], "RAIL_ENGINE_SOCKET"),
            (&[("RAIL_ENGINE_SOCKET", "/run/e")], "RANK"),
            (&[("RAIL_ENGINE_SOCKET", "/run/e"), ("RANK", "-1")], "\"-1\""),
            (&[("RAIL_ENGINE_SOCKET", "/run/e"), ("RANK", "1"), ("WORLD_SIZE", "x")], "WORLD_SIZE"),
        ] {
            let error = from(pairs).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
