//! Hostile bodies: what is no JSON, what is JSON but no message, and encodings that Python reads.

use crate::rows::{Gets, assert_rows, row};
use crate::served::Served;
use crate::support::Stage;
use crate::wire::post;

const IDLE: Gets = Gets::Signed(200, "idle");
const MALFORMED: Gets = Gets::Error(400, "malformed");
const INVALID: Gets = Gets::Error(400, "invalid_message");

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

fn utf32(text: &str, bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
    text.chars()
        .flat_map(|letter| bytes(letter.into()))
        .collect()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn bodies_that_are_no_message_are_malformed() {
    let served = Served::start(Stage::new(2));
    let rows = [
        ("a blank", b" ".to_vec()),
        ("no JSON", b"hello".to_vec()),
        ("half an object", b"{\"kind\":".to_vec()),
        ("two objects", b"{} {}".to_vec()),
        ("a comma too many", b"{\"kind\":\"poll\",}".to_vec()),
        ("single quotes", b"{'kind':'poll'}".to_vec()),
        ("a comment", b"{}// poll".to_vec()),
        ("a name without quotes", b"{kind:1}".to_vec()),
        (
            "a raw line feed in a text",
            b"{\"kind\":\"po\nll\"}".to_vec(),
        ),
        ("an unknown escape", b"{\"kind\":\"\\x41\"}".to_vec()),
        ("a form feed between", b"{\x0c}".to_vec()),
        ("a number that begins with 0", b"{\"a\":01}".to_vec()),
        (
            "infinity with a sign too many",
            b"{\"a\":+Infinity}".to_vec(),
        ),
        ("bytes that are no UTF-8", b"{\"a\":\"\xff\"}".to_vec()),
        ("an overlong encoding", b"{\"a\":\"\xc0\xaf\"}".to_vec()),
        (
            "a code point beyond Unicode",
            b"{\"a\":\"\xf4\x90\x80\x80\"}".to_vec(),
        ),
        (
            "two byte order marks",
            b"\xef\xbb\xbf\xef\xbb\xbf{}".to_vec(),
        ),
        ("an odd half of UTF-16", b"{\0}\0 ".to_vec()),
        ("an array", b"[]".to_vec()),
        ("a text", b"\"poll\"".to_vec()),
        ("a number", b"2".to_vec()),
        ("not a number", b"NaN".to_vec()),
        ("null", b"null".to_vec()),
        ("deep nesting", "[".repeat(60_000).into_bytes()),
        (
            "deep nesting of objects",
            "{\"a\":".repeat(10_000).into_bytes(),
        ),
        ("a form", b"kind=poll&worker_ordinal=0".to_vec()),
        ("NULs", vec![0; 1024]),
        ("65536 blanks", vec![b' '; 65_536]),
    ]
    .map(|(name, body)| row(name, post("/v2/poll", &body), MALFORMED));
    assert_rows(&served, &rows);
}

#[test]
fn encodings_of_unicode_are_detected_and_text_without_a_form_is_refused() {
    let served = Served::start(Stage::new(2));
    let worker = served.worker(0);
    let good = || worker.message("poll").sealed(&worker.key).text();
    let marked = |mark: &[u8], bytes: Vec<u8>| joined(&[mark, &bytes]);
    let poll = || worker.message("poll");
    let sealed = |payload: &str| poll().with("payload", payload).sealed(&worker.key).body();
    let surrogate_bytes = {
        let body = sealed("{\"a\":\"MARK\"}");
        let at = body.windows(4).position(|part| part == b"MARK").unwrap();
        joined(&[&body[..at], b"\xed\xa0\x80", &body[at + 4..]])
    };
    let wide = good().replace("\"payload\":{}", "\"payload\": {   }");
    let nested = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        sealed(&format!("{{\"a\":{value}}}"))
    };
    let long_integer = |digits: usize| sealed(&format!("{{\"a\":{}}}", "9".repeat(digits)));
    // 4 bytes each in the text, 18 in canonical form.
    let growing = vec!["1e15"; 12_000].join(",");
    let doubled = |first: &str, last: &str, message: &str| {
        message.replacen(
            &format!("\"kind\":{last}"),
            &format!("\"kind\":{first},\"\\u006bind\":{last}"),
            1,
        )
    };
    let rows = [
        (
            "UTF-8 with a mark",
            marked(b"\xef\xbb\xbf", good().into_bytes()),
            IDLE,
        ),
        ("UTF-16, little", utf16(&good(), u16::to_le_bytes), IDLE),
        ("UTF-16, big", utf16(&good(), u16::to_be_bytes), IDLE),
        (
            "UTF-16 with a mark, little",
            marked(b"\xff\xfe", utf16(&good(), u16::to_le_bytes)),
            IDLE,
        ),
        (
            "UTF-16 with a mark, big",
            marked(b"\xfe\xff", utf16(&good(), u16::to_be_bytes)),
            IDLE,
        ),
        ("UTF-32, little", utf32(&good(), u32::to_le_bytes), IDLE),
        ("UTF-32, big", utf32(&good(), u32::to_be_bytes), IDLE),
        (
            "UTF-32 with a mark",
            marked(b"\xff\xfe\0\0", utf32(&good(), u32::to_le_bytes)),
            IDLE,
        ),
        (
            "UTF-16 under the mark of the other",
            marked(b"\xfe\xff", utf16(&good(), u16::to_le_bytes)),
            MALFORMED,
        ),
        (
            "blanks and line feeds",
            wide.replace(',', "\r\n\t, ").into_bytes(),
            IDLE,
        ),
        (
            "65536 bytes, most of them blank",
            {
                let text = good();
                let blanks = " ".repeat(65_536 - text.len());
                format!("{blanks}{text}").into_bytes()
            },
            IDLE,
        ),
        (
            "fields in another order",
            {
                let text = good();
                let (first, rest) = text[1..text.len() - 1].split_once(',').unwrap();
                format!("{{{rest},{first}}}").into_bytes()
            },
            IDLE,
        ),
        (
            "NaN and infinities in the payload",
            sealed("{\"a\":[NaN,Infinity,-Infinity]}"),
            IDLE,
        ),
        ("an integer of 4300 digits", long_integer(4300), IDLE),
        ("an integer of 4301 digits", long_integer(4301), MALFORMED),
        ("a payload of 900 levels", nested(900), IDLE),
        ("a payload of 2000 levels", nested(2000), MALFORMED),
        ("a float that overflows", sealed("{\"a\":1e999}"), IDLE),
        (
            "keys with a meaning elsewhere",
            sealed("{\"$serde_json::private::Number\":\"x\",\"__proto__\":{}}"),
            IDLE,
        ),
        ("a NUL in a text", sealed("{\"a\":\"\\u0000\"}"), IDLE),
        (
            "an escaped surrogate pair",
            sealed("{\"a\":\"\\ud83d\\ude00\"}"),
            IDLE,
        ),
        (
            "a lone surrogate in the payload",
            sealed("{\"a\":\"\\ud800\"}"),
            INVALID,
        ),
        (
            "a reversed pair",
            sealed("{\"a\":\"\\udc00\\ud800\"}"),
            INVALID,
        ),
        (
            "a lone surrogate as a key",
            sealed("{\"\\udfff\":1}"),
            INVALID,
        ),
        ("a lone surrogate in bytes", surrogate_bytes, INVALID),
        (
            "a lone surrogate as a further field",
            poll().sealed(&worker.key).with("\\ud800", "1").body(),
            INVALID,
        ),
        (
            "a lone surrogate as the delivery",
            poll()
                .with("delivery_id", "\"\\ud800\"")
                .sealed(&worker.key)
                .body(),
            INVALID,
        ),
        (
            "a canonical form over the limit",
            poll()
                .with("payload", format!("[{growing}]"))
                .sealed(&worker.key)
                .body(),
            INVALID,
        ),
        (
            "a field twice, the last one good",
            doubled("\"result\"", "\"poll\"", &good()).into_bytes(),
            IDLE,
        ),
        (
            "a field twice, the last one bad",
            {
                let bad = poll().with("kind", "\"result\"").sealed(&worker.key).text();
                doubled("\"poll\"", "\"result\"", &bad).into_bytes()
            },
            Gets::Error(400, "unexpected_kind"),
        ),
    ]
    .map(|(name, body, gets)| {
        assert!(body.len() <= 65_536, "{name}");
        row(name, post("/v2/poll", &body), gets)
    });
    assert_rows(&served, &rows);
}
