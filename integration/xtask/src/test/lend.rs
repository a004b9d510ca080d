//! What the tests need beside the product, and a fresh machine lacks: fetched while other things are built, or built while tests wait.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::Command,
    thread::{self, JoinHandle},
};

use crate::{chaos, kube, lab, process::Result, sonic, tools, torch};

/// What could be had.
pub struct Lent {
    /// Variables by which tests find it.
    pub environment: Vec<(OsString, OsString)>,
    /// What could not be had, and why.
    pub absent: Vec<String>,
}

/// The work on it, which goes on until it is asked for.
pub struct Fetching(JoinHandle<Lent>);

impl Fetching {
    /// Begins.
    pub fn begin() -> Self {
        Self(thread::spawn(all))
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The work has panicked.
    pub fn end(self) -> Result<Lent> {
        self.0.join().map_err(|_| "fetching what the tests need has panicked".into())
    }
}

fn all() -> Lent {
    // Never run: it only collects variables.
    let mut command = Command::new("true");
    let mut absent = Vec::new();
    let mut lend = |variable: &str, name: &str, found: Result<OsString>| match found {
        Ok(value) => _ = command.env(variable, value),
        Err(error) => absent.push(format!("{name}: {error}")),
    };
    lend("RAIL_TEST_TOOLS", "Python tools", tools::python_tools().map(Into::into));
    lend("RAIL_TEST_TORCH", "PyTorch", torch::python().map(Into::into));
    lend("RAIL_TEST_GO", "Go", tools::go().map(Into::into));
    lend("RAIL_TEST_TYPESCRIPT", "TypeScript", tools::typescript().map(Into::into));
    lend("RAIL_TEST_UI_BUILD", "npm's packages for the web pages", tools::ui_build().map(Into::into));
    lend("RAIL_TEST_UI_VISIT", "npm's packages that visit the web pages", tools::ui_visit().map(Into::into));
    lend("RAIL_TEST_OIDC", "npm's packages of an OpenID provider", tools::oidc().map(Into::into));
    lend("RAIL_TEST_CHROMIUM", "Chromium", tools::chromium().map(Into::into));
    lend("RAIL_TEST_PROMTOOL", "promtool", tools::promtool().map(Into::into));
    lend("RAIL_TEST_PROMETHEUS", "Prometheus", tools::prometheus().map(Into::into));
    lend("RAIL_TEST_FRR", "FRR", tools::frr().map(Into::into));
    let headers = lab::headers().map(Into::into).map_err(|error| error.to_string().into());
    lend("RAIL_TEST_VERBS_INCLUDE", "the lab's headers of libibverbs", headers);
    absent.extend(tools::lend_slurm(&mut command));
    absent.extend(sonic::lend(&mut command));
    if let Err(error) = kube::lend(&mut command) {
        absent.push(format!("a real Kubernetes: {error}"));
    }
    chaos::lend(&mut command);
    let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    Lent { environment: set.collect(), absent }
}

/// Tools that are built of their source: cargo-deny, and mdbook, which the book's test finds afterwards.
pub struct Building(JoinHandle<std::result::Result<PathBuf, String>>);

impl Building {
    /// Begins, behind everything else that wants a processor.
    pub fn begin() -> Self {
        Self(thread::spawn(|| {
            // Of this thread, and of what it starts. Where it may not, it builds as everything else does.
            let _ = rustix::process::nice(19);
            let deny = tools::cargo_deny().map_err(|error| error.to_string());
            // Who needs it says why it is not there.
            let _ = tools::mdbook();
            deny
        }))
    }

    /// Waits for the end; gives cargo-deny, or why there is none.
    ///
    /// # Errors
    /// The work has panicked.
    pub fn end(self) -> Result<Result<PathBuf>> {
        let deny = self.0.join().map_err(|_| "building tools has panicked")?;
        Ok(deny.map_err(Into::into))
    }
}
