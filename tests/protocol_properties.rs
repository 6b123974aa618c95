//! What holds for the protocol whatever the input is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use hermes_pool::protocol::{
    Binding, Integer, Json, Key, Kind, MAX_NESTING, Text, canonical_json, parse_json, parse_wire,
    payload_digest, sign_envelope, verify_envelope,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000;
const SLOTS: u16 = 10_000;

fn key() -> Key {
    Key::from_bytes(b"0123456789abcdef0123456789abcdef".to_vec())
}

/// Values that have a canonical form.
fn json() -> impl Strategy<Value = Json> {
    let integer =
        "-?(0|[1-9][0-9]{0,40})".prop_map(|digits| Json::Int(Integer::parse(&digits).unwrap()));
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        integer,
        any::<f64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Json::Array),
            btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Text that is nearly JSON: its tokens in any order.
fn tokens() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{", "}", "[", "]", ":", ",", "\"", "\\u", "\\", "d83d", "de00", "-", "0", "1", ".", "e",
        "+", "NaN", "Infinity", "null", "true", "\"a\"", "\"a\":", " ", "\u{FEFF}", "\0", "é",
    ]);
    vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes())
}

fn binding() -> impl Strategy<Value = Binding> {
    let name = "[A-Za-z0-9][A-Za-z0-9_.-]{0,127}";
    (name, name, name, 0..i64::from(SLOTS), 0..i64::MAX).prop_map(
        |(board, task_id, run_id, worker_ordinal, attempt)| Binding {
            board,
            task_id,
            run_id,
            worker_ordinal,
            attempt: attempt.into(),
        },
    )
}

/// Parsing must not panic, and what it takes has one canonical form or none.
fn parses_to_one_form_or_none(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(value) = parse_json(bytes) else {
        return Ok(());
    };
    let Ok(canonical) = canonical_json(&value) else {
        return Ok(());
    };
    let again = parse_json(&canonical).and_then(|value| canonical_json(&value));
    prop_assert_eq!(again, Ok(canonical));
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_parse_to_one_form_or_none(bytes in vec(any::<u8>(), 0..200)) {
        parses_to_one_form_or_none(&bytes)?;
    }

    #[test]
    fn any_tokens_parse_to_one_form_or_none(bytes in tokens()) {
        parses_to_one_form_or_none(&bytes)?;
    }

    #[test]
    fn every_value_survives_its_canonical_form(value in json()) {
        let canonical = canonical_json(&value).unwrap();
        let again = parse_json(&canonical).unwrap();
        prop_assert_eq!(canonical_json(&again).unwrap(), canonical);
    }

    #[test]
    fn a_value_is_the_same_in_every_encoding(value in json(), big_endian: bool) {
        let canonical = canonical_json(&value).unwrap();
        let text = format!("\u{FEFF}{}", String::from_utf8(canonical.clone()).unwrap());
        let encode = |unit: u16| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let bytes: Vec<u8> = text.encode_utf16().flat_map(encode).collect();
        let again = parse_json(&bytes).and_then(|value| canonical_json(&value));
        prop_assert_eq!(again, Ok(canonical));
    }

    #[test]
    fn texts_sort_by_code_point(one: String, two: String) {
        let by_code_point = one.chars().cmp(two.chars());
        prop_assert_eq!(Text::from(one).cmp(&Text::from(two)), by_code_point);
    }

    #[test]
    fn what_was_signed_verifies(binding in binding(), payload in json(), lifetime in -10..400_i64) {
        let signed =
            sign_envelope(&key(), Kind::Result, &binding, &payload, NOW, lifetime, None).unwrap();
        let message = parse_wire(&signed).unwrap();
        prop_assert_eq!(canonical_json(&message).unwrap(), signed);
        let envelope = verify_envelope(&key(), message, Some(Kind::Result), NOW, SLOTS).unwrap();
        prop_assert_eq!(envelope.binding.clone(), binding);
        prop_assert_eq!(&envelope.payload_digest, &payload_digest(&payload).unwrap());
        let payload_json = canonical_json(&payload).unwrap();
        prop_assert_eq!(envelope.payload_json().as_bytes(), payload_json);
    }

    #[test]
    fn no_bit_of_the_meaning_can_be_changed(
        binding in binding(),
        payload in json(),
        position: prop::sample::Index,
        bit in 0..8_u32,
    ) {
        let mut signed =
            sign_envelope(&key(), Kind::Heartbeat, &binding, &payload, NOW, 60, Some("d-1"))
                .unwrap();
        let original = signed.clone();
        let position = position.index(signed.len());
        signed[position] ^= 1 << bit;
        let Ok(message) = parse_wire(&signed) else {
            return Ok(());
        };
        // Another spelling of the same value, such as `1E+16`, is the same message.
        let is_same = canonical_json(&message) == Ok(original);
        let outcome = verify_envelope(&key(), message, None, NOW, SLOTS);
        prop_assert_eq!(outcome.is_ok(), is_same);
    }

    #[test]
    fn any_message_is_judged_without_a_panic(message in json()) {
        prop_assert!(verify_envelope(&key(), message, None, NOW, SLOTS).is_err());
    }
}

