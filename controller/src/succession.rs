//! One authority after another, in a running controller: files that `ca rotate`, `activate`, `retire` and `abort` have changed
//! are taken over, that is recorded, and who still uses certificates of the other one is written down for them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use controller_keys::{CA_CERTIFICATE, CaFolder};
use controller_leader::Handle;
use proto_audit::Actor;
use proto_rpc::{
    Authority, Holder, Standing, TrustSlot,
    files::{self, FileError},
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{args::Run, init};

type Error = Box<dyn std::error::Error>;

/// Who still uses certificates of an authority that does not issue.
pub const HOLDERS: &str = "ca.holders.json";
/// How often the files are looked at.
const CHECK: Duration = Duration::from_secs(1);
/// After so many looks it is written who is behind.
const WRITE: u32 = 3;
/// Holders that one file tells of.
const MOST: usize = 1000;

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holders {
    /// When it was written, in seconds since 1970.
    pub written: u64,
    /// The pin of the authority that issues.
    pub issuing: String,
    /// How many certificates of the others are in use, among those that this controller has seen.
    pub behind: usize,
    /// How many of the one that issues.
    pub renewed: usize,
    /// Nodes of the cluster that no certificate was seen of since the controller began; `None` where it does not lead.
    pub unseen: Option<Vec<String>>,
    /// The first of those that are behind.
    pub who: Vec<Behind>,
}

/// Somebody who still uses a certificate of the other authority.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// The identity in the certificate, as messages show it.
    pub who: String,
    /// The authority that issued its certificate.
    pub authority: String,
    /// When that ends, in seconds since 1970.
    pub not_after: u64,
    /// When it was seen last.
    pub seen: u64,
}

/// The cluster's authority as its files say.
///
/// # Errors
/// They cannot be read, or the key does not open.
pub fn authority(run: &Run) -> Result<Arc<Authority>, Error> {
    let guards = run.keys.guards()?;
    if let Some(provider) = guards.provider() {
        provider.health()?;
        tracing::info!(provider = provider.name(), "the key provider answers");
    }
    let standing = init::authority(&run.cluster, &guards, run.ca_life)?;
    let authority = Authority::new(standing)?.with_renewals_within(run.ca_renewals.ca_renew_within);
    recall(authority.trust(), &run.cluster.data_dir);
    Ok(Arc::new(authority))
}

/// Who was behind before this controller began is not forgotten by its restart.
fn recall(trust: &TrustSlot, data_dir: &Path) {
    let Some(before) = read(data_dir) else { return };
    let time = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    trust.remember(before.who.into_iter().filter_map(|behind| {
        let authority = behind.authority.parse().ok()?;
        let (not_after, seen) = (time(behind.not_after), time(behind.seen));
        Some(Holder { who: behind.who, authority, not_after, seen })
    }));
}

/// What a controller has written last; `None` where none has, or it cannot be read.
pub fn read(data_dir: &Path) -> Option<Holders> {
    serde_json::from_str(&files::read_text(&data_dir.join(HOLDERS)).ok()?).ok()
}

/// Takes over what becomes of the files, until `stop`.
///
/// # Errors
/// What protects the key cannot be had.
pub fn spawn(
    run: &Run,
    ca: &Arc<Authority>,
    leading: watch::Receiver<Option<Handle>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (data_dir, ca) = (run.cluster.data_dir.clone(), Arc::clone(ca));
    let folder = Arc::new(CaFolder::new(&data_dir, run.keys.guards()?));
    let mut known = files::read_text(&data_dir.join(CA_CERTIFICATE))?;
    tokio::spawn(async move {
        for check in 0_u32.. {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CHECK) => {}
            }
            match files::read_text(&data_dir.join(CA_CERTIFICATE)) {
                Ok(text) if text != known => {
                    known = text;
                    take_over(&folder, &ca, &leading).await;
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the authority's certificates cannot be read"),
            }
            if check % WRITE != 0 {
                continue;
            }
            if let Err(error) = write(&data_dir, &ca, &leading).await {
                tracing::warn!(%error, "who uses certificates of the old authority cannot be written down");
            }
        }
    });
    Ok(())
}

