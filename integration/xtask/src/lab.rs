//! `cargo xtask lab`: real RDMA verbs in a virtual machine that needs no hardware, no kernel module of this machine and no
//! KVM. Two hosts with four Soft-RoCE rails between them live in one emulated kernel; suites run in it.
//!
//! Debian's packages are downloaded and unpacked into the target directory; only the emulator itself is installed, where
//! root allows. Nothing of this is in the product.

mod bench;
mod boot;
mod bzimage;
mod container;
mod cpio;
mod dist;
mod image;
mod install;
mod module;
mod modules;
mod packages;
mod suite;
mod trouble;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use crate::{kube, process::Result, released, sonic};

pub use bench::run as bench;
pub use suite::Suite;
pub use trouble::Trouble;

/// Options of `cargo xtask lab`.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 all passed; 1 something failed; 2 the lab cannot run here, and why.

The guest is Debian's kernel under plain emulation. Its rails are veth pairs a0-b0 .. a3-b3 with a Soft-RoCE device on \
each end; host A has 10.R.0.1 on rail R, host B 10.R.0.2. See integration/lab/rails.sh. \
Suites on class of service load the lab's own NICs, integration/lab/labnic, which make and gcc build from Debian's kernel headers.")]
pub struct Args {
    /// What to run: smoke (a minute and a half; also part of `cargo xtask test`), all of it, or one suite by its name; or one of those that
    /// are no guest: sonic, SONiC's own configuration code in a Debian root, asked about what is rendered; kube, a real Kubernetes without a cluster,
    /// which allocates rails; packages, what `cargo xtask dist` has made, installed, used, upgraded and purged in clean roots of Debian (needs root
    /// and debootstrap); image, the image that it has made, read, unpacked and entered, with a controller started in it as the chart does (needs root);
    /// upgrade, a cluster of the release before, built from its commit, becomes one of this release under load (needs etcd).
    #[arg(default_value = "smoke")]
    what: String,
    /// Only make the guest's image.
    #[arg(long)]
    prepare: bool,
    /// End the guest after so many seconds.
    #[arg(long, default_value_t = 480)]
    timeout: u64,
    /// Say what suites there are.
    #[arg(long)]
    list: bool,
    /// What sonic and kube are made from; needed once. For sonic a folder with sonic-buildimage, sonic-utilities and sonic-swss-common (of
    /// sonic-net), by default $RAIL_LAB_SONIC; for kube a clone of openshift/microshift, with files or bare, or a Kubernetes with its vendor folder,
    /// by default $RAIL_LAB_KUBE; for packages and image the folder that `cargo xtask dist` has made, by default
    /// target/dist.
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
    /// What kube makes a real Kueue from, too: a clone of kubernetes-sigs/kueue, with files or bare; by default $RAIL_LAB_KUEUE. Without either,
    /// what needs Kueue is skipped.
    #[arg(long, value_name = "DIR")]
    kueue: Option<PathBuf>,
}

/// Runs what the arguments say.
///
/// # Errors
/// There is no such suite, or one fails. What cannot be had here is exit code 2 and no error.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for suite in suite::ALL {
            println!("{:<10} {}", suite.name, suite.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    match args.what.as_str() {
        "sonic" => return sonic::run(args.sources.as_deref()),
        "kube" => return kube::run(args.sources.as_deref(), args.kueue.as_deref()),
        "packages" => return install::run(args.sources.as_deref()),
        "image" => return container::run(args.sources.as_deref()),
        "upgrade" => return released::lab(),
        _ => {}
    }
    let suites = suite::named(&args.what)?;
    let outcome = if args.prepare {
        image::base().map(|image| println!("    {}", image.folder.display()))
    } else {
        suites.iter().try_for_each(|suite| one(suite, Duration::from_secs(args.timeout)))
    };
    trouble::exit_code(outcome)
}

/// Folder with the headers of libibverbs, from the guest's packages. (Those of the system are found without.)
///
/// # Errors
/// The guest's packages cannot be had, or have no such headers.
pub fn headers() -> std::result::Result<PathBuf, Trouble> {
    let folder = image::base()?.folder.join("include");
    folder.exists().then_some(folder).ok_or_else(|| Trouble::Absent("the guest's packages have none".into()))
}

/// The part of `cargo xtask test`: each suite of the short run by its name, with the programs that are in `bin`. Where the guest
/// cannot be had at all, all of them are absent.
pub fn test(bin: &Path) -> Vec<(&'static str, std::result::Result<(), Trouble>)> {
    let smoke = suite::ALL.iter().filter(|suite| suite.smoke);
    let run = |suite| guest(suite, Some(bin), Duration::from_secs(180), true).map(drop);
    smoke.map(|suite| (suite.name, run(suite))).collect()
}

/// Boots a guest that runs one suite; an error unless it passed.
fn one(suite: &Suite, limit: Duration) -> std::result::Result<(), Trouble> {
    guest(suite, None, limit, true).map(drop)
}

/// Boots a guest that runs one suite with the programs that are in `bin`, or else are built; gives what it said, an error unless the
/// suite passed. What it says goes to the standard output, or to the standard error where the output is for results.
fn guest(
    suite: &Suite,
    bin: Option<&Path>,
    limit: Duration,
    show: bool,
) -> std::result::Result<Vec<String>, Trouble> {
    let report = |line: &str| if show { println!("    {line}") } else { eprintln!("    {line}") };
    let base = image::base()?;
    let guest = image::of(&base, suite, bin)?;
    report(&format!("booting for {}: {}", suite.name, suite.about));
    let boot::Verdict { status, seconds, said } =
        boot::boot(&base, &guest, suite.name, limit, &|line| report(&format!("| {line}")))?;
    if status != 0 {
        return Err(Trouble::Failed(format!("suite {} ended with status {status} in the guest", suite.name)));
    }
    report(&format!("{} passed, {seconds:.1} s", suite.name));
    Ok(said)
}
