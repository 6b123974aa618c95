//! x
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {}
#[derive(Clone, Debug, PartialEq)]
pub struct Json;
