//! Where two plays of a script differ.

use serde_json::Value;

use super::differences::differences;

/// Respawn guards that are Hermes' alone. The pool does not honour them (the second is known to strand reworked tasks),
/// and what they hide is not compared.
const FOREIGN_GUARDS: [&str; 2] = ["blocker_auth", "active_pr"];

/// The differences between the answers of two plays. Refusals are compared as such, since their words are their own.
pub(crate) fn answer_differences(
    script: &[Value],
    hermes: &[Value],
    adapter: &[Value],
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, ((step, left), right)) in script.iter().zip(hermes).zip(adapter).enumerate() {
        let place = format!("step {number} {step}");
        let (mut left, mut right) = (left["result"].clone(), right["result"].clone());
        if step["op"] == "ready" {
            mask_foreign_guards(&mut left, &mut right);
        }
        differences(&place, &left, &right, &mut found);
    }
    found
}

fn mask_foreign_guards(left: &mut Value, right: &mut Value) {
    let (Some(left), Some(right)) = (left.as_array_mut(), right.as_array_mut()) else {
        return;
    };
    for (one, other) in left.iter_mut().zip(right) {
        if one["guard"]
            .as_str()
            .is_some_and(|guard| FOREIGN_GUARDS.contains(&guard))
        {
            one["guard"] = Value::Null;
            other["guard"] = Value::Null;
        }
    }
}
