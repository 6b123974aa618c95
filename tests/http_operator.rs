//! The operator's token at the gate of a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, web};
use hermes_pool::http::{
    OperatorAuth, RequestLimit, ServerOptions, bearer_token, bind_both, require_token, start,
};

/// Sends one request and reads until the server closes.
fn ask(address: SocketAddr, method: &str, path: &str, token: Option<&str>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = token.map_or_else(String::new, |token| format!("Authorization: {token}\r\n"));
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[derive(serde::Deserialize)]
struct Number {
    number: u8,
}

#[test]
fn on_loopback_everybody_reads_only_the_token_changes_and_every_refusal_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("operator.token");
    let any = "127.0.0.1:0".parse().unwrap();
    let (_, listener) = bind_both(any, any).unwrap();
    let address = listener.local_addr().unwrap();
    let auth = OperatorAuth::open(&token_file, address).unwrap();
    let options = ServerOptions {
        threads: 1,
        client_timeout: std::time::Duration::from_secs(15),
        keep_alive: std::time::Duration::from_secs(15),
        limit: RequestLimit::new(8),
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let server = start(listener, &options, move |config| {
                let auth = auth.clone();
                let gate = from_fn(move |request, next| require_token(auth.clone(), request, next));
                let both = web::resource("/thing")
                    .get(|| async { HttpResponse::Ok().body("read") })
                    .post(|| async { HttpResponse::Ok().body("changed") });
                let number = |query: web::Query<Number>| async move { query.number.to_string() };
                let count = web::resource("/count").get(number);
                config.service(web::scope("").wrap(gate).service(both).service(count));
            });
            let server = server.unwrap();
            sender.send(server.handle()).unwrap();
            server.await.unwrap();
        });
    });
    let handle = receiver.recv().unwrap();
    let token = bearer_token(&token_file).unwrap();

    assert!(ask(address, "GET", "/thing", None).ends_with("\r\n\r\nread"));
    let refused = ask(address, "POST", "/thing", None);
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    assert!(
        refused
            .to_lowercase()
            .contains("www-authenticate: bearer\r\n"),
        "{refused}"
    );
    assert!(
        refused.contains(r#"{"error":{"code":"token_required""#),
        "{refused}"
    );
    assert!(ask(address, "POST", "/thing", Some("Bearer guess")).starts_with("HTTP/1.1 401 "));
    assert!(ask(address, "POST", "/thing", Some(&token)).ends_with("\r\n\r\nchanged"));
    let absent = ask(address, "GET", "/other", None);
    assert!(
        absent.contains(r#"{"error":{"code":"not_found""#),
        "{absent}"
    );

    assert!(ask(address, "GET", "/count?number=7", None).ends_with("\r\n\r\n7"));
    for query in ["/count", "/count?number=x", "/count?number=%ff"] {
        let refused = ask(address, "GET", query, None);
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        assert!(
            refused.contains(r#"{"error":{"code":"invalid_query""#),
            "{refused}"
        );
    }

    drop(handle.stop(true));
    thread.join().unwrap();
}
