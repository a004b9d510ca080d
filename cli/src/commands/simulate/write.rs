//! The files of a simulation.

use std::{fs, path::Path};

use controller_simulator::{
    Outcome, Site, Workload,
    plot::{charts, pareto},
    report::{Report, csv},
    sweep::Sweep,
};

use crate::error::Error;

/// Writes everything into a folder, which is made if need be.
///
/// # Errors
/// [`Error::File`] if the folder or a file cannot be written.
pub fn folder(
    folder: &Path,
    site: &Site,
    workload: &Workload,
    outcomes: &[Outcome],
    report: &Report,
) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|source| Error::file("write", path, source))
    };
    write("summary.txt", report.text().as_bytes())?;
    write("summary.json", format!("{:#}\n", report.json()).as_bytes())?;
    write("jobs.csv", csv(workload, outcomes).as_bytes())?;
    for chart in charts(site, workload, outcomes, &report.summaries) {
        write(&format!("{}.svg", chart.name), chart.scene.svg().as_bytes())?;
        let png = chart.scene.png().map_err(|error| Error::Config(error.to_string()))?;
        write(&format!("{}.png", chart.name), &png)?;
    }
    eprintln!("written into {}", folder.display());
    Ok(())
}

/// The same of a sweep.
///
/// # Errors
/// [`Error::File`] if the folder or a file cannot be written.
pub fn sweep(folder: &Path, sweep: &Sweep) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(|source| Error::file("write", path, source))
    };
    write("sweep.txt", sweep.text().as_bytes())?;
    write("sweep.json", format!("{:#}\n", sweep.json()).as_bytes())?;
    if let Some(chart) = pareto(sweep) {
        write(&format!("{}.svg", chart.name), chart.scene.svg().as_bytes())?;
        let png = chart.scene.png().map_err(|error| Error::Config(error.to_string()))?;
        write(&format!("{}.png", chart.name), &png)?;
    }
    eprintln!("written into {}", folder.display());
    Ok(())
}
