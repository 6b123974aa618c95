//! One request at a time on every connection, whatever the client sends ahead.
//!
//! The HTTP library takes in all that has arrived, makes a request of each head it finds, and appends each answer to those
//! that were not taken yet. A stranger who sends thousands of requests in one go and reads nothing would have it hold them
//! all. So the library gets the bytes of a connection in turns: the head of a request; its body, once the request is known;
//! nothing more until its answer is complete and the client takes it. What was sent ahead waits with the system, but for
//! [`AHEAD_BYTES`]. A client that waits for each answer notices nothing.
//!
//! Where a request ends is found by its length. The end of a chunked body is known to the library only, so what follows it
//! is no turn of its own: a connection on which chunks were sent serves no further request.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use actix_web::rt::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connections::Connection;

/// What is read of a connection before its turn, so that the end of the connection is noticed while a request is served.
const AHEAD_BYTES: usize = 4096;
/// What the library gets at once where the end of a request is not known. It can be no more than a few small requests.
const SLICE_BYTES: usize = 256;

/// What a connection's client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A head, of which this much is known.
    Head(HeadEnd),
    /// So many bytes of a body; then it waits for its answer.
    Body(usize),
    /// Whatever it sends, slice by slice.
    Slices,
}

impl Turn {
    /// How many of the bytes that have arrived are for this turn, and which turn is next.
    fn take(self, arrived: &[u8]) -> (usize, Self) {
        match self {
            Self::Head(end) => end.look(arrived),
            Self::Body(left) => {
                let count = left.min(arrived.len());
                (count, Self::Body(left - count))
            }
            Self::Slices => (arrived.len().min(SLICE_BYTES), self),
        }
    }
}

/// Looks for the empty line after a head. Empty lines before it belong to it, as they do for the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HeadEnd {
    has_line: bool,
    in_line: bool,
}

impl HeadEnd {
    fn look(mut self, arrived: &[u8]) -> (usize, Turn) {
        for (index, byte) in arrived.iter().enumerate() {
            match byte {
                b'\n' if !self.in_line && self.has_line => return (index + 1, Turn::Body(0)),
                b'\n' => self.in_line = false,
                b'\r' => {}
                _ => (self.in_line, self.has_line) = (true, true),
            }
        }
        (arrived.len(), Turn::Head(self))
    }
}

/// Whose turn it is on one connection; shared by the connection and its requests.
#[derive(Debug)]
pub(super) struct Turns {
    turn: Cell<Turn>,
    /// An answer that the client has not taken yet.
    is_blocked: Cell<bool>,
    /// Who waits for bytes that have arrived, but whose turn it is not.
    waiting: RefCell<Option<Waker>>,
    /// Where the connection is watched.
    watched: OnceCell<Arc<Connection>>,
}

impl Turns {
    /// A request whose head has arrived, with the length of its body; `None` where only the library will know.
    pub(super) fn begin(self: &Rc<Self>, body: Option<usize>) -> Serving {
        if self.turn.get() != Turn::Slices {
            self.pass_to(body.map_or(Turn::Slices, Turn::Body));
        }
        if let Some(connection) = self.watched.get() {
            connection.serves();
        }
        Serving(Rc::clone(self))
    }

    /// Has the connection watched.
    pub(super) fn watch(&self, connection: Arc<Connection>) {
        let _ = self.watched.set(connection);
    }

    fn end(&self) {
        let next = match self.turn.get() {
            Turn::Body(0) => Turn::Head(HeadEnd::default()),
            // The library closes the connection, and throws away what still comes.
            _ => Turn::Slices,
        };
        self.pass_to(next);
        if let Some(connection) = self.watched.get() {
            connection.idles();
        }
    }

