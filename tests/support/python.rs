//! A Python with one release of Hermes, installed once and shared by all test processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release whose behaviour the adapter repeats.
pub(crate) const REFERENCE: &str = "0.19.0";

/// The Python that has this release; `None`, with a word on why, where there is none to be had.
///
/// # Panics
/// Under `CI=true`, where skipping would hide that nothing was tested.
pub(crate) fn with_hermes(release: &str) -> Option<PathBuf> {
    match find(release) {
        Ok(python) => Some(python),
        Err(why) => {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "Hermes {release}: {why}"
            );
            eprintln!("skipped: Hermes {release} is not to be had here: {why}");
            None
        }
    }
}

fn find(release: &str) -> Result<PathBuf, String> {
    if release == REFERENCE
        && let Some(python) = std::env::var_os("POOL_ORACLE_PYTHON")
    {
        return Ok(python.into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let environment = folder.join(format!("oracle-venv-{release}"));
    // The lock ends with the process that holds it, however that ends.
    let lock = File::create(folder.join(format!("oracle-venv-{release}.lock")))
        .map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let python = environment.join("bin/python");
    let complete = environment.join("complete");
    if !complete.exists() {
        install(&environment, release)?;
        fs::write(&complete, "").map_err(|error| error.to_string())?;
    }
    Ok(python)
}

/// Builds the environment from scratch; what an interrupted run left is thrown away.
fn install(environment: &Path, release: &str) -> Result<(), String> {
    if environment.exists() {
        fs::remove_dir_all(environment).map_err(|error| error.to_string())?;
    }
    run(Command::new(suitable_python()?)
        .arg("-m")
        .arg("venv")
        .arg(environment))?;
    let requirements = if release == REFERENCE {
        "hermes_oracle_requirements.txt".to_owned()
    } else {
        format!("hermes_agent_{release}.txt")
    };
    run(Command::new(environment.join("bin/python"))
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
        ])
        .args(["--disable-pip-version-check", "--require-hashes", "-r"])
        .arg(super::oracle::folder().join(requirements)))
}

fn suitable_python() -> Result<&'static str, String> {
    let is_suitable = "import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))";
    ["python3", "python3.13", "python3.12", "python3.11"]
        .into_iter()
        .find(|python| run(Command::new(python).args(["-c", is_suitable])).is_ok())
        .ok_or_else(|| "no Python from 3.11 to 3.13".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(complaint
        .lines()
        .last()
        .unwrap_or("no reason given")
        .to_owned())
}
