"""The Python reference, measured: heartbeats through its envelopes and its store, in this process or behind its server.

    reference.py REFERENCE FOLDER heartbeats SENDERS SECONDS     prints heartbeats a second
    reference.py REFERENCE FOLDER serve                          prints its port, and serves until its input ends

REFERENCE holds its modules, FOLDER the pool's key (pool.key) and gets the store. The reference itself has neither workers
nor handlers of requests, so those are here: as little as there can be.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import execution_pool_protocol as protocol  # noqa: E402
from execution_pool_store import PoolStore  # noqa: E402

ORDINALS = 3
PAYLOAD = {"task": "bench"}


class Pool:
    """The reference's store with one running assignment for each ordinal, and its keys."""

    def __init__(self, folder):
        master = protocol.read_key(folder / "pool.key")
        self.keys = [protocol.derive_ordinal_key(master, ordinal) for ordinal in range(ORDINALS)]
        self.store = PoolStore(folder / "reference" / "assignments.db")
        self.bindings = []
        for ordinal in range(ORDINALS):
            binding = {
                "board": "bench",
                "task_id": f"t_{ordinal:08x}",
                "run_id": str(ordinal + 1),
                "worker_ordinal": ordinal,
                "attempt": 1,
            }
            self.store.add(binding, PAYLOAD)
            self.store.offer(ordinal)
            self.bindings.append(binding)

    def answer(self, body, kind):
        """What a coordinator does with a request of a worker."""
        message = protocol.parse_wire(body)
        ordinal = protocol.envelope_ordinal(message)
        key = self.keys[ordinal]
        envelope = protocol.verify_envelope(key, message, expected_kind=kind)
        if kind == "poll":
            record = self.store.offer(ordinal)
            return self.wire(protocol.sign_envelope(key, "assignment", record, record["payload"]))
        _, duplicate = self.store.heartbeat(envelope)
        payload = {"status": "ok", "duplicate": duplicate, "lease_until": int(time.time()) + 90}
        delivery = envelope["delivery_id"]
        return self.wire(protocol.sign_envelope(key, "ack", envelope, payload, delivery_id=delivery))

    def heartbeat(self, ordinal):
        """A heartbeat from its signature to the verification of its answer."""
        key = self.keys[ordinal]
        request = self.wire(protocol.sign_envelope(key, "heartbeat", self.bindings[ordinal], {}))
        reply = self.answer(request, "heartbeat")
        protocol.verify_envelope(key, protocol.parse_wire(reply), expected_kind="ack")

    @staticmethod
    def wire(envelope):
        return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()


def heartbeats(pool, senders, seconds):
    counts = [0] * senders
    end = time.monotonic() + seconds

    def send(sender):
        while time.monotonic() < end:
            pool.heartbeat(sender % ORDINALS)
            counts[sender] += 1

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts) / (time.monotonic() - began), flush=True)


def serve(pool):
    class Handler(BaseHTTPRequestHandler):
        # The best case for it: connections stay, and an answer leaves in one piece.
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            reply = pool.answer(body, self.path.rpartition("/")[2])
            self.send_response(200)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    server = protocol.BoundedHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


def main():
    pool = Pool(Path(sys.argv[2]))
    if sys.argv[3] == "serve":
        serve(pool)
    else:
        heartbeats(pool, int(sys.argv[4]), float(sys.argv[5]))


main()
