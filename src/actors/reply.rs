//! Answers to workers: signed, about their own request only.

use tokio::sync::oneshot;

use super::supervise::Unreached;
use crate::clock::SharedClock;
use crate::domain::{self, IllegalRow};
use crate::protocol::{
    Ack, Binding, CanonicalPayload, DEFAULT_ENVELOPE_LIFETIME_SECONDS, Digest, Envelope, Integer,
    Key, Kind, PayloadError, ProtocolError, sign_canonical_payload, sign_envelope,
};
use crate::store::{Refusal, StoreError};

/// How an authenticated message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// It was carried out.
    Done,
    /// It was refused because of the state of its run.
    Refused,
    /// It was refused because of its payload.
    Unprocessable,
}

/// A signed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How the message was received.
    pub status: ReplyStatus,
    /// The signed envelope, ready to be sent.
    pub envelope: Vec<u8>,
}

/// Why a message got no signed answer.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// It is not authentic, or no message of this protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The part of the pool that answers it could not be reached.
    #[error(transparent)]
    Unreached(#[from] Unreached),
    /// The store did not carry it out.
    #[error(transparent)]
    Store(StoreError),
    /// The pool has no key yet.
    #[error("the pool is not ready; ask again")]
    NotReady,
}

/// Signs the answer to one request, and hands it to whoever waits for it.
pub(super) struct Replier {
    key: Key,
    clock: SharedClock,
    binding: Binding,
    delivery_id: String,
    sender: oneshot::Sender<Result<Reply, DeliveryError>>,
}

impl Replier {
    pub(super) fn new(
        key: Key,
        clock: SharedClock,
        request: &Envelope,
        sender: oneshot::Sender<Result<Reply, DeliveryError>>,
    ) -> Self {
        Self {
            key,
            clock,
            binding: request.binding.clone(),
            delivery_id: request.delivery_id.clone(),
            sender,
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    /// The run itself, byte for byte as it was stored.
    pub(super) fn assignment(self, run: &domain::Binding, payload_json: &str, digest: &str) {
        let binding = Binding {
            board: run.key.board.as_str().to_owned(),
            task_id: run.key.task.as_str().to_owned(),
            run_id: run.key.run.as_str().to_owned(),
            worker_ordinal: i64::from(run.ordinal.0),
            attempt: Integer::from(run.attempt.0),
        };
        let Some(digest) = Digest::parse(digest) else {
            return self.fail(StoreError::Illegal(IllegalRow {
                run: run.key.to_string(),
                column: "assignment_digest",
                value: digest.chars().take(80).collect(),
            }));
        };
        let payload = CanonicalPayload {
            json: payload_json,
            digest: &digest,
        };
        let signed = sign_canonical_payload(
            &self.key,
            Kind::Assignment,
            &binding,
            payload,
            self.clock.now().whole_seconds(),
            DEFAULT_ENVELOPE_LIFETIME_SECONDS,
            Some(&self.delivery_id),
        );
        self.send(ReplyStatus::Done, signed);
    }

    /// An acknowledgement.
    pub(super) fn ack(self, ack: &Ack) {
        self.signed_ack(ReplyStatus::Done, ack);
    }

    /// A refusal because of the run's state.
    pub(super) fn refuse(self, refusal: Refusal) {
        let ack = Ack::Rejected {
            code: refusal.code().to_owned(),
            message: refusal.to_string(),
        };
        self.signed_ack(ReplyStatus::Refused, &ack);
    }

    /// A refusal because of the payload.
    pub(super) fn refuse_payload(self, error: &PayloadError) {
        let ack = Ack::Rejected {
            code: error.code().to_owned(),
            message: error.message().to_owned(),
        };
        self.signed_ack(ReplyStatus::Unprocessable, &ack);
    }

    /// What the store said instead of carrying the message out.
    pub(super) fn fail(self, error: StoreError) {
        match error {
            StoreError::Refused(refusal) => self.refuse(refusal),
            other => {
                let _ = self.sender.send(Err(DeliveryError::Store(other)));
            }
        }
    }

    fn signed_ack(self, status: ReplyStatus, ack: &Ack) {
        let signed = sign_envelope(
            &self.key,
            Kind::Ack,
            &self.binding,
            &ack.to_json(),
            self.clock.now().whole_seconds(),
            DEFAULT_ENVELOPE_LIFETIME_SECONDS,
            Some(&self.delivery_id),
        );
        self.send(status, signed);
    }

    fn send(self, status: ReplyStatus, signed: Result<Vec<u8>, ProtocolError>) {
        let reply = signed
            .map(|envelope| Reply { status, envelope })
            .map_err(|error| {
                log::error!("an answer cannot be signed: {error}");
                DeliveryError::Protocol(error)
            });
        // The client may be gone; what it asked for stands all the same.
        let _ = self.sender.send(reply);
    }
}
