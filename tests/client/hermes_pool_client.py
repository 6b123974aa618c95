#!/usr/bin/env python3
"""A worker for hermes-pool in plain Python: an example for authors of workers, and an independent check of the pool.

It needs Python 3.9 or later and nothing else. A worker does four things, each one signed message by HTTP POST:

    poll       "is there work for my ordinal?"   -> an assignment, or an ack that says idle
    heartbeat  "I am alive and hold this run"    -> an ack; a refusal means: stop, the run is not yours any more
    result     "this is how the run ended"       -> an ack, sent only after the pool has it on disk

and believes a reply only if it is signed with its own key and answers its own request.

    hermes_pool_client.py --url http://127.0.0.1:8750 --ordinal 0 --key-file worker-0.key --until-idle 5

The command line works on tasks by echoing their titles. To do real work, derive from `Worker` and override `work`.
"""

import argparse
import hashlib
import hmac
import http.client
import json
import pathlib
import random
import re
import sys
import threading
import time
import urllib.parse
import uuid

VERSION = 2
MAX_MESSAGE_BYTES = 65536
MAX_CLOCK_SKEW_SECONDS = 30
MAX_LIFETIME_SECONDS = 300
MAX_ACTIVITY_BYTES = 12 * 1024
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
RUN_FIELDS = ("board", "task_id", "run_id", "worker_ordinal", "attempt")
FIELDS = {*RUN_FIELDS, "version", "kind", "delivery_id", "issued_at", "expires_at", "payload_digest", "payload", "signature"}


# --- messages: pure functions over values ---------------------------------------------------------------------------


class InvalidMessage(Exception):
    """The message is not authentic, not fresh, or not what it should be. Nothing may be decided by it."""


def canonical(value):
    """The one spelling that digests and signatures cover: sorted keys, no blanks, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def digest(payload):
    return hashlib.sha256(canonical(payload)).hexdigest()


def signature(key, envelope):
    """The code over everything but the signature. The key is the text of its file as it stands, not decoded."""
    unsigned = {name: value for name, value in envelope.items() if name != "signature"}
    return hmac.new(key, canonical(unsigned), hashlib.sha256).hexdigest()


def binding_without_run(ordinal):
    """What a poll is about: no run yet."""
    return {"board": "", "task_id": "", "run_id": "", "worker_ordinal": ordinal, "attempt": 0}


def sign(key, kind, binding, payload, now=None, lifetime=120, delivery_id=None):
    """A complete message of this kind."""
    issued_at = int(time.time()) if now is None else now
    envelope = {name: binding[name] for name in RUN_FIELDS}
    envelope.update(
        version=VERSION,
        kind=kind,
        delivery_id=delivery_id or str(uuid.uuid4()),
        issued_at=issued_at,
        expires_at=issued_at + lifetime,
        payload_digest=digest(payload),
        payload=payload,
    )
    envelope["signature"] = signature(key, envelope)
    if len(canonical(envelope)) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message has at most {MAX_MESSAGE_BYTES} bytes, its signature included")
    return envelope


def verify(key, envelope, now=None):
    """Returns the message if it is authentic and fresh; raises InvalidMessage if not."""
    now = int(time.time()) if now is None else now
    problem = structure_problem(envelope) or time_problem(envelope, now)
    if problem is None and envelope["payload_digest"] != digest(envelope["payload"]):
        problem = "its payload is not the one that was signed"
    # Compared in constant time, and never with text that a comparison of bytes cannot take.
    claimed = str(envelope["signature"]).encode("utf-8", "replace") if problem is None else b""
    if problem is None and not hmac.compare_digest(claimed, signature(key, envelope).encode("ascii")):
        problem = "its signature is not of this key"
    if problem is not None:
        raise InvalidMessage(problem)
    return envelope


def structure_problem(envelope):
    """What is wrong with the fields of a message, or None."""
    if not isinstance(envelope, dict) or set(envelope) != FIELDS:
        return "it is not an envelope"
    if type(envelope["version"]) not in (int, float) or envelope["version"] != VERSION:
        return f"its version is not {VERSION}"
    if envelope["kind"] not in ("poll", "assignment", "heartbeat", "result", "ack"):
        return "its kind is unknown"
    for name in ("board", "task_id", "run_id", "delivery_id"):
        may_be_empty = name != "delivery_id" and envelope["kind"] in ("poll", "ack")
        text = envelope[name]
        if not isinstance(text, str) or not (IDENTIFIER.fullmatch(text) or (may_be_empty and text == "")):
            return f"its {name} is no identifier"
    for name in ("worker_ordinal", "attempt", "issued_at", "expires_at"):
        # A bool is an int to isinstance, but not to the pool.
        if type(envelope[name]) is not int:
            return f"its {name} is no integer"
    if envelope["worker_ordinal"] < 0 or envelope["attempt"] < 0:
        return "its binding is negative"
    try:
        too_long = len(canonical(envelope)) > MAX_MESSAGE_BYTES
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    return "it is too long" if too_long else None


def time_problem(envelope, now):
    issued_at, expires_at = envelope["issued_at"], envelope["expires_at"]
    if issued_at > now + MAX_CLOCK_SKEW_SECONDS or expires_at < now - MAX_CLOCK_SKEW_SECONDS:
        return f"it is outside its validity window: signed at {issued_at}, our clock shows {now}"
    if not 1 <= expires_at - issued_at <= MAX_LIFETIME_SECONDS:
        return "its lifetime is invalid"
    return None


# --- the line to the coordinator ------------------------------------------------------------------------------------


class Refused(Exception):
    """The pool refuses, and has signed that it does."""

    def __init__(self, payload):
        self.code = str(payload.get("code"))
        super().__init__(f"{self.code}: {payload.get('message')}")


class NoAnswer(Exception):
    """No answer that can be trusted; whether the request arrived is unknown, so ask again."""

    def __init__(self, message, retry_after=0.0):
        super().__init__(message)
        self.retry_after = retry_after


class Client:
    """Signed exchanges of one ordinal with its coordinator. Each method may raise Refused or NoAnswer."""

    def __init__(self, url, ordinal, key):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is no address like http://127.0.0.1:8750")
        self.host, self.port = parts.hostname, parts.port or 80
        self.ordinal, self.key = ordinal, key

    def poll(self, wait_seconds=30):
        """The assignment of this ordinal (a whole envelope, which is also a binding), or None if there is none."""
        request = sign(self.key, "poll", binding_without_run(self.ordinal), {"wait_seconds": wait_seconds})
        reply = self.exchange(request, timeout=wait_seconds + 10)
        return reply if reply["kind"] == "assignment" else None

    def heartbeat(self, binding, activity="", timeout=10):
        """Extends the lease of a run, and tells people what it is about at the moment."""
        activity = activity.encode("utf-8", "replace")[-MAX_ACTIVITY_BYTES:].decode("utf-8", "ignore")
        request = sign(self.key, "heartbeat", binding, {"activity": activity})
        return self.exchange(request, timeout)["payload"]

    def submit(self, binding, result):
        """Delivers the result of a run. When this returns, the pool has it on disk."""
        return self.exchange(sign(self.key, "result", binding, result), timeout=10)["payload"]

    def exchange(self, request, timeout):
        """Sends a signed request and returns its verified reply."""
        status, retry_after, body = self.post(f"/v2/{request['kind']}", canonical(request), timeout)
        try:
            reply = verify(self.key, json.loads(body))
        except (ValueError, RecursionError, InvalidMessage) as error:
            # A proxy's page, an unsigned error of the pool: a hint for people, but nothing to decide by.
            hint = body[:200].decode("utf-8", "replace")
            raise NoAnswer(f"HTTP {status}, {error}: {hint}", retry_after) from error
        if not answers(reply, request):
            raise NoAnswer("the reply belongs to another request")
        payload = reply["payload"] if isinstance(reply["payload"], dict) else {}
        if reply["kind"] == "ack" and payload.get("status") == "rejected":
            raise Refused(payload)
        return reply

    def post(self, path, body, timeout):
        """One request on a connection of its own, so that none is left over from a coordinator that was restarted."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            retry_after = response.getheader("Retry-After", "")
            return response.status, float(retry_after) if retry_after.isdigit() else 0.0, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()


