//! A keep-alive connection that speaks just enough HTTP/1.1: the load generator shares its cores with what it measures.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Outcome;

/// One connection.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to a server on loopback.
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    /// Sends a request and returns the body of its answer, which must be a success.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Outcome<Vec<u8>> {
        self.stream.write_all(request).await?;
        self.received.clear();
        loop {
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).await?;
            if count == 0 {
                return Err("the server closed the connection".into());
            }
            self.received
                .extend_from_slice(chunk.get(..count).unwrap_or_default());
            if let Some(body) = complete_body(&self.received)? {
                return Ok(body.to_vec());
            }
        }
    }
}

/// A whole request without a body.
pub(crate) fn question(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: pool\r\n\r\n").into_bytes()
}

/// A whole request with an envelope as its body.
pub(crate) fn request(path: &str, envelope: &[u8]) -> Vec<u8> {
    let length = envelope.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: pool\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(envelope);
    request
}

/// The body of an answer, once all of it is there.
fn complete_body(answer: &[u8]) -> Outcome<Option<&[u8]>> {
    let Some(head_end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, body) = answer.split_at(head_end + 4);
    let head = str::from_utf8(head)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("{head}{}", String::from_utf8_lossy(body)).into());
    }
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .ok_or("an answer without its length")?
        .parse()?;
    Ok((body.len() == length).then_some(body))
}
