//! JSON with the reach of the reference: what its parser takes and how its encoder writes.
//!
//! Deliberately not `serde_json`: that turns large integers into floats, reads `-0` as a float,
//! stops at 128 levels, has no lone surrogates, and gives some keys a meaning of their own. Here
//! bytes that were signed elsewhere must come out as they went in.

mod decode;
mod encode;
mod float;
mod integer;
mod members;
mod parse;
mod text;
mod value;

pub(crate) use encode::{Layout, write_json, write_string};
pub use integer::Integer;
pub(crate) use members::Members;
pub use parse::parse_json;
pub use text::Text;
pub use value::{Json, Object};
