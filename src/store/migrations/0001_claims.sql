-- Version 1: the tables of the reference, as it makes them itself, and what is ours beside them.
-- A file of the reference (version 0) has the first three already. Nothing is added to its tables: the reference fills
-- `deliveries` by position. Ours are plain tables, since SQLite before 3.37 cannot open a file with a STRICT one.

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

-- Whatever is not over, a row of an unknown state included, so that a pass reports it.
CREATE INDEX unsettled_assignments_by_board
    ON assignments(board, state) WHERE state NOT IN ('finalized','stale');
CREATE INDEX ended_assignments_by_age
    ON assignments(updated_at) WHERE state IN ('finalized','stale');
CREATE INDEX deliveries_by_age ON deliveries(received_at);

-- What belongs to a run but has no column in the reference's table. A row without an entry is normal.
CREATE TABLE claims (
    board TEXT NOT NULL, task_id TEXT NOT NULL, run_id TEXT NOT NULL,
    claim_lock TEXT,                     -- NULL: take it from the run's `claimed` event
    run_sequence INTEGER, event_sequence INTEGER,   -- the board's counters before the claim
    anchor_task TEXT, anchor_created_at INTEGER,    -- its oldest task then
    offers INTEGER NOT NULL DEFAULT 0,   -- of the current attempt
    last_poll TEXT,                      -- delivery id of the poll that was offered last
    cause TEXT,                          -- why the run left the ordinary path
    not_before REAL,                     -- no further try on the board before
    confirmed_at REAL,                   -- when the board last confirmed the claim
    board_heartbeat_at REAL,             -- when the board was last told that the worker lives
    created_at REAL NOT NULL,
    PRIMARY KEY (board, task_id, run_id)
) WITHOUT ROWID;

CREATE INDEX claims_held_back ON claims(board, not_before) WHERE not_before IS NOT NULL;

-- A trigger, so that it also holds when the reference collects.
CREATE TRIGGER claims_go_with_their_assignment AFTER DELETE ON assignments
BEGIN
    DELETE FROM claims WHERE board = OLD.board AND task_id = OLD.task_id AND run_id = OLD.run_id;
END;

-- How many are over, so that nobody who asks has to go through them. Triggers, so that it also holds when the reference
-- ends or collects.
CREATE TABLE ended (state TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO ended VALUES ('finalized', (SELECT count(*) FROM assignments WHERE state = 'finalized')),
                         ('stale', (SELECT count(*) FROM assignments WHERE state = 'stale'));
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

-- Claims that were about to be made. Each becomes an assignment or is resolved by a pass.
CREATE TABLE intents (
    claim_lock TEXT PRIMARY KEY,
    board TEXT NOT NULL, task_id TEXT NOT NULL, worker_ordinal INTEGER NOT NULL,
    run_sequence INTEGER NOT NULL, event_sequence INTEGER NOT NULL,
    anchor_task TEXT, anchor_created_at INTEGER,
    created_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX intents_by_board ON intents(board);

-- The one row of it is written by the program: the store's own random identity.
CREATE TABLE pool (one INTEGER PRIMARY KEY CHECK (one = 1), fence TEXT NOT NULL);
