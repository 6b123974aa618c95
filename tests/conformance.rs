//! Replays the conformance vectors of the reference.
//!
//! `POOL_VECTORS=DIR cargo test --test conformance` replays every vector file found in DIR; the
//! default is `tests/vectors`. There is one test for each format, and DIR need not have files of
//! all of them. A test tries all cases and then fails with a list: the first difference of each
//! case, with its file and name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance {
    pub(crate) mod atomic_json;
    pub(crate) mod canonical_json;
    pub(crate) mod envelope_ordinal;
    pub(crate) mod folder;
    pub(crate) mod keys;
    pub(crate) mod parse_wire;
    pub(crate) mod read_key;
    pub(crate) mod sign;
    pub(crate) mod vectors;
    pub(crate) mod verify;
}

use conformance::*;

/// Makes a test for each format, which gives its cases to the `replay` of the module of that name.
macro_rules! formats {
    ($($module:ident: $format:literal,)*) => {
        const FORMATS: &[&str] = &[$($format),*];
        $(
            #[test]
            fn $module() {
                vectors::replay_format($format, $module::replay);
            }
        )*
    };
}

formats! {
    atomic_json: "atomic_json/1",
    canonical_json: "canonical_json/1",
    envelope_ordinal: "envelope_ordinal/1",
    keys: "keys/1",
    parse_wire: "parse_wire/1",
    read_key: "read_key/1",
    sign: "sign/1",
    verify: "verify/1",
}

/// Formats whose replay is not part of this crate yet.
const PENDING: &[&str] = &["store/1"];

#[test]
fn every_file_has_a_known_format() {
    for file in vectors::files() {
        let known = FORMATS.contains(&&*file.format) || PENDING.contains(&&*file.format);
        assert!(known, "{}: unknown format {:?}", file.name, file.format);
    }
}
