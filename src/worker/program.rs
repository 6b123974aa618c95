//! Finds the program of the command before there is a run that a mistyped name could fail.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Access, access};

/// Where the system looks if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A name without a slash that no folder of `PATH` has.
    #[error("no folder of PATH has such a program; name it with its path, such as ./{}", .0.display())]
    NotInPath(OsString),
    /// There is no such file, or its folder may not be entered.
    #[error("{}: {}", .0.display(), .1)]
    Unavailable(PathBuf, #[source] io::Error),
    /// A folder or something else that is no program.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// The file may not be executed.
    #[error("{path} may not be executed; run chmod +x {path}", path = .0.display())]
    NotExecutable(PathBuf),
}

/// The program as it is found from the current folder, since it will be started in that of a task. A bare name is looked up
/// in `path` and stays as it is: it is looked up again wherever it is started.
///
/// # Errors
/// [`ProgramError`] where it could not be started now.
pub(super) fn find(program: &OsStr, path: Option<&OsStr>) -> Result<OsString, ProgramError> {
    if program.as_encoded_bytes().contains(&b'/') {
        let unavailable = |error| ProgramError::Unavailable(program.into(), error);
        let absolute = std::path::absolute(program).map_err(unavailable)?;
        return look_at(&absolute).map(|()| absolute.into());
    }
    let folders = path.unwrap_or(DEFAULT_PATH.as_ref());
    let mut found = std::env::split_paths(folders).map(|folder| look_at(&folder.join(program)));
    if found.any(|looked| looked.is_ok()) {
        Ok(program.to_owned())
    } else {
        Err(ProgramError::NotInPath(program.to_owned()))
    }
}

fn look_at(file: &Path) -> Result<(), ProgramError> {
    let status =
        fs::metadata(file).map_err(|error| ProgramError::Unavailable(file.to_owned(), error))?;
    if !status.is_file() {
        return Err(ProgramError::NoFile(file.to_owned()));
    }
    access(file, Access::EXEC_OK).map_err(|_| ProgramError::NotExecutable(file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_named_by_a_path_is_found_from_where_the_worker_was_started() {
        let here = std::env::current_dir().unwrap();
        // Tests are run in the folder of the crate, which has no program of its own.
        let up: PathBuf = here.iter().skip(1).map(|_| "..").collect();
        let climbing = up.join("bin/sh");
        for (program, expected) in [
            (climbing.as_os_str(), here.join(&climbing).into_os_string()),
            ("/bin/sh".as_ref(), "/bin/sh".into()),
            ("sh".as_ref(), "sh".into()),
        ] {
            assert_eq!(find(program, None).unwrap(), expected, "{program:?}");
        }
    }

    #[test]
    fn a_program_that_could_not_be_started_is_told_with_the_reason() {
        for (program, path, reason) in [
            ("./typo.sh", None, "typo.sh: No such file"),
            ("./src", None, "src is no file"),
            (
                "./Cargo.toml",
                None,
                "Cargo.toml may not be executed; run chmod +x /",
            ),
            ("typo", None, "no folder of PATH has such a program"),
            (
                "sh",
                Some("/absent:/dev"),
                "no folder of PATH has such a program",
            ),
        ] {
            let told = find(program.as_ref(), path.map(OsStr::new)).unwrap_err();
            assert!(told.to_string().contains(reason), "{told}");
        }
    }
}
