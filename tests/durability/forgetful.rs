//! SQLite's own VFS for Unix, which tells a [`Disk`] of every write, truncation, sync and deletion.
//!
//! It is the default of this process from [`install`] on. Everything is done by the VFS below; only what these four return
//! passes through here. The files are real, so locks and shared memory work as ever.

#![expect(
    unsafe_code,
    reason = "a VFS is a table of C functions, and SQLite offers no other way to stand below it"
)]

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::{LazyLock, Mutex, MutexGuard};

use rusqlite::ffi::{
    SQLITE_OK, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
    sqlite3_vfs_find, sqlite3_vfs_register,
};

use super::disk::Disk;

/// The one disk of this process, and what stands below the VFS. Tests take it one at a time.
static BELOW: LazyLock<Below> = LazyLock::new(Below::install);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Below {
    disk: Disk,
    /// Where the VFS for Unix stands: it lives as long as the process.
    vfs: usize,
    /// Open files by address.
    open: Mutex<HashMap<usize, Open>>,
}

#[derive(Clone)]
struct Open {
    path: PathBuf,
    methods: &'static sqlite3_io_methods,
}

/// The disk, for as long as a test has it to itself.
pub(crate) struct Installed {
    disk: Disk,
    _alone: MutexGuard<'static, ()>,
}

impl std::ops::Deref for Installed {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.disk
    }
}

/// Puts the disk below every database that is opened from now on.
pub(crate) fn install() -> Installed {
    let alone = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Installed {
        disk: BELOW.disk.clone(),
        _alone: alone,
    }
}

impl Below {
    fn install() -> Self {
        // SAFETY: the default VFS is there for as long as the process. The copy keeps its functions and its data, all of
        // which take any VFS for their first argument but for opening, which is ours; it is leaked, as SQLite wants it.
        unsafe {
            let unix = sqlite3_vfs_find(ptr::null());
            let ours = Box::leak(Box::new(*unix));
            ours.zName = c"forgetful".as_ptr();
            ours.pNext = ptr::null_mut();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            assert_eq!(sqlite3_vfs_register(ours, 1), SQLITE_OK);
            Self {
                disk: Disk::new(),
                vfs: unix as usize,
                open: Mutex::default(),
            }
        }
    }

    fn unix(&self) -> *mut sqlite3_vfs {
        self.vfs as *mut sqlite3_vfs
    }

    fn file(&self, file: *mut sqlite3_file) -> Open {
        self.open.lock().unwrap()[&(file as usize)].clone()
    }
}

/// The path that a name stands for.
///
/// # Safety
/// `name` is a C string.
unsafe fn path_of(name: *const c_char) -> PathBuf {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) };
    Path::new(OsStr::from_bytes(name.to_bytes())).to_owned()
}

/// A length or place in a file.
fn offset(number: sqlite3_int64) -> usize {
    usize::try_from(number).unwrap()
}

unsafe extern "C" fn open(
    _vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's own, handed on. A file that was opened has methods that live as long as the
    // process; theirs are replaced by a leaked copy.
    unsafe {
        let unix = BELOW.unix();
        let Some(below) = (*unix).xOpen else {
            return rusqlite::ffi::SQLITE_CANTOPEN;
        };
        let code = below(unix, name, file, flags, out_flags);
        // A temporary file has no name; nobody looks for it after a failure.
        if code == SQLITE_OK && !name.is_null() {
            let methods: &'static sqlite3_io_methods = &*(*file).pMethods;
            let mut ours = *methods;
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xTruncate = Some(truncate);
            ours.xSync = Some(sync);
            (*file).pMethods = Box::leak(Box::new(ours));
            let path = path_of(name);
            BELOW
                .open
                .lock()
                .unwrap()
                .insert(file as usize, Open { path, methods });
        }
        code
    }
}

unsafe extern "C" fn delete(
    _vfs: *mut sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's own, handed on.
    unsafe {
        let unix = BELOW.unix();
        let code = (*unix).xDelete.unwrap()(unix, name, sync_directory);
        BELOW.disk.deleted(&path_of(name));
        code
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let Open { methods, .. } = BELOW.file(file);
    BELOW.open.lock().unwrap().remove(&(file as usize));
    // SAFETY: the argument is SQLite's own, handed on.
    unsafe { methods.xClose.unwrap()(file) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    let Open { path, methods } = BELOW.file(file);
    // SAFETY: the arguments are SQLite's own, handed on; `data` has `length` bytes.
    unsafe {
        let code = methods.xWrite.unwrap()(file, data, length, at);
        if code == SQLITE_OK {
            let bytes = slice::from_raw_parts(data.cast(), offset(length.into()));
            BELOW.disk.wrote(&path, offset(at), bytes);
        }
        code
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    let Open { path, methods } = BELOW.file(file);
    // SAFETY: the arguments are SQLite's own, handed on.
    let code = unsafe { methods.xTruncate.unwrap()(file, length) };
    if code == SQLITE_OK {
        BELOW.disk.truncated(&path, offset(length));
    }
    code
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    let Open { path, methods } = BELOW.file(file);
    // SAFETY: the arguments are SQLite's own, handed on.
    let code = unsafe { methods.xSync.unwrap()(file, flags) };
    if code == SQLITE_OK {
        BELOW.disk.synced(&path);
    }
    code
}
