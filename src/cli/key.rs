//! `key generate` and `key derive`: the master key of a pool, and from it the key of one worker.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::http::TokenError;
use crate::protocol::{
    Key, MAX_SLOTS, ProtocolError, derive_ordinal_key, generate_key, read_key, write_key_file,
};

use super::LAST_ORDINAL;
use super::failure::Failure;
use super::output::say;

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a new pool key. It stays with the coordinator.
    Generate {
        /// File to make, with mode 0600; one that exists is never overwritten. Its folder is made (0700) if missing.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Derive the key of one worker from the pool key. It goes to that worker.
    Derive {
        /// File of the pool key.
        #[arg(long, value_name = "FILE")]
        master: PathBuf,
        /// The worker's slot, 0 to 9999.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=LAST_ORDINAL))]
        ordinal: u16,
        /// File to make, with mode 0600; one that exists is never overwritten. Its folder is made (0700) if missing.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

pub(super) fn run(command: &KeyCommand) -> Result<(), Failure> {
    match command {
        KeyCommand::Generate { out } => {
            write(out, &generate_key().map_err(Failure::failed)?)?;
            say(&format!("pool key written to {}", out.display()))
        }
        KeyCommand::Derive {
            master,
            ordinal,
            out,
        } => {
            let master = read_key(master).map_err(|error| unreadable(master, &error))?;
            // For every ordinal a pool can have, whatever its number of slots is today.
            let key = derive_ordinal_key(&master, *ordinal, MAX_SLOTS).map_err(Failure::failed)?;
            write(out, &key)?;
            say(&format!(
                "key of ordinal {ordinal} written to {}",
                out.display()
            ))
        }
    }
}

fn write(out: &Path, key: &Key) -> Result<(), Failure> {
    make_folder_of(out)?;
    write_key_file(out, key).map_err(|error| match error {
        ProtocolError::KeyUnwritable {
            path,
            error: Errno::EXIST,
        } => Failure::Failed(format!(
            "{} exists and is never overwritten: name another file, or remove it first",
            path.display()
        )),
        error => Failure::failed(error),
    })
}

/// Makes the folder itself, but none above it: a path that is wrong further up is rather a mistake in writing.
fn make_folder_of(out: &Path) -> Result<(), Failure> {
    let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Failure::Failed(
            format!("folder {} cannot be made: {error}", folder.display()),
        )),
        _ => Ok(()),
    }
}

fn unreadable(path: &Path, error: &ProtocolError) -> Failure {
    Failure::Failed(key_problem(path, error))
}

/// What is wrong with a key file, and what to do.
pub(super) fn key_problem(path: &Path, error: &ProtocolError) -> String {
    let shown = path.display();
    match error {
        ProtocolError::KeyUnavailable {
            error: Errno::NOENT,
            ..
        } => format!("{error}; make it with hermes-pool key generate --out {shown}"),
        ProtocolError::KeyUnavailable { error: cause, .. } => {
            format!("{error}{}", advice_on_reading(path, *cause))
        }
        ProtocolError::KeyNotPrivate => format!("{error}: {}", advice_on_privacy(path)),
        ProtocolError::KeyLength => format!("{error}: {shown} must hold 32 to 4096 bytes"),
        _ => error.to_string(),
    }
}

/// What is wrong with the file of the operators' token, and what to do. The texts about key files speak of the pool's key.
pub(super) fn token_problem(error: &TokenError) -> String {
    let path = error.path.display();
    match &error.cause {
        ProtocolError::KeyUnavailable { error: cause, .. } => format!(
            "the token cannot be read from {path}: {cause}{}",
            advice_on_reading(&error.path, *cause)
        ),
        ProtocolError::KeyUnwritable { error, .. } => {
            format!("the token cannot be written to {path}: {error}")
        }
        ProtocolError::KeyNotPrivate => format!(
            "the token must be in a private regular file: {}",
            advice_on_privacy(&error.path)
        ),
        ProtocolError::KeyLength => {
            format!("the token is too short or too long: {path} must hold 32 to 4096 bytes of text")
        }
        cause => format!("the token in {path} cannot be used: {cause}"),
    }
}

/// What to do about a file of a secret that cannot be opened, to be said after what the system says; nothing where that
/// says it all.
fn advice_on_reading(path: &Path, cause: Errno) -> String {
    let shown = path.display();
    match cause {
        Errno::LOOP if path.is_symlink() => {
            format!("; {shown} is a symbolic link: name the file itself")
        }
        Errno::ACCESS => match path.metadata() {
            Ok(status) if status.uid() == geteuid().as_raw() => format!("; run chmod 600 {shown}"),
            Ok(_) => format!("; {shown} is not readable for this user: chown it to this user"),
            Err(_) => "; let this user enter its folder".to_owned(),
        },
        _ => String::new(),
    }
}

/// What to do about a file of a secret that is not private or not regular.
fn advice_on_privacy(path: &Path) -> String {
    let shown = path.display();
    match path.metadata() {
        Ok(status) if status.is_dir() => format!("{shown} is a directory"),
        Ok(status) if !status.is_file() => format!("{shown} is no regular file"),
        _ => format!("run chmod 600 {shown}"),
    }
}
