//! What envelopes cost by their size: canonical JSON, signing, and parsing with verification, in nanoseconds a byte.
//!
//! Payloads are one long text, or very many small members, which have to be sorted. Each figure is next to that of 2 KiB: a
//! step that is superlinear shows as a ratio above 1.

use std::hint::black_box;
use std::time::Instant;

use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::protocol::{
    Binding, Json, Key, Kind, MAX_WIRE_BYTES, canonical_json, derive_ordinal_key, generate_key,
    parse_wire, sign_envelope, verify_envelope,
};

use crate::support::Outcome;
use crate::support::figures::{Session, median};
use crate::support::table::Line;

/// Bytes of the envelopes.
const SIZES: [usize; 3] = [2 << 10, 16 << 10, MAX_WIRE_BYTES];
/// Bytes of an envelope besides its payload, and a little more.
const FRAME_BYTES: usize = 600;
/// Bytes that each round goes through.
const BYTES_OF_A_ROUND: usize = 8 << 20;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let key = derive_ordinal_key(&generate_key()?, 0, 1)?;
    let mut lines = Vec::new();
    for (shape, payload) in [("text", text as fn(usize) -> Json), ("members", members)] {
        for (step, work) in [
            ("canonical JSON", canonical as Work),
            ("signing", sign),
            ("verification", verify),
        ] {
            let mut smallest: Option<Vec<f64>> = None;
            for size in SIZES {
                let payload = payload(size - FRAME_BYTES);
                let figures: Vec<f64> = (0..session.rounds)
                    .map(|_| round(work, &key, &payload, session))
                    .collect::<Outcome<_>>()?;
                let what = format!("{step}, {} KiB of {shape}", size >> 10);
                let per_envelope = median(&figures) * size as f64 / 1e3;
                let line = Line::new(what, "ns/byte", figures.clone())
                    .note(format!("{per_envelope:.1} us each"));
                lines.push(match &smallest {
                    Some(smallest) => line.against("2 KiB", smallest.clone()),
                    None => line,
                });
                smallest.get_or_insert(figures);
            }
        }
    }
    Ok(lines)
}

/// One long text.
fn text(bytes: usize) -> Json {
    Json::object([(
        "text",
        Json::from("all work and no play ".repeat(bytes / 21).as_str()),
    )])
}

/// Very many small members, in no order.
fn members(bytes: usize) -> Json {
    let count = bytes / 20;
    let names: Vec<String> = (0..count)
        .map(|number| format!("m{:08x}", (number as u32).wrapping_mul(2_654_435_761)))
        .collect();
    Json::object(
        names
            .iter()
            .map(|name| (name.as_str(), Json::from(1_000_i64))),
    )
}

type Work = fn(&Key, &Json, i64, &[u8]) -> Outcome<()>;

fn canonical(_: &Key, payload: &Json, _: i64, _: &[u8]) -> Outcome<()> {
    black_box(canonical_json(payload)?);
    Ok(())
}

fn sign(key: &Key, payload: &Json, now: i64, _: &[u8]) -> Outcome<()> {
    black_box(envelope(key, payload, now)?);
    Ok(())
}

fn verify(key: &Key, _: &Json, now: i64, envelope: &[u8]) -> Outcome<()> {
    black_box(verify_envelope(
        key,
        parse_wire(envelope)?,
        Some(Kind::Result),
        now,
        1,
    )?);
    Ok(())
}

fn envelope(key: &Key, payload: &Json, now: i64) -> Outcome<Vec<u8>> {
    let binding = Binding {
        board: "bench".to_owned(),
        task_id: "t_00000001".to_owned(),
        run_id: "1".to_owned(),
        ..Binding::without_run(0)
    };
    Ok(sign_envelope(
        key,
        Kind::Result,
        &binding,
        payload,
        now,
        120,
        None,
    )?)
}

/// Nanoseconds for each byte of the envelope.
fn round(work: Work, key: &Key, payload: &Json, session: &Session) -> Outcome<f64> {
    let now = SystemClock::new().now().whole_seconds();
    let envelope = envelope(key, payload, now)?;
    let times = (session.choose(BYTES_OF_A_ROUND, BYTES_OF_A_ROUND / 8) / envelope.len()).max(1);
    let began = Instant::now();
    for _ in 0..times {
        work(key, payload, now, &envelope)?;
    }
    Ok(began.elapsed().as_nanos() as f64 / (times * envelope.len()) as f64)
}
