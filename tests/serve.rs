//! `serve`, `worker` and `demo` as processes of their own, on real folders and sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod serve {
    mod demo;
    mod denied;
    #[cfg(target_os = "linux")]
    mod full;
    mod mending;
    mod once;
    mod process;
    mod reference_store;
    mod starting;
    mod stopping;
    mod working;
}
