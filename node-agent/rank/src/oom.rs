//! Whom the kernel ends when memory ends: ranks, never the agent before them.

use std::{fs, io, path::Path};

/// This process's own value, while `/proc` is this server's.
pub const OWN: &str = "/proc/self/oom_score_adj";

/// Gives up what protects the agent, and would protect its ranks: a value below 0 becomes 0. Others stay, as raising one needs no right and lowering it does.
/// A process that has the right cannot go below 0 again once it has given up its capabilities.
///
/// # Errors
/// The file cannot be read or written, or has no number.
pub fn expose(path: &Path) -> io::Result<()> {
    let value: i32 = fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)?;
    if value < 0 { fs::write(path, "0") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_protects_is_given_up_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("oom_score_adj");
        for (before, after) in [("-997\n", "0"), ("-1\n", "0"), ("0\n", "0\n"), ("500\n", "500\n")] {
            fs::write(&path, before).unwrap();
            expose(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after, "{before:?}");
        }
        fs::write(&path, "much").unwrap();
        assert!(expose(&path).is_err());
        expose(Path::new(OWN)).unwrap();
    }
}
