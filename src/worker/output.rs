//! What a command writes, as far as it is kept: the tail of both streams, and the last line of standard output.
//!
//! Two threads read the pipes without a pause, so a command is never held up by its worker, and a worker's memory is
//! bounded whatever the command writes. The pipes may be held open by processes that the command left behind; whoever
//! waits for their end says for how long.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::protocol::MAX_ACTIVITY_BYTES;

/// The longest line of standard output that can be a result; a longer one is passed over.
const LONGEST_LINE_BYTES: usize = 1024 * 1024;

/// The output of one command.
#[derive(Debug, Default)]
pub(super) struct Output {
    kept: Mutex<Kept>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    tail: Tail,
    last_line: LastLine,
    open_streams: u8,
}

impl Output {
    /// Collects both streams of a command until they end.
    pub(super) fn collect(
        stdout: impl Read + Send + 'static,
        stderr: impl Read + Send + 'static,
    ) -> Arc<Self> {
        let output = Arc::new(Self::default());
        output.lock().open_streams = 2;
        let of_stdout = Arc::clone(&output);
        thread::spawn(move || {
            of_stdout.drain(stdout, |kept, bytes| {
                kept.tail.push(bytes);
                kept.last_line.push(bytes);
            });
        });
        let of_stderr = Arc::clone(&output);
        thread::spawn(move || of_stderr.drain(stderr, |kept, bytes| kept.tail.push(bytes)));
        output
    }

    fn drain(&self, mut stream: impl Read, keep: impl Fn(&mut Kept, &[u8])) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => keep(&mut self.lock(), buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.lock().open_streams -= 1;
        self.closed.notify_all();
    }

    /// Waits until both streams have ended, but no longer than `limit`; whether they have.
    pub(super) fn wait_closed(&self, limit: Duration) -> bool {
        let is_open = |kept: &mut Kept| kept.open_streams > 0;
        let (_kept, waited) = self
            .closed
            .wait_timeout_while(self.lock(), limit, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }

    /// The end of what was written, at most [`MAX_ACTIVITY_BYTES`], without control characters.
    pub(super) fn tail(&self) -> String {
        self.lock().tail.text(MAX_ACTIVITY_BYTES)
    }

    /// The last line of standard output that is not blank; `None` too if it was too long.
    pub(super) fn last_line(&self) -> Option<Vec<u8>> {
        self.lock().last_line.get().map(<[u8]>::to_vec)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(MAX_ACTIVITY_BYTES);
        self.0.extend(bytes.iter().skip(skipped));
        let excess = self.0.len().saturating_sub(MAX_ACTIVITY_BYTES);
        self.0.drain(..excess);
    }

    fn text(&self, max_bytes: usize) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        // The ring may begin inside a character.
        let start = bytes
            .iter()
            .position(|byte| byte & 0xC0 != 0x80)
            .unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default());
        // A control character takes six bytes in an envelope, and does no good on a terminal that shows it.
        let readable: String = text
            .chars()
            .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'))
            .collect();
        end_of(&readable, max_bytes).to_owned()
    }
}

/// The end of a text, at most `max_bytes` long, cut between characters.
pub(super) fn end_of(text: &str, max_bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// Finds the last line that is not blank, whether or not a newline ends it.
#[derive(Debug, Default)]
struct LastLine {
    complete: Line,
    current: Line,
}

#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl LastLine {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.current.push(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.current);
                if !line.is_blank() {
                    self.complete = line;
                }
            }
        }
    }

    fn get(&self) -> Option<&[u8]> {
        let line = if self.current.is_blank() {
            &self.complete
        } else {
            &self.current
        };
        (!line.is_too_long && !line.is_blank()).then(|| line.bytes.trim_ascii())
    }
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > LONGEST_LINE_BYTES {
            self.is_too_long = true;
            self.bytes = Vec::new();
        } else if !self.is_too_long {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn is_blank(&self) -> bool {
        !self.is_too_long && self.bytes.trim_ascii().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(chunks: &[&[u8]]) -> String {
        let mut tail = Tail::default();
        for chunk in chunks {
            tail.push(chunk);
        }
        tail.text(MAX_ACTIVITY_BYTES)
    }

    #[test]
    fn the_tail_is_bounded_and_whole_characters() {
        let long = "é".repeat(MAX_ACTIVITY_BYTES);
        let tail = tail_of(&[b"x", long.as_bytes()]);
        assert_eq!(tail, "é".repeat(MAX_ACTIVITY_BYTES / 2));
        let odd = tail_of(&[long.as_bytes(), b"x"]);
        assert_eq!(odd.len(), MAX_ACTIVITY_BYTES - 1);
        assert!(odd.starts_with('é') && odd.ends_with('x'));
    }

    #[test]
    fn bytes_that_are_no_text_do_not_make_the_tail_longer() {
        let tail = tail_of(&[&[0xFF; MAX_ACTIVITY_BYTES]]);
        assert!(tail.len() <= MAX_ACTIVITY_BYTES && tail.chars().all(|char| char == '\u{FFFD}'));
    }

    #[test]
    fn control_characters_are_left_out_of_the_tail() {
        assert_eq!(
            tail_of(&[b"\x1b[1mone\x1b[0m\r\n\0two\t"]),
            "[1mone[0m\ntwo\t"
        );
    }

    #[test]
    fn the_last_line_is_the_last_that_is_not_blank() {
        for (chunks, line) in [
            (&["one\ntwo\n"][..], Some("two")),
            (&["one\ntw", "o"], Some("two")),
            (&["one\n\n  \n"], Some("one")),
            (&["one\r\n"], Some("one")),
            (&["one\n "], Some("one")),
            (&["", "\n"], None),
            (&[], None),
        ] {
            let mut last_line = LastLine::default();
            for chunk in chunks {
                last_line.push(chunk.as_bytes());
            }
            let found = last_line.get().map(|line| str::from_utf8(line).unwrap());
            assert_eq!(found, line, "{chunks:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_collected() {
        let mut last_line = LastLine::default();
        last_line.push(b"one\n");
        for _ in 0..1_000 {
            last_line.push(&[b'x'; 16 * 1024]);
        }
        assert_eq!(
            last_line.get(),
            None,
            "the last line is the one that is too long"
        );
        assert!(last_line.current.bytes.capacity() <= 2 * LONGEST_LINE_BYTES);
        last_line.push(b"\ntwo");
        assert_eq!(last_line.get(), Some(&b"two"[..]));
    }
}