def answers(reply, request):
    """Whether a reply is one to this request. An assignment has the binding of its run, all else repeats ours."""
    if reply["delivery_id"] != request["delivery_id"] or reply["worker_ordinal"] != request["worker_ordinal"]:
        return False
    if reply["kind"] == "assignment":
        return request["kind"] == "poll"
    return reply["kind"] == "ack" and all(reply[name] == request[name] for name in RUN_FIELDS)


# --- a worker -------------------------------------------------------------------------------------------------------


class Heartbeats:
    """Beats from a thread of its own while a run is worked on. `lost` is set when the run is not ours any more."""

    def __init__(self, client, assignment):
        self.client, self.assignment = client, assignment
        self.lease_seconds = assignment["payload"]["limits"]["lease_seconds"]
        self.lost, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        # A beat that arrived after the result would be refused.
        self.thread.join()

    def beat(self):
        """A lease counts from when a beat was *sent*: the pool cannot have extended it earlier than that."""
        good_until = time.monotonic() + self.lease_seconds
        while not self.ended.is_set():
            sent = time.monotonic()
            try:
                self.client.heartbeat(self.assignment, "working", timeout=max(self.lease_seconds / 6, 0.2))
                good_until, pause = sent + self.lease_seconds, self.lease_seconds / 3
            except Refused as refusal:
                log(f"heartbeat refused, {refusal}")
                return self.lost.set()
            except NoAnswer as error:
                log(f"heartbeat: {error}")
                pause = self.lease_seconds / 12
            if time.monotonic() >= good_until:
                return self.lost.set()
            self.ended.wait(pause)


