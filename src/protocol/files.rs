//! Files that are made new, with exact rights, and are on the disk when they are done.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Makes a file where nothing stands, not even a dangling symbolic link, and fills it.
///
/// The content and the mode (whatever the umask) are on the disk when this returns; the entry in
/// the folder is so after [`sync_folder_of`]. What could not be completed is removed again.
pub(super) fn create_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(open_flags(OFlags::NOFOLLOW))
        .open(path)?;
    let filled = file
        .write_all(content)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all());
    if filled.is_err() {
        // The file is ours and worthless; the first error is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    filled
}

/// Brings the entries of the folder that holds `path` to the disk.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder that holds `path`; the current one for a bare name.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Flags in the form that the standard library takes.
pub(super) fn open_flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// What the system said; an error of our own making counts as one of input and output.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
