//! Key files: private, regular, never followed through a symbolic link, never overwritten.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::error::ProtocolError;
use super::files::{create_file, errno, open_flags, sync_folder_of};
use super::key::Key;
use super::limits::{MAX_KEY_BYTES, MIN_KEY_BYTES};

/// Rights that nobody but the owner may have.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Reads a key from a private regular file, without the whitespace around it.
///
/// Only the last component of the path must not be a symbolic link. Nothing beyond the first 4097
/// bytes is looked at. A FIFO in the place of the file is refused, not waited for.
///
/// # Errors
/// [`ProtocolError::KeyUnavailable`], [`ProtocolError::KeyNotPrivate`] or
/// [`ProtocolError::KeyLength`], judged in this order.
pub fn read_key(path: &Path) -> Result<Key, ProtocolError> {
    let unavailable = |error: io::Error| ProtocolError::KeyUnavailable {
        path: path.to_owned(),
        error: errno(&error),
    };
    // Without NONBLOCK a FIFO would keep us waiting, without NOCTTY a terminal would become ours.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(open_flags(flags))
        .open(path)
        .map_err(unavailable)?;
    let status = file.metadata().map_err(unavailable)?;
    if !status.is_file() || status.permissions().mode() & GROUP_AND_OTHERS != 0 {
        return Err(ProtocolError::KeyNotPrivate);
    }
    let mut content = Vec::with_capacity(MAX_KEY_BYTES + 1);
    file.take(MAX_KEY_BYTES as u64 + 1)
        .read_to_end(&mut content)
        .map_err(unavailable)?;
    let key = strip(&content);
    if (MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&key.len()) {
        Ok(Key::from_bytes(key.to_vec()))
    } else {
        Err(ProtocolError::KeyLength)
    }
}

/// Cuts off whitespace at both ends, the vertical tab included.
fn strip(bytes: &[u8]) -> &[u8] {
    let is_inner = |byte: &u8| !matches!(byte, b'\t'..=b'\r' | b' ');
    let start = bytes.iter().position(is_inner).unwrap_or(bytes.len());
    let end = bytes
        .iter()
        .rposition(is_inner)
        .map_or(start, |last| last + 1);
    bytes.get(start..end).unwrap_or_default()
}

/// Writes a key and a newline to a new file of mode 0600.
///
/// The file is on the disk when this returns. After a crash in between it may be there without its
/// content; reading it is refused then, and it has to be removed by hand.
///
/// # Errors
/// [`ProtocolError::KeyUnwritable`], also if anything stands at this path already.
pub fn write_key_file(path: &Path, key: &Key) -> Result<(), ProtocolError> {
    let content = [key.bytes(), b"\n"].concat();
    create_file(path, &content, 0o600)
        .and_then(|()| sync_folder_of(path))
        .map_err(|error| ProtocolError::KeyUnwritable {
            path: path.to_owned(),
            error: errno(&error),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::generate_key;
    use rustix::io::Errno;

    #[test]
    fn a_written_key_is_read_back_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.key");
        let key = generate_key().unwrap();
        write_key_file(&path, &key).unwrap();
        assert_eq!(read_key(&path).unwrap().bytes(), key.bytes());
        let content = std::fs::read(&path).unwrap();
        assert!(content.len() == 65 && content.ends_with(b"\n"));
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);

        let again = write_key_file(&path, &generate_key().unwrap());
        assert!(matches!(
            again,
            Err(ProtocolError::KeyUnwritable {
                error: Errno::EXIST,
                ..
            })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }

    #[test]
    fn a_key_is_not_written_through_a_dangling_link() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("pool.key");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        assert!(write_key_file(&link, &generate_key().unwrap()).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[test]
    fn a_fifo_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.key");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert_eq!(read_key(&path).unwrap_err(), ProtocolError::KeyNotPrivate);
    }

    #[test]
    fn a_missing_file_is_named_in_the_message() {
        let message = read_key(Path::new("/absent/pool.key"))
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("pool key is unavailable: /absent/pool.key: No such file"));
    }
}
