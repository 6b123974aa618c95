//! Which replies a worker believes.
//!
//! A reply is believed if it is signed with the worker's own key, inside its validity window, repeats the delivery
//! identifier of the request, and speaks of the same attempt of the same run. Everything else (a proxy's page, a reply
//! to somebody else, an unsigned error) is no answer: it can be logged, but nothing is decided by it.

use uuid::Uuid;

use crate::protocol::{
    Ack, AssignmentPayload, Binding, DEFAULT_ENVELOPE_LIFETIME_SECONDS, Json, Key, Kind, MAX_SLOTS,
    PayloadError, ProtocolError, parse_wire, sign_envelope, verify_envelope,
};

/// A request that was signed and may be sent.
#[derive(Debug)]
pub(super) struct Request {
    kind: Kind,
    binding: Binding,
    delivery_id: String,
    body: Vec<u8>,
}

/// A reply that was believed.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// The ordinal has a run to work on.
    Assignment(Box<Assignment>),
    /// Any other answer.
    Ack(Ack),
}

/// A run that this worker holds.
#[derive(Debug, PartialEq)]
pub(super) struct Assignment {
    /// Which attempt of which run.
    pub(super) binding: Binding,
    /// What to do; an error if the pool is newer and says it in another way.
    pub(super) payload: Result<AssignmentPayload, PayloadError>,
}

