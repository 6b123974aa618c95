//! Where a board differs from the one that Hermes wrote.

use serde_json::Value;

/// The differences between two values, each with its place.
pub(crate) fn differences(place: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let extra = other.keys().filter(|key| !one.contains_key(*key));
            for key in one.keys().chain(extra) {
                let member = |value: &Value| value.get(key).cloned().unwrap_or(Value::Null);
                differences(
                    &format!("{place}.{key}"),
                    &member(left),
                    &member(right),
                    found,
                );
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (number, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{place}[{number}]"), one, other, found);
            }
        }
        _ if left != right => found.push(format!("{place}: Hermes {left}, adapter {right}")),
        _ => {}
    }
}
