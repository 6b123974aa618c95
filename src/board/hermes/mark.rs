//! The pool's mark in a run's metadata: how a completion is recognised as our own after a crash.

use crate::protocol::{Json, Object};

/// Adds the mark to metadata, replacing a member of the same name.
#[must_use]
pub fn put(mut metadata: Object, assignment: &str, fence: &str) -> Object {
    let mark = Json::object(
        [("assignment", assignment), ("fence", fence)].map(|(key, value)| (key, Json::from(value))),
    );
    metadata.insert("pool", mark);
    metadata
}

/// The assignment that the mark names, if there is a mark.
#[must_use]
pub fn find(metadata: &Json) -> Option<&str> {
    metadata.get("pool")?.get("assignment")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_where_it_was_put() {
        let metadata = Json::Object(put(Object::new(), "lab/t_00000001/7", "ffffffff"));
        assert_eq!(find(&metadata), Some("lab/t_00000001/7"));
        assert_eq!(find(&Json::from("pool")), None);
    }
}