async fn take_over(folder: &Arc<CaFolder>, ca: &Authority, leading: &watch::Receiver<Option<Handle>>) {
    let (folder, cluster) = (Arc::clone(folder), ca.cluster().to_owned());
    // A passphrase takes its time, and a provider may.
    let read = tokio::task::spawn_blocking(move || folder.standing(Some(&cluster), SystemTime::now()));
    let taken = match read.await {
        Ok(Ok(standing)) => {
            let reported = reported(&standing);
            ca.swap(standing).map(|()| reported).map_err(|error| error.to_string())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let reported = match taken {
        Ok(reported) => reported,
        Err(error) => {
            return tracing::error!(
                error,
                "the authority's files have changed and cannot be used; all stays as it was"
            );
        }
    };
    tracing::warn!(authority = reported, "the cluster's authority has changed");
    let leader = leading.borrow().clone();
    let Some(handle) = leader else { return };
    let actor = Arc::new(Actor { who: "controller".into(), rpc: "Authority".into(), ..Actor::default() });
    let noted = handle.note(&actor, "authority", reported, "").await;
    // What names the new one is signed by who issues now: while it is prepared, by the old one.
    let sealed = handle.seal().await;
    if let Err(error) = noted.and(sealed) {
        tracing::error!(%error, "that the authority has changed could not be recorded");
    }
}

fn reported(standing: &Standing) -> String {
    let pins: Vec<String> = standing.pins().iter().map(ToString::to_string).collect();
    match pins.split_first() {
        Some((issuing, others)) if !others.is_empty() => {
            format!("issues {issuing}, trusted beside it {}", others.join(", "))
        }
        _ => format!("issues {}", pins.concat()),
    }
}

/// Who is behind, while two authorities are trusted.
async fn write(
    data_dir: &Path,
    ca: &Authority,
    leading: &watch::Receiver<Option<Handle>>,
) -> Result<(), FileError> {
    let path = data_dir.join(HOLDERS);
    if ca.trust().pins().len() < 2 {
        return remove(path);
    }
    let (issuing, all) = (ca.pin(), ca.trust().holders());
    let leader = leading.borrow().clone();
    let unseen = match leader {
        Some(handle) => nodes(&handle).await.map(|nodes| {
            let seen = |node: &String| all.iter().any(|holder| holder.who == *node);
            nodes.into_iter().filter(|node| !seen(node)).take(MOST).collect()
        }),
        None => None,
    };
    let behind: Vec<_> = all.iter().filter(|holder| holder.authority != issuing).collect();
    let holders = Holders {
        written: seconds(SystemTime::now()),
        issuing: issuing.to_string(),
        behind: behind.len(),
        renewed: all.len() - behind.len(),
        unseen,
        who: behind.into_iter().take(MOST).map(Behind::of).collect(),
    };
    // Made of texts and numbers, it always can be written as JSON.
    files::write_public(&path, &serde_json::to_string(&holders).unwrap_or_default())
}

fn remove(path: PathBuf) -> Result<(), FileError> {
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// All nodes, as identities are shown.
async fn nodes(handle: &Handle) -> Option<Vec<String>> {
    let names =
        handle.query(|state, _| state.nodes(None).map(|node| format!("node/{}", node.name)).collect());
    names.await.ok()
}

impl Behind {
    fn of(holder: &Holder) -> Self {
        Self {
            who: holder.who.clone(),
            authority: holder.authority.to_string(),
            not_after: seconds(holder.not_after),
            seen: seconds(holder.seen),
        }
    }
}

/// The time in whole seconds since 1970; 0 for an earlier one.
pub fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