class Worker:
    """Polls, works, reports. Override `work`."""

    def __init__(self, client, behaviour="complete"):
        self.client, self.behaviour = client, behaviour

    def work(self, assignment, lost):
        """Returns the result of a run; it should stop early when `lost` is set."""
        title = assignment["payload"]["task"]["title"]
        return {
            "complete": {"outcome": "completed", "summary": f"done: {title}", "result": title},
            "block": {"outcome": "blocked", "block_kind": "needs_input", "reason": f"a question about {title}"},
            "fail": {"outcome": "failed", "reason": f"could not do {title}"},
            "rate-limit": {"outcome": "rate_limited", "reason": "quota", "retry_after_seconds": 1},
            "release": {"outcome": "released", "reason": "not now"},
        }[self.behaviour]

    def run(self, count=None, until_idle=None):
        """Works on runs until `count` are done, or until there was none for `until_idle` seconds; returns how many."""
        done, idle_since = 0, time.monotonic()
        while count is None or done < count:
            wait = 30 if until_idle is None else max(0, min(30, int(until_idle)))
            assignment = self.insist(lambda: self.client.poll(wait))
            if assignment is not None:
                done += self.handle(assignment)
                idle_since = time.monotonic()
            elif until_idle is not None and time.monotonic() - idle_since >= until_idle:
                break
            else:
                # A pool that is stopping says idle at once, although it was asked to wait.
                time.sleep(0.1)
        return done

    def handle(self, assignment):
        """Works on one run; whether its result was accepted."""
        name = "{board}/{task_id} run {run_id} attempt {attempt}".format(**assignment)
        with Heartbeats(self.client, assignment) as heartbeats:
            result = self.work(assignment, heartbeats.lost)
        if heartbeats.lost.is_set():
            log(f"{name}: lost")
            return False
        try:
            self.insist(lambda: self.client.submit(assignment, result))
        except Refused as refusal:
            log(f"{name}: {result['outcome']} refused, {refusal}")
            return False
        log(f"{name}: {result['outcome']}")
        return True

    def insist(self, request):
        """Asks until there is an answer: a coordinator that is being restarted refuses connections for a while."""
        bound = 0.1
        while True:
            try:
                return request()
            except NoAnswer as error:
                log(str(error))
                time.sleep(max(min(error.retry_after, 60.0), random.uniform(bound / 2, bound)))
                bound = min(bound * 2, 5.0)


def log(message):
    # One write, so that lines of two threads do not mix.
    sys.stderr.write(f"hermes-pool-client: {message}\n")
    sys.stderr.flush()


# --- command line ---------------------------------------------------------------------------------------------------


def self_check(vectors):
    """Signs and verifies what the conformance vectors hold; returns the number of cases, fails on the first difference."""
    checked = 0
    for case in json.loads((vectors / "sign.json").read_text())["cases"]:
        if "error" in case or "lenient_python_typing" in case.get("tags", []):
            continue
        given = {name: value for name, value in json.loads(case["binding_json"]).items() if value is not None}
        binding = {**binding_without_run(-1), **given}
        key, payload = bytes.fromhex(case["key_hex"]), json.loads(case["payload_json"])
        lifetime = max(1, min(case["lifetime"], MAX_LIFETIME_SECONDS))
        if case["signed_bytes"] > MAX_MESSAGE_BYTES:
            continue
        envelope = sign(key, case["kind"], binding, payload, case["now"], lifetime, case["delivery_id"])
        if canonical(envelope).decode() != case["envelope_json"]:
            raise SystemExit(f"sign.json: {case['name']}: {canonical(envelope).decode()[:300]}")
        checked += 1
    for case in json.loads((vectors / "verify.json").read_text())["cases"]:
        try:
            envelope = verify(bytes.fromhex(case["key_hex"]), json.loads(case["envelope_json"]), case["now"])
            good = case["expected_kind"] in (None, "", envelope["kind"]) and envelope["worker_ordinal"] < 3
        except (InvalidMessage, ValueError, RecursionError):
            good = False
        if good != ("error" not in case):
            raise SystemExit(f"verify.json: {case['name']}: {'accepted' if good else 'refused'}")
        checked += 1
    return checked


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="the coordinator, such as http://127.0.0.1:8750")
    parser.add_argument("--ordinal", type=int, help="the slot to serve, counted from 0")
    parser.add_argument("--key-file", type=pathlib.Path, help="the key of this ordinal")
    parser.add_argument("--count", type=int, help="end after this many runs")
    parser.add_argument("--until-idle", type=float, metavar="SECONDS", help="end when there was no work for so long")
    behaviours = ["complete", "block", "fail", "rate-limit", "release"]
    parser.add_argument("--behaviour", choices=behaviours, default="complete", help="how every run ends")
    parser.add_argument("--self-check", type=pathlib.Path, metavar="DIR", help="only replay the vectors found there")
    options = parser.parse_args()
    if options.self_check:
        print(f"{self_check(options.self_check)} vectors hold")
        return
    if options.url is None or options.ordinal is None or options.key_file is None:
        parser.error("--url, --ordinal and --key-file are needed")
    client = Client(options.url, options.ordinal, options.key_file.read_bytes().strip())
    done = Worker(client, options.behaviour).run(options.count, options.until_idle)
    print(f"{done} runs done")


if __name__ == "__main__":
    main()