    fn pass_to(&self, turn: Turn) {
        self.turn.set(turn);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    fn block(&self, is_blocked: bool) {
        if self.is_blocked.replace(is_blocked) == is_blocked {
            return;
        }
        if let Some(connection) = self.watched.get() {
            connection.blocks(is_blocked);
        }
        if !is_blocked {
            self.wake();
        }
    }
}

/// A request that is served on a connection; when this is dropped, the next one may come.
#[derive(Debug)]
pub(super) struct Serving(Rc<Turns>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A connection that is read in turns.
#[derive(Debug)]
pub(super) struct InTurns {
    stream: TcpStream,
    turns: Rc<Turns>,
    /// What has arrived and was not taken yet.
    ahead: Vec<u8>,
    has_ended: bool,
    /// The last slice was taken just now; the library shall look at it before it gets another one.
    has_sliced: bool,
}

impl InTurns {
    pub(super) fn new(stream: TcpStream) -> Self {
        let turns = Turns {
            turn: Cell::new(Turn::Head(HeadEnd::default())),
            is_blocked: Cell::default(),
            waiting: RefCell::default(),
            watched: OnceCell::new(),
        };
        Self {
            stream,
            turns: Rc::new(turns),
            ahead: Vec::new(),
            has_ended: false,
            has_sliced: false,
        }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn turns(&self) -> &Rc<Turns> {
        &self.turns
    }

    /// Reads ahead until nothing more has arrived, or enough has.
    fn read_ahead(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut space = [0; AHEAD_BYTES];
        while !self.has_ended && self.ahead.len() < AHEAD_BYTES {
            let Some(space) = space.get_mut(self.ahead.len()..) else {
                break;
            };
            let mut read = ReadBuf::new(space);
            match Pin::new(&mut self.stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) if read.filled().is_empty() => self.has_ended = true,
                Poll::Ready(Ok(())) => self.ahead.extend_from_slice(read.filled()),
                Poll::Ready(Err(error)) if self.ahead.is_empty() => return Err(error),
                // What arrived before counts, as it does where the client ends the connection in good order.
                Poll::Ready(Err(_)) => self.has_ended = true,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Hands out what belongs to the present turn; how much that was.
    fn hand_out(&mut self, buffer: &mut ReadBuf<'_>) -> usize {
        let most = self.ahead.len().min(buffer.remaining());
        let arrived = self.ahead.get(..most).unwrap_or_default();
        let (count, next) = self.turns.turn.get().take(arrived);
        buffer.put_slice(arrived.get(..count).unwrap_or_default());
        self.turns.turn.set(next);
        self.ahead.drain(..count);
        self.has_sliced = next == Turn::Slices && count > 0;
        count
    }
}

impl AsyncRead for InTurns {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if std::mem::take(&mut this.has_sliced) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !this.turns.is_blocked.get() {
            this.read_ahead(context)?;
            if this.hand_out(buffer) > 0 || this.has_ended && this.ahead.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        // Otherwise the stream wakes the library itself.
        if this.turns.is_blocked.get() || this.has_ended || !this.ahead.is_empty() {
            this.turns.waiting.replace(Some(context.waker().clone()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for InTurns {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_pending() {
            self.turns.block(true);
        }
        written
    }

    /// The library flushes when all that it had to write was taken.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.turns.block(false);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the first turn, taken all at once and byte by byte.
    fn first_turn(arrived: &[u8]) -> (usize, Turn) {
        let start = Turn::Head(HeadEnd::default());
        let (at_once, next) = start.take(arrived);
        let (mut bytes, mut turn) = (0, start);
        while let (Turn::Head(_), Some(byte)) = (turn, arrived.get(bytes)) {
            let (taken, after) = turn.take(&[*byte]);
            (bytes, turn) = (bytes + taken, after);
        }
        assert_eq!((bytes, turn), (at_once, next));
        (at_once, next)
    }

    #[test]
    fn a_head_ends_with_its_first_empty_line() {
        for (head, behind) in [
            ("GET / HTTP/1.1\r\nHost: pool\r\n\r\n", "GET / HTTP/1.1\r\n"),
            ("GET / HTTP/1.1\r\n\r\n", "\r\n"),
            ("GET / HTTP/1.1\n\n", "{}"),
            ("\r\n\n\r\nGET / HTTP/1.1\nHost: pool\r\n\n", "\n\n"),
        ] {
            let arrived = [head, behind].concat();
            let expected = (head.len(), Turn::Body(0));
            assert_eq!(first_turn(arrived.as_bytes()), expected, "{head:?}");
        }
        for head in ["", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: pool\r\n"] {
            let (taken, next) = first_turn(head.as_bytes());
            assert_eq!(taken, head.len());
            assert!(matches!(next, Turn::Head(_)), "{head:?}");
        }
    }

    #[test]
    fn a_body_ends_with_its_length_and_what_has_no_end_comes_in_slices() {
        let arrived = [b'x'; 2 * SLICE_BYTES];
        assert_eq!(Turn::Body(3).take(&arrived), (3, Turn::Body(0)));
        assert_eq!(Turn::Body(0).take(&arrived), (0, Turn::Body(0)));
        assert_eq!(Turn::Body(3).take(b"x"), (1, Turn::Body(2)));
        assert_eq!(Turn::Slices.take(&arrived), (SLICE_BYTES, Turn::Slices));
    }
}
