//! An HTTP/1.1 client that sends exactly the bytes it is given, and reads answers one by one.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::PATIENCE;

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("every body is UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error that an unsigned refusal carries.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, String, String) {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let document = self.json();
        let text = |name: &str| {
            let value = document["error"][name].as_str();
            value
                .unwrap_or_else(|| panic!("no {name}: {document}"))
                .to_owned()
        };
        (self.status, text("code"), text("message"))
    }
}

impl Wire {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Sends bytes. A server that has heard enough may close before all of them are sent.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends nothing more, and still listens.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Goes away at once, as a process that is killed with data unread.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Reads the next answer.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        self.answer_to("POST")
    }

    /// Reads the next answer, to a request with this method: one to HEAD has no body.
    pub(crate) fn answer_to(&mut self, method: &str) -> io::Result<Answer> {
        let head = loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let rest = self.unread.split_off(end + 4);
                let head = std::mem::replace(&mut self.unread, rest);
                break String::from_utf8(head).expect("every head is UTF-8");
            }
            self.read_more()?;
        };
        let mut answer = Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: Vec::new(),
        };
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        let length: usize = match answer.header("content-length") {
            Some(length) if method != "HEAD" => length.parse().unwrap(),
            _ => 0,
        };
        while self.unread.len() < length {
            self.read_more()?;
        }
        let rest = self.unread.split_off(length);
        answer.body = std::mem::replace(&mut self.unread, rest);
        Ok(answer)
    }

    /// Whether an answer, or a part of one, has arrived; looks without waiting.
    pub(crate) fn has_heard(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let heard = !self.unread.is_empty() || self.read_more().is_ok();
        self.stream.set_nonblocking(false).unwrap();
        heard
    }

    /// Whether the server closes the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        if !self.unread.is_empty() {
            return false;
        }
        match self.read_more() {
            Ok(()) => false,
            Err(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ),
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16_384];
        match self.stream.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// A POST with a body of the announced length.
pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    post_with(path, "", body)
}

/// The same, with further header lines, each ended by CRLF.
pub(crate) fn post_with(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request =
        format!("POST {path} HTTP/1.1\r\nHost: pool\r\n{headers}Content-Length: {length}\r\n\r\n")
            .into_bytes();
    request.extend_from_slice(body);
    request
}
