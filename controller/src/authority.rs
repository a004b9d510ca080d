//! `ca`: the authority's key, encrypted.

use std::time::SystemTime;

use controller_keys::{CaFolder, Guards, read_passphrase};

use crate::args::CaAction;

/// Does it.
///
/// # Errors
/// Why not; the authority is as it was.
pub fn run(action: &CaAction) -> Result<(), Box<dyn std::error::Error>> {
    match action {
        CaAction::Encrypt { data_dir, keys, old_passphrase_file, old_key_provider } => {
            let with = keys.guards()?;
            let mut now = with.clone();
            if let Some(old) = old_key_provider {
                now = Guards::default().with_provider(Some(old.open()?));
            }
            if let Some(file) = old_passphrase_file {
                now = now.with_passphrase(&read_passphrase(file)?, &file.display().to_string())?;
            }
            let (before, after) = CaFolder::new(data_dir, now).encrypt(&with, SystemTime::now())?;
            println!("{}: the authority's key was {before}, and is {after}", data_dir.display());
            println!(
                "Every controller of the cluster needs what it is encrypted with from its next start on."
            );
            Ok(())
        }
    }
}
