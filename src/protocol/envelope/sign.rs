//! Signing: from a binding and a payload to the bytes that are sent.
//!
//! The canonical form has its fields in the order of their names, so the envelope is written in
//! one go, the payload included, and its signature is put in where it belongs. Identifiers,
//! ordinal and attempt are not judged here; whoever verifies does.

use std::fmt::Write;

use hmac::Mac;
use uuid::Uuid;

use super::{Binding, Kind};
use crate::protocol::digest::{Digest, hex};
use crate::protocol::error::ProtocolError;
use crate::protocol::json::{Json, Layout, write_json, write_string};
use crate::protocol::key::Key;
use crate::protocol::limits::{MAX_ENVELOPE_LIFETIME_SECONDS, MAX_WIRE_BYTES, PROTOCOL_VERSION};

/// Room for an envelope with a small payload.
const USUAL_ENVELOPE_BYTES: usize = 512;

/// A payload that is in its canonical form already, as the store keeps it.
#[derive(Debug, Clone, Copy)]
pub struct CanonicalPayload<'a> {
    /// The canonical text; it is sent byte for byte and never looked at.
    pub json: &'a str,
    /// The digest of that text.
    pub digest: &'a Digest,
}

/// Signs a message; the result is its complete canonical text.
///
/// `now` is in seconds since the epoch. The lifetime is brought into 1..=300. Without a delivery
/// identifier, or with an empty one, a random one is made.
///
/// The limit on the size is the reference's and counts all but the signature: an envelope that
/// passes with fewer than 79 bytes to spare is refused by whoever verifies it.
///
/// # Errors
/// Those of [`canonical_json`](crate::protocol::canonical_json) for the payload;
/// [`ProtocolError::ExceedsWireLimit`].
pub fn sign_envelope(
    key: &Key,
    kind: Kind,
    binding: &Binding,
    payload: &Json,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> Result<Vec<u8>, ProtocolError> {
    let mut text = begin(kind, binding, now, lifetime_seconds, delivery_id);
    let start = text.len();
    write_json(&mut text, payload, 1, Layout::Compact)?;
    let digest = Digest::of(text.as_bytes().get(start..).unwrap_or_default());
    finish(text, key, binding, &digest)
}

/// Signs a message around a payload that is canonical already; all else is as with
/// [`sign_envelope`].
///
/// # Errors
/// [`ProtocolError::ExceedsWireLimit`]
pub fn sign_canonical_payload(
    key: &Key,
    kind: Kind,
    binding: &Binding,
    payload: CanonicalPayload<'_>,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> Result<Vec<u8>, ProtocolError> {
    let mut text = begin(kind, binding, now, lifetime_seconds, delivery_id);
    text.push_str(payload.json);
    finish(text, key, binding, payload.digest)
}

/// The envelope up to where its payload begins.
fn begin(
    kind: Kind,
    binding: &Binding,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> String {
    let expires_at = now.saturating_add(lifetime_seconds.clamp(1, MAX_ENVELOPE_LIFETIME_SECONDS));
    let mut text = String::with_capacity(USUAL_ENVELOPE_BYTES);
    put(
        &mut text,
        format_args!(r#"{{"attempt":{},"board":"#, binding.attempt),
    );
    write_string(&mut text, &binding.board);
    text.push_str(r#","delivery_id":"#);
    match delivery_id {
        Some(given) if !given.is_empty() => write_string(&mut text, given),
        _ => write_string(&mut text, &Uuid::new_v4().to_string()),
    }
    put(
        &mut text,
        format_args!(r#","expires_at":{expires_at},"issued_at":{now},"kind":"{kind}","payload":"#),
    );
    text
}

/// Completes and signs the envelope whose payload has just been written.
fn finish(
    mut text: String,
    key: &Key,
    binding: &Binding,
    digest: &Digest,
) -> Result<Vec<u8>, ProtocolError> {
    put(
        &mut text,
        format_args!(r#","payload_digest":"{digest}","run_id":"#),
    );
    write_string(&mut text, &binding.run_id);

    // The signature stands between these two and covers both.
    let mut rest = String::from(r#","task_id":"#);
    write_string(&mut rest, &binding.task_id);
    let ordinal = binding.worker_ordinal;
    put(
        &mut rest,
        format_args!(r#","version":{PROTOCOL_VERSION},"worker_ordinal":{ordinal}}}"#),
    );
    if text.len() + rest.len() > MAX_WIRE_BYTES {
        return Err(ProtocolError::ExceedsWireLimit);
    }
    let mac = key.mac().chain_update(&text).chain_update(&rest);
    let signature = hex(&mac.finalize().into_bytes());
    put(
        &mut text,
        format_args!(r#","signature":"{signature}"{rest}"#),
    );
    Ok(text.into_bytes())
}

/// Appends formatted text; writing into a string cannot fail.
fn put(text: &mut String, formatted: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(formatted);
}
