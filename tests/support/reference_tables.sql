-- The tables as the reference makes them.
CREATE TABLE IF NOT EXISTS assignments (
    board TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT NOT NULL,
    worker_ordinal INTEGER NOT NULL CHECK(worker_ordinal BETWEEN 0 AND 2),
    attempt INTEGER NOT NULL, assignment_digest TEXT NOT NULL,
    payload_json TEXT NOT NULL, state TEXT NOT NULL,
    lease_until REAL NOT NULL DEFAULT 0, last_heartbeat REAL NOT NULL DEFAULT 0,
    result_digest TEXT, result_json TEXT, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, PRIMARY KEY(board, task_id, run_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS one_live_assignment_per_worker
    ON assignments(worker_ordinal) WHERE state IN ('assigned','running','result');
CREATE TABLE IF NOT EXISTS deliveries (
    delivery_id TEXT PRIMARY KEY, kind TEXT NOT NULL, digest TEXT NOT NULL,
    received_at REAL NOT NULL
);