/// Why a reply is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Untrusted {
    /// It is not a signed message of our pool.
    #[error("the reply is not a signed message of this pool: {0}")]
    Envelope(#[from] ProtocolError),
    /// It is a signed message, but not to this request.
    #[error("the reply belongs to another request ({0} differs)")]
    NotOurs(&'static str),
    /// It is a signed answer to this request that makes no sense.
    #[error("the reply cannot be understood: {0}")]
    Payload(#[from] PayloadError),
}

/// A name for a new message.
pub(super) fn new_delivery_id() -> String {
    Uuid::new_v4().to_string()
}

impl Request {
    /// Signs a request. `now` is in seconds since the epoch; a request that repeats another has its `delivery_id`.
    ///
    /// # Errors
    /// [`ProtocolError::ExceedsWireLimit`] if the message does not fit, and those of encoding its payload.
    pub(super) fn sign(
        key: &Key,
        kind: Kind,
        binding: Binding,
        payload: &Json,
        now: i64,
        delivery_id: String,
    ) -> Result<Self, ProtocolError> {
        let lifetime = DEFAULT_ENVELOPE_LIFETIME_SECONDS;
        let delivery = Some(delivery_id.as_str());
        let body = sign_envelope(key, kind, &binding, payload, now, lifetime, delivery)?;
        if body.len() > crate::protocol::MAX_WIRE_BYTES {
            // Signing does not count the signature, whoever verifies does.
            return Err(ProtocolError::ExceedsWireLimit);
        }
        Ok(Self {
            kind,
            binding,
            delivery_id,
            body,
        })
    }

    /// The bytes to send.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The path to send them to.
    pub(super) fn path(&self) -> String {
        format!("/v2/{}", self.kind)
    }

    /// Judges a reply. `now` is in seconds since the epoch.
    ///
    /// # Errors
    /// [`Untrusted`] for a reply that must not be acted upon.
    pub(super) fn verify(&self, key: &Key, body: &[u8], now: i64) -> Result<Reply, Untrusted> {
        let message = parse_wire(body)?;
        // How many slots the pool has is unknown here; which of them is meant is checked below.
        let envelope = verify_envelope(key, message, None, now, MAX_SLOTS)?;
        if envelope.delivery_id != self.delivery_id {
            return Err(Untrusted::NotOurs("delivery_id"));
        }
        if envelope.binding.worker_ordinal != self.binding.worker_ordinal {
            return Err(Untrusted::NotOurs("worker_ordinal"));
        }
        match envelope.kind {
            Kind::Assignment if self.kind == Kind::Poll => {
                Ok(Reply::Assignment(Box::new(Assignment {
                    payload: AssignmentPayload::parse(&envelope.payload),
                    binding: envelope.binding,
                })))
            }
            Kind::Ack if envelope.binding == self.binding => {
                Ok(Reply::Ack(Ack::parse(&envelope.payload)?))
            }
            Kind::Ack => Err(Untrusted::NotOurs("binding")),
            _ => Err(Untrusted::NotOurs("kind")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Integer, generate_key, parse_json};

    const NOW: i64 = 1_700_000_000;

    fn binding(ordinal: i64, attempt: i64) -> Binding {
        Binding {
            board: "lab".to_owned(),
            task_id: "t_1".to_owned(),
            run_id: "7".to_owned(),
            worker_ordinal: ordinal,
            attempt: Integer::from(attempt),
        }
    }

    struct Sent {
        key: Key,
        request: Request,
    }

    impl Sent {
        fn new(kind: Kind, binding: Binding) -> Self {
            let key = generate_key().unwrap();
            let empty = Json::Object(crate::protocol::Object::new());
            let request =
                Request::sign(&key, kind, binding, &empty, NOW, new_delivery_id()).unwrap();
            Self { key, request }
        }

        fn reply(&self, kind: Kind, binding: &Binding, payload: &str) -> Result<Reply, Untrusted> {
            let delivery = Some(self.request.delivery_id.as_str());
            self.judge(&self.key, kind, binding, payload, NOW, delivery)
        }

        fn judge(
            &self,
            key: &Key,
            kind: Kind,
            binding: &Binding,
            payload: &str,
            now: i64,
            delivery: Option<&str>,
        ) -> Result<Reply, Untrusted> {
            let payload = parse_json(payload.as_bytes()).unwrap();
            let body = sign_envelope(key, kind, binding, &payload, now, 120, delivery).unwrap();
            self.request.verify(&self.key, &body, NOW)
        }
    }

    const IDLE: &str = r#"{"status":"idle"}"#;

    #[test]
    fn an_answer_to_the_own_request_is_believed() {
        let sent = Sent::new(Kind::Poll, Binding::without_run(1));
        let idle = sent.reply(Kind::Ack, &Binding::without_run(1), IDLE);
        assert_eq!(idle, Ok(Reply::Ack(Ack::Idle)));
        let assigned = sent.reply(Kind::Assignment, &binding(1, 1), "{}").unwrap();
        let Reply::Assignment(assignment) = assigned else {
            panic!("not an assignment: {assigned:?}");
        };
        assert_eq!(assignment.binding, binding(1, 1));
        assert!(
            assignment.payload.is_err(),
            "it is ours even if it cannot be read"
        );
    }

    #[test]
    fn an_answer_to_another_request_is_not_believed() {
        let sent = Sent::new(Kind::Heartbeat, binding(1, 2));
        let ok = r#"{"status":"ok","duplicate":false,"lease_until":1700000090}"#;
        assert!(sent.reply(Kind::Ack, &binding(1, 2), ok).is_ok());
        for (kind, other, differs) in [
            (Kind::Ack, binding(1, 1), "binding"),
            (Kind::Ack, Binding::without_run(1), "binding"),
            (Kind::Ack, binding(0, 2), "worker_ordinal"),
            (Kind::Assignment, binding(1, 2), "kind"),
            (Kind::Heartbeat, binding(1, 2), "kind"),
        ] {
            let judged = sent.reply(kind, &other, ok);
            assert_eq!(judged, Err(Untrusted::NotOurs(differs)), "{kind} {other:?}");
        }
        let judged = sent.judge(&sent.key, Kind::Ack, &binding(1, 2), ok, NOW, Some("other"));
        assert_eq!(judged, Err(Untrusted::NotOurs("delivery_id")));
    }

    #[test]
    fn a_forged_or_old_answer_is_not_believed() {
        let sent = Sent::new(Kind::Heartbeat, binding(1, 2));
        let rejected = r#"{"status":"rejected","code":"stale_attempt","message":"m"}"#;
        let delivery = Some(sent.request.delivery_id.as_str());
        let forger = generate_key().unwrap();
        let judge = |key, now| sent.judge(key, Kind::Ack, &binding(1, 2), rejected, now, delivery);
        assert_eq!(
            judge(&forger, NOW),
            Err(Untrusted::Envelope(ProtocolError::NotAuthentic))
        );
        assert_eq!(
            judge(&sent.key, NOW - 400),
            Err(Untrusted::Envelope(ProtocolError::OutsideWindow))
        );
        assert!(judge(&sent.key, NOW).is_ok());
        for body in [
            &b""[..],
            b"<html>gateway timeout</html>",
            rejected.as_bytes(),
            sent.request.body(),
        ] {
            assert!(sent.request.verify(&sent.key, body, NOW).is_err());
        }
    }

    #[test]
    fn a_message_fits_with_its_signature_or_is_not_sent() {
        let key = generate_key().unwrap();
        let sign = |size: usize| {
            let payload = Json::object([("reason", Json::from("x".repeat(size)))]);
            Request::sign(
                &key,
                Kind::Result,
                binding(0, 1),
                &payload,
                NOW,
                new_delivery_id(),
            )
        };
        let overhead = sign(0).unwrap().body().len();
        let room = crate::protocol::MAX_WIRE_BYTES - overhead;
        assert!(sign(room).is_ok());
        assert_eq!(sign(room + 1).unwrap_err(), ProtocolError::ExceedsWireLimit);
    }
}
