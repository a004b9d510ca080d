//! `ca`: the authority's key encrypted, and one authority after another.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use controller_keys::{AuthorityStatus, CaFolder, Guards, Phase, read_passphrase};
use proto_model::human;
use thiserror::Error;

use crate::{
    args::{CaAction, CaPlace},
    succession::{self, Holders, seconds},
};

/// What a controller has written is true for so long.
const FRESH: u64 = 60;
/// Holders of certificates that are listed at most.
const LISTED: usize = 20;

/// Why the old authority stays.
#[derive(Debug, Error)]
enum RetireError {
    /// No controller has written down lately who uses it.
    #[error(
        "no running controller has written who still uses certificates of the old authority (in the last {FRESH} s): start one, or say --force"
    )]
    Unknown,
    /// Certificates of the old authority are in use, or may be: their number, and that of the nodes that were not seen.
    #[error(
        "{0} certificates of the old authority are in use, and {1} nodes were not seen since the controller began; `ca status` lists them. They would be locked out (nodes join anew, users need new certificates): wait, or say --force"
    )]
    Used(usize, usize),
}

/// Does it.
///
/// # Errors
/// Why not; the authority is as it was.
pub fn run(action: &CaAction) -> Result<(), Box<dyn std::error::Error>> {
    let now = SystemTime::now();
    match action {
        CaAction::Encrypt { data_dir, keys, old_passphrase_file, old_key_provider } => {
            let with = keys.guards()?;
            let mut old = with.clone();
            if let Some(provider) = old_key_provider {
                old = Guards::default().with_provider(Some(provider.open()?));
            }
            if let Some(file) = old_passphrase_file {
                old = old.with_passphrase(&read_passphrase(file)?, &file.display().to_string())?;
            }
            let (before, after) = CaFolder::new(data_dir, old).encrypt(&with, now)?;
            println!("{}: the authority's key was {before}, and is {after}", data_dir.display());
            println!(
                "Every controller of the cluster needs what it is encrypted with from its next start on."
            );
        }
        CaAction::Rotate { at, life } => {
            show(&folder(at)?.rotate(life.lifetime(), now)?, &at.data_dir);
            println!(
                "Copy ca.pem and ca.next.key to every other controller's data folder now; then `ca activate` on each."
            );
        }
        CaAction::Activate { at } => {
            show(&folder(at)?.activate(now)?, &at.data_dir);
            println!(
                "Do the same on every other controller. Nodes renew by themselves, users with their next certificate; when `ca status` shows nobody behind, `ca retire` on each."
            );
        }
        CaAction::Retire { at, force } => {
            let folder = folder(at)?;
            if !force && folder.status(now)?.phase == Phase::Active {
                unused(succession::read(&at.data_dir), now)?;
            }
            show(&folder.retire(now)?, &at.data_dir);
            println!(
                "Give people the new ca.pem. What the old one has signed in the audit log is checked with ca.retired.pem beside it."
            );
        }
        CaAction::Abort { at } => {
            show(&folder(at)?.abort(now)?, &at.data_dir);
            println!("Do the same on every other controller.");
        }
        CaAction::Status { at } => show(&folder(at)?.status(now)?, &at.data_dir),
    }
    Ok(())
}

fn folder(at: &CaPlace) -> Result<CaFolder, Box<dyn std::error::Error>> {
    Ok(CaFolder::new(&at.data_dir, at.keys.guards()?))
}

/// Nobody that is known would be locked out.
fn unused(holders: Option<Holders>, now: SystemTime) -> Result<(), RetireError> {
    let fresh = |holders: &Holders| seconds(now).abs_diff(holders.written) <= FRESH;
    let holders = holders.filter(fresh).ok_or(RetireError::Unknown)?;
    let unseen = holders.unseen.as_ref().map_or(0, Vec::len);
    if holders.behind + unseen == 0 { Ok(()) } else { Err(RetireError::Used(holders.behind, unseen)) }
}

fn show(stand: &AuthorityStatus, data_dir: &Path) {
    let phase = match stand.phase {
        Phase::Settled => "one authority",
        Phase::Prepared => "two authorities are trusted, the old one issues",
        Phase::Active => "two authorities are trusted, the new one issues",
    };
    println!("phase    {phase}");
    println!("issues   {} until {}, key {}", stand.issuing, day(stand.not_after), stand.key);
    let Some(other) = &stand.other else { return };
    println!("trusted  {other}");
    let Some(holders) = succession::read(data_dir) else {
        return println!("in use   no running controller has written who uses which");
    };
    let age = human(Duration::from_secs(seconds(SystemTime::now()).saturating_sub(holders.written)));
    println!(
        "in use   {} certificates of the one that issues, {} of the other one; seen by this controller, {age} ago",
        holders.renewed, holders.behind
    );
    for behind in holders.who.iter().take(LISTED) {
        let end = UNIX_EPOCH + Duration::from_secs(behind.not_after);
        println!("behind   {} until {}", behind.who, day(end));
    }
    for node in holders.unseen.iter().flatten().take(LISTED) {
        println!("unseen   {node}");
    }
}

/// A day in UTC, as people write it.
fn day(time: SystemTime) -> String {
    proto_model::Timestamp(seconds(time) * 1000).to_string()
}
