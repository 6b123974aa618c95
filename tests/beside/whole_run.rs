//! What `tests/whole_run` has: a coordinator and workers written in Python, and what must hold after whatever happened.

#[path = "../whole_run/boards.rs"]
#[expect(dead_code, reason = "tests/whole_run makes more on a board")]
pub(super) mod boards;
#[path = "../whole_run/invariants.rs"]
pub(super) mod invariants;
#[path = "../whole_run/process.rs"]
pub(super) mod process;
#[path = "../whole_run/site.rs"]
#[expect(dead_code, reason = "tests/whole_run does more with a site")]
pub(super) mod site;

use super::{oracle, python};
