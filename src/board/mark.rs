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

/// The mark as one text, to compare it.
#[must_use]
pub fn text(assignment: &str, fence: &str) -> String {
    format!("{assignment}@{fence}")
}

/// The mark in metadata as one text, if there is one.
#[must_use]
pub fn find(metadata: &Json) -> Option<String> {
    let mark = metadata.get("pool")?;
    let member = |key| mark.get(key).and_then(Json::as_str);
    Some(text(member("assignment")?, member("fence")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_where_it_was_put() {
        let metadata = Json::Object(put(Object::new(), "lab/t_00000001/7", "ffffffff"));
        assert_eq!(find(&metadata), Some(text("lab/t_00000001/7", "ffffffff")));
        assert_eq!(find(&Json::from("pool")), None);
    }
}