/// Arrays and objects in turn, one inside the other.
fn nested(levels: usize) -> Vec<u8> {
    let is_array = |level: &usize| level.is_multiple_of(2);
    let opening = |level| if is_array(&level) { "[" } else { r#"{"":"# };
    let closing = |level| if is_array(&level) { "]" } else { "}" };
    let openings: String = (0..levels).map(opening).collect();
    let closings: String = (0..levels).rev().map(closing).collect();
    format!("{openings}0{closings}").into_bytes()
}

fn on_a_stack_of(bytes: usize, work: fn()) {
    let thread = std::thread::Builder::new().stack_size(bytes);
    thread.spawn(work).unwrap().join().unwrap();
}

#[test]
fn the_deepest_message_is_judged_and_dropped_on_a_fraction_of_a_stack() {
    on_a_stack_of(384 * 1024, || {
        let text = nested(MAX_NESTING);
        let value = parse_json(&text).unwrap();
        assert_eq!(canonical_json(&value), Ok(text));
        assert!(verify_envelope(&key(), value, None, NOW, SLOTS).is_err());
    });
}

#[test]
fn the_deepest_value_is_copied_compared_and_shown_on_a_usual_stack() {
    on_a_stack_of(2 * 1024 * 1024, || {
        let value = parse_json(&nested(MAX_NESTING)).unwrap();
        let copy = value.clone();
        assert_eq!(copy, value);
        assert!(format!("{copy:?}").len() > MAX_NESTING);
    });
}

#[test]
fn deeper_values_are_refused_at_either_door() {
    assert!(parse_json(&nested(MAX_NESTING + 1)).is_err());
    let with_an_empty_array = String::from_utf8(nested(MAX_NESTING)).unwrap();
    assert!(parse_json(with_an_empty_array.replace('0', "[]").as_bytes()).is_err());
    assert!(parse_json("[".repeat(60_000).as_bytes()).is_err());
    let deepest = parse_json(&nested(MAX_NESTING)).unwrap();
    assert!(canonical_json(&Json::Array(vec![deepest])).is_err());
}

/// What is found out at once costs less than the clock can tell.
const NOTICEABLE: Duration = Duration::from_micros(5);

/// Messages of about this many bytes that cost the most to judge, by what is in them.
fn costly(bytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    let list = |item: &str| format!("[{}0]", item.repeat(bytes / item.len()));
    let members = |name: fn(usize) -> String| {
        let members: Vec<String> = (0..bytes / 12).map(name).collect();
        format!("{{{}}}", members.join(","))
    };
    let texts = [
        ("one text", format!("\"{}\"", "x".repeat(bytes))),
        (
            "escapes",
            format!("\"{}\"", r"\ud83d\ude00".repeat(bytes / 12)),
        ),
        (
            "surrogates apart",
            format!("\"{}\"", r"\ude00".repeat(bytes / 6)),
        ),
        ("one integer", "9".repeat(bytes)),
        ("one fraction", format!("0.{}", "1".repeat(bytes))),
        ("one exponent", format!("1e{}", "9".repeat(bytes))),
        ("integers", list("99,")),
        ("long integers", list(&format!("{},", "9".repeat(900)))),
        ("floats", list("1.5e-300,")),
        ("empty lists", list("[],")),
        (
            "members",
            members(|n| format!("\"{:06}\":1", n * 7919 % 1_000_003)),
        ),
        ("the same member", members(|_| "\"member\":1".to_owned())),
        ("lists without end", "[".repeat(bytes)),
        ("blanks", format!("{}0", " ".repeat(bytes))),
        (
            "a text without end",
            format!("\"{}", "\\\"".repeat(bytes / 2)),
        ),
    ];
    texts.map(|(name, text)| (name, text.into_bytes())).into()
}

/// How long it takes to judge a message, whatever the verdict.
fn time_of(bytes: &[u8]) -> Duration {
    let began = Instant::now();
    if let Ok(value) = parse_json(bytes) {
        let _ = canonical_json(&value);
        let message = Json::object([("payload", value)]);
        assert!(verify_envelope(&key(), message, None, NOW, SLOTS).is_err());
    }
    began.elapsed()
}

/// Sixteen times the bytes cost about sixteen times the time; 256 times would be quadratic. The shortest times are compared,
/// of as many tries as it takes on a busy machine.
#[test]
fn the_cost_of_a_message_grows_with_its_length_and_no_faster() {
    let patience = Duration::from_secs(20);
    let long = costly(60_000);
    for ((name, short), (_, long)) in costly(3_750).iter().zip(&long) {
        let began = Instant::now();
        let (mut of_short, mut of_long) = (Duration::MAX, Duration::MAX);
        while of_long / 64 > of_short.max(NOTICEABLE) || of_long == Duration::MAX {
            assert!(
                began.elapsed() < patience,
                "{name}: {of_short:?}, then {of_long:?}"
            );
            of_short = of_short.min(time_of(short));
            of_long = of_long.min(time_of(long));
        }
    }
}
