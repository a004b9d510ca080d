//! PyTorch for the tests and benchmarks of the Python door: a tool like others, in the target directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{self, Result};

/// What `import torch` needs on Linux without a GPU: the registry's build for x86-64 links CUDA's libraries even where none is
/// used. Left out are those that are loaded only on demand (triton, cusolver, the bindings), which halves the download.
const PACKAGES: &[&str] = &[
    "torch==2.15.0",
    "typing_extensions==4.16.0",
    "filelock==4.2.11",
    "sympy==1.14.0",
    "mpmath==1.3.0",
    "networkx==3.6.1",
    "jinja2==3.1.6",
    "markupsafe==3.0.4",
    "fsspec==2026.9.0",
    "numpy==2.4.6",
    "setuptools==84.2.1",
    "nvidia-cublas==13.4.1.3",
    "nvidia-cuda-cupti==13.2.86",
    "nvidia-cuda-nvrtc==13.2.86",
    "nvidia-cuda-runtime==13.2.86",
    "nvidia-cudnn-cu13==9.26.0.51",
    "nvidia-cufft==12.2.0.57",
    "nvidia-cufile==1.17.1.22",
    "nvidia-cusparse==12.7.10.12",
    "nvidia-cusparselt-cu13==0.8.1",
    "nvidia-nccl-cu13==2.30.7",
    "nvidia-nvjitlink==13.5.37",
    "nvidia-nvshmem-cu13==3.7.2",
];

/// How long the download (1.8 GB) and the unpacking (4 GB) may take: about half a minute where the registry is near, and some minutes beside a
/// build that has all processors. Where it takes longer, tests that need PyTorch are skipped with that reason.
const PATIENCE: Duration = Duration::from_secs(900);

/// The Python program of an environment with PyTorch, made on first use. An error says why it cannot be had.
///
/// # Errors
/// There is no Python, or PyTorch cannot be installed in time.
pub fn python() -> Result<PathBuf> {
    let venv = process::target_dir()?.join("tools").join("torch-venv");
    let (stamp, python, wanted) = (venv.join("stamp"), venv.join("bin/python"), PACKAGES.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    let begin = Instant::now();
    let refused = venv.with_extension("refused");
    if std::fs::read_to_string(&refused).is_ok_and(|text| text.starts_with(&wanted)) {
        return Err(
            format!("an earlier installation failed; delete {} to try again", refused.display()).into()
        );
    }
    let made = make(&venv, &python, begin + PATIENCE);
    if let Err(error) = made {
        let _ = std::fs::remove_dir_all(&venv);
        // So that only the first run on such a machine pays for the attempt.
        std::fs::write(refused, format!("{wanted}\n\n{error}\n"))?;
        return Err(format!("PyTorch could not be installed: {error}").into());
    }
    std::fs::write(stamp, wanted)?;
    println!("    installed PyTorch in {:.0} s", begin.elapsed().as_secs_f32());
    Ok(python)
}

/// The folder with what PyTorch's own tests need beside PyTorch, made on first use.
///
/// # Errors
/// It cannot be installed.
pub fn tests(python: &Path) -> Result<PathBuf> {
    let folder = process::target_dir()?.join("tools").join("torch-tests");
    if !folder.join("expecttest").exists() {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
        pip.args(["--no-deps", "--target"]).arg(&folder).arg("expecttest==0.3.0");
        process::run_quiet(&mut pip)?;
    }
    Ok(folder)
}

fn make(venv: &Path, python: &Path, deadline: Instant) -> Result<()> {
    within(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv), deadline)?;
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]);
    pip.args(["--timeout", "20", "--only-binary", ":all:", "--no-deps"]).args(PACKAGES);
    within(&mut pip, deadline)?;
    within(Command::new(python).args(["-c", "import torch.distributed"]), deadline)
}

/// Runs to the end or to the deadline; an error carries what the program said last.
fn within(command: &mut Command, deadline: Instant) -> Result<()> {
    let log = tempfile()?;
    let errors = std::fs::File::create(&log)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    std::fs::remove_file(&log)?;
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("{status}: {}", said.lines().last().unwrap_or("no reason given")).into()),
        None => Err(format!("not done within {} s", PATIENCE.as_secs()).into()),
    }
}

fn tempfile() -> Result<PathBuf> {
    let folder = process::target_dir()?.join("tools");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("torch-{}.log", std::process::id())))
}
