//! The payload of an assignment: all that a worker needs to know about its run.

use super::fields::{Fields, PayloadError, count, text};
use crate::protocol::json::Json;

/// The shape described here; a worker refuses any other.
const SCHEMA: i64 = 1;

/// What a worker is given to do. It is built once per run and sent again byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentPayload {
    /// The assignee that the task has on its board.
    pub lane: String,
    /// The task.
    pub task: AssignedTask,
    /// The text that the worker's command is to work from.
    pub context: String,
    /// Where to work.
    pub workspace: WorkspaceSpec,
    /// For how long.
    pub limits: RunLimits,
}

/// The task as it stands on its board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedTask {
    /// Its identifier.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its description.
    pub body: Option<String>,
    /// Its priority; higher comes first.
    pub priority: i64,
    /// Whom it is done for.
    pub tenant: Option<String>,
    /// What the worker should be able to do.
    pub skills: Vec<String>,
    /// The model to use instead of the worker's own.
    pub model_override: Option<String>,
}

/// The workspace that the task asks for; the worker makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceSpec {
    /// Such as `scratch`.
    pub kind: String,
    /// A path that the task names.
    pub path: Option<String>,
    /// A branch that the task names.
    pub branch: Option<String>,
}

/// The times that the run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// How long a worker may be silent, in seconds.
    pub lease_seconds: u64,
    /// How long the whole run may take, in seconds.
    pub max_runtime_seconds: Option<u64>,
}

impl AssignmentPayload {
    /// The payload that says this; every field is there, `null` where there is nothing to say.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("schema", Json::from(SCHEMA)),
            ("lane", Json::from(self.lane.as_str())),
            ("task", self.task.to_json()),
            ("context", Json::from(self.context.as_str())),
            ("workspace", self.workspace.to_json()),
            ("limits", self.limits.to_json()),
        ])
    }

    /// Reads the payload of an `assignment`.
    ///
    /// # Errors
    /// `invalid_assignment` for another schema and for fields that are missing or of the wrong
    /// type.
    pub fn parse(payload: &Json) -> Result<Self, PayloadError> {
        let fields = Fields::of(payload, "invalid_assignment")?;
        if fields.required("schema", "an integer", Json::as_i64)? != SCHEMA {
            return Err(fields.fail(format!("schema must be {SCHEMA}")));
        }
        Ok(Self {
            lane: fields.required_text("lane")?,
            task: AssignedTask::parse(fields.nested("task")?)?,
            context: fields.required_text("context")?,
            workspace: WorkspaceSpec::parse(fields.nested("workspace")?)?,
            limits: RunLimits::parse(fields.nested("limits")?)?,
        })
    }
}

impl AssignedTask {
    fn to_json(&self) -> Json {
        Json::object([
            ("id", Json::from(self.id.as_str())),
            ("title", Json::from(self.title.as_str())),
            ("body", Json::from(self.body.as_deref())),
            ("priority", Json::from(self.priority)),
            ("tenant", Json::from(self.tenant.as_deref())),
            ("skills", Json::from(self.skills.clone())),
            ("model_override", Json::from(self.model_override.as_deref())),
        ])
    }

    fn parse(fields: Fields<'_>) -> Result<Self, PayloadError> {
        let skills = fields.optional("skills", "a list of texts", |value| {
            value.as_array()?.iter().map(text).collect()
        })?;
        Ok(Self {
            id: fields.required_text("id")?,
            title: fields.required_text("title")?,
            body: fields.optional_text("body")?,
            priority: fields
                .optional("priority", "an integer", Json::as_i64)?
                .unwrap_or(0),
            tenant: fields.optional_text("tenant")?,
            skills: skills.unwrap_or_default(),
            model_override: fields.optional_text("model_override")?,
        })
    }
}

impl WorkspaceSpec {
    fn to_json(&self) -> Json {
        Json::object([
            ("kind", Json::from(self.kind.as_str())),
            ("path", Json::from(self.path.as_deref())),
            ("branch", Json::from(self.branch.as_deref())),
        ])
    }

    fn parse(fields: Fields<'_>) -> Result<Self, PayloadError> {
        Ok(Self {
            kind: fields.required_text("kind")?,
            path: fields.optional_text("path")?,
            branch: fields.optional_text("branch")?,
        })
    }
}

impl RunLimits {
    fn to_json(self) -> Json {
        Json::object([
            ("lease_seconds", Json::from(self.lease_seconds)),
            ("max_runtime_seconds", Json::from(self.max_runtime_seconds)),
        ])
    }

    fn parse(fields: Fields<'_>) -> Result<Self, PayloadError> {
        let wanted = "a whole number of seconds";
        Ok(Self {
            lease_seconds: fields.required("lease_seconds", wanted, count)?,
            max_runtime_seconds: fields.optional("max_runtime_seconds", wanted, count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{canonical_json, parse_json};

    const WHOLE: &str = concat!(
        r#"{"context":"c","lane":"claude-cli","#,
        r#""limits":{"lease_seconds":90,"max_runtime_seconds":null},"schema":1,"#,
        r#""task":{"body":"b","id":"t_1","model_override":null,"priority":-2,"skills":["s"],"#,
        r#""tenant":null,"title":"t"},"workspace":{"branch":null,"kind":"scratch","path":null}}"#,
    );

    #[test]
    fn an_assignment_is_written_with_all_its_fields_and_read_back() {
        let payload = AssignmentPayload::parse(&parse_json(WHOLE.as_bytes()).unwrap()).unwrap();
        assert_eq!(payload.task.priority, -2);
        assert_eq!(payload.limits.lease_seconds, 90);
        assert_eq!(
            canonical_json(&payload.to_json()).unwrap(),
            WHOLE.as_bytes()
        );
    }

    #[test]
    fn a_worker_refuses_a_shape_it_does_not_know() {
        for (from, to, message) in [
            (r#""schema":1"#, r#""schema":2"#, "schema must be 1"),
            (r#""schema":1"#, r#""other":1"#, "schema is missing"),
            (r#""id":"t_1""#, r#""id":1"#, "id must be text"),
            (r#"["s"]"#, "[1]", "skills must be a list of texts"),
            (
                r#""lease_seconds":90"#,
                r#""lease_seconds":-1"#,
                "lease_seconds must be a whole number of seconds",
            ),
        ] {
            let text = WHOLE.replace(from, to);
            let error = AssignmentPayload::parse(&parse_json(text.as_bytes()).unwrap());
            let error = error.unwrap_err();
            assert_eq!(
                (error.code(), error.message()),
                ("invalid_assignment", message)
            );
        }
    }
}
