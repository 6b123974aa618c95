//! The limit of open files. Every waiting worker holds a connection, and many systems begin with 1,024.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, which is as far as a process may go by itself.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        // Some systems have no hard limit and refuse the wish for none. A small pool needs no more than there is.
        log::warn!("event=open_files_limit error={error}");
    }
}
