-- Version 2: more than three slots. SQLite cannot change a CHECK, so the table is built anew, with the same columns.
-- Indexes and triggers go with the old table and are made again.

CREATE TABLE assignments_of_more_slots (
    board TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT NOT NULL,
    worker_ordinal INTEGER NOT NULL CHECK(worker_ordinal BETWEEN 0 AND 9999),
    attempt INTEGER NOT NULL, assignment_digest TEXT NOT NULL,
    payload_json TEXT NOT NULL, state TEXT NOT NULL,
    lease_until REAL NOT NULL DEFAULT 0, last_heartbeat REAL NOT NULL DEFAULT 0,
    result_digest TEXT, result_json TEXT, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, PRIMARY KEY(board, task_id, run_id)
);
INSERT INTO assignments_of_more_slots
    (board, task_id, run_id, worker_ordinal, attempt, assignment_digest, payload_json, state,
     lease_until, last_heartbeat, result_digest, result_json, created_at, updated_at)
    SELECT board, task_id, run_id, worker_ordinal, attempt, assignment_digest, payload_json, state,
           lease_until, last_heartbeat, result_digest, result_json, created_at, updated_at
    FROM assignments;
DROP TABLE assignments;
ALTER TABLE assignments_of_more_slots RENAME TO assignments;

CREATE UNIQUE INDEX one_live_assignment_per_worker
    ON assignments(worker_ordinal) WHERE state IN ('assigned','running','result');
CREATE INDEX unsettled_assignments_by_board
    ON assignments(board, state) WHERE state NOT IN ('finalized','stale');
CREATE INDEX ended_assignments_by_age
    ON assignments(updated_at) WHERE state IN ('finalized','stale');
CREATE TRIGGER claims_go_with_their_assignment AFTER DELETE ON assignments
BEGIN
    DELETE FROM claims WHERE board = OLD.board AND task_id = OLD.task_id AND run_id = OLD.run_id;
END;
CREATE TRIGGER ended_grow_by_what_is_added AFTER INSERT ON assignments WHEN NEW.state IN ('finalized','stale')
BEGIN
    UPDATE ended SET count = count + 1 WHERE state = NEW.state;
END;
CREATE TRIGGER ended_grow_by_what_ends AFTER UPDATE OF state ON assignments
    WHEN NEW.state IN ('finalized','stale') OR OLD.state IN ('finalized','stale')
BEGIN
    UPDATE ended SET count = count - 1 WHERE state = OLD.state;
    UPDATE ended SET count = count + 1 WHERE state = NEW.state;
END;
CREATE TRIGGER ended_shrink_by_what_is_collected AFTER DELETE ON assignments WHEN OLD.state IN ('finalized','stale')
BEGIN
    UPDATE ended SET count = count - 1 WHERE state = OLD.state;
END;
