//! Every statement of the store, in one place, so that a test can look at the plan of each.
//!
//! A partial index serves a query only if the index's own condition is repeated in it, to the letter; hence the macros.

use super::records::record_columns;

macro_rules! live {
    () => {
        "state IN ('assigned','running','result')"
    };
}
macro_rules! unsettled {
    () => {
        "state NOT IN ('finalized','stale')"
    };
}
macro_rules! ended {
    () => {
        "state IN ('finalized','stale')"
    };
}
/// `assignments a` with the entry beside it, if there is one.
macro_rules! joined {
    () => {
        " FROM assignments a LEFT JOIN claims c ON c.board=a.board AND c.task_id=a.task_id AND c.run_id=a.run_id "
    };
}
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $($part:expr),+;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = concat!($($part),+);)*
        /// All of them, by name.
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

statements! {
    // Reading what a transition starts from.
    RECORD_BY_KEY = "SELECT ", record_columns!(), joined!(), "WHERE a.board=?1 AND a.task_id=?2 AND a.run_id=?3";
    RECORD_OF_ORDINAL = "SELECT ", record_columns!(), joined!(),
        "WHERE a.worker_ordinal=?1 AND a.", live!();

    // Writing a transition.
    TRANSITION = "UPDATE assignments SET state=?7,attempt=?8,lease_until=?9,last_heartbeat=?10,updated_at=?11,\
        result_digest=coalesce(?12,result_digest),result_json=coalesce(?13,result_json) \
        WHERE board=?1 AND task_id=?2 AND run_id=?3 AND worker_ordinal=?4 AND attempt=?5 AND state=?6";
    /// The transition from `running` to itself. It leaves `state` out, so that no index has to be looked at.
    RENEWAL = "UPDATE assignments SET lease_until=?7,last_heartbeat=?8,updated_at=?9 \
        WHERE board=?1 AND task_id=?2 AND run_id=?3 AND worker_ordinal=?4 AND attempt=?5 AND state=?6";
    ENTRY_AFTER_TRANSITION = "INSERT INTO claims(board,task_id,run_id,offers,cause,last_poll,created_at) \
        VALUES(?1,?2,?3,?4,?5,?6,?7) ON CONFLICT(board,task_id,run_id) \
        DO UPDATE SET offers=excluded.offers,cause=excluded.cause,last_poll=coalesce(excluded.last_poll,last_poll)";

    // Freeing a slot from a row that cannot be understood: nothing but its state and its cause is touched.
    LET_GO_CAUSE = "INSERT INTO claims(board,task_id,run_id,cause,created_at) \
        SELECT board,task_id,run_id,CASE state WHEN 'result' THEN 'unsettled' ELSE 'unreadable' END,?2 FROM assignments \
        WHERE worker_ordinal=?1 AND ", live!(), " \
        ON CONFLICT(board,task_id,run_id) DO UPDATE SET cause=coalesce(cause,excluded.cause)";
    LET_GO = "UPDATE assignments SET state='lease_failed' WHERE worker_ordinal=?1 AND ", live!();

    // Offers, heartbeats.
    PAYLOAD = "SELECT board,task_id,run_id,payload_json,assignment_digest FROM assignments \
        WHERE board=?1 AND task_id=?2 AND run_id=?3";
    DELIVERY = "SELECT delivery_id,kind,received_at,digest FROM deliveries WHERE delivery_id=?1";
    /// Adds nothing where a delivery of this name is known.
    ADD_DELIVERY = "INSERT INTO deliveries(delivery_id,kind,digest,received_at) VALUES(?1,'heartbeat',?2,?3) \
        ON CONFLICT(delivery_id) DO NOTHING";

    // Adding.
    SAME_RUN = "SELECT board,task_id,run_id,assignment_digest,worker_ordinal,attempt FROM assignments \
        WHERE board=?1 AND task_id=?2 AND run_id=?3";
    LOCK_OF_RUN = "SELECT board,task_id,run_id,claim_lock FROM claims WHERE board=?1 AND task_id=?2 AND run_id=?3";
    /// Adds nothing where the slot is occupied, or is none that the table allows.
    ADD = "INSERT OR IGNORE INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,\
        state,created_at,updated_at) VALUES(?1,?2,?3,?4,?5,?6,?7,'assigned',?8,?8)";
    ADD_ENTRY = "INSERT INTO claims(board,task_id,run_id,claim_lock,run_sequence,event_sequence,anchor_task,\
        anchor_created_at,confirmed_at,created_at) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) \
        ON CONFLICT(board,task_id,run_id) DO NOTHING";

    // Intents.
    ADD_INTENT = "INSERT INTO intents(claim_lock,board,task_id,worker_ordinal,run_sequence,event_sequence,anchor_task,\
        anchor_created_at,created_at) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)";
    DROP_INTENT = "DELETE FROM intents WHERE claim_lock=?1";
    INTENT = "SELECT 1 FROM intents WHERE claim_lock=?1";
    INTENTS_OF_BOARD = "SELECT board,task_id,claim_lock,worker_ordinal,run_sequence,event_sequence,anchor_task,\
        anchor_created_at FROM intents WHERE board=?1 ORDER BY created_at,task_id,claim_lock";

    // Entries.
    ENSURE_ENTRY = "INSERT INTO claims(board,task_id,run_id,created_at) \
        SELECT board,task_id,run_id,?4 FROM assignments WHERE board=?1 AND task_id=?2 AND run_id=?3 \
        ON CONFLICT(board,task_id,run_id) DO NOTHING";
    NOTE_CONFIRMED = "UPDATE claims SET confirmed_at=?4 WHERE board=?1 AND task_id=?2 AND run_id=?3";
    NOTE_BOARD_HEARTBEAT = "UPDATE claims SET board_heartbeat_at=?4 WHERE board=?1 AND task_id=?2 AND run_id=?3";
    SET_NOT_BEFORE = "UPDATE claims SET not_before=?4 WHERE board=?1 AND task_id=?2 AND run_id=?3";

    // Collecting.
    COLLECT_ENDED = "DELETE FROM assignments WHERE rowid IN (SELECT rowid FROM assignments WHERE ", ended!(),
        " AND updated_at<?1 ORDER BY updated_at LIMIT ?2)";
    COLLECT_DELIVERIES = "DELETE FROM deliveries WHERE rowid IN (SELECT rowid FROM deliveries \
        WHERE received_at<?1 ORDER BY received_at LIMIT ?2)";

    // Reads that decide nothing.
    UNSETTLED_OF_BOARD = "SELECT ", record_columns!(), joined!(), "WHERE a.board=?1 AND a.", unsettled!(),
        " ORDER BY a.updated_at,a.task_id,a.run_id";
    LIVE = "SELECT ", record_columns!(), joined!(), "WHERE a.", live!(), " ORDER BY a.worker_ordinal";
    /// In the order of the key, after the given one.
    PAGE = "SELECT ", record_columns!(), ",a.rowid", joined!(),
        "WHERE (a.board,a.task_id,a.run_id)>(?1,?2,?3) ORDER BY a.board,a.task_id,a.run_id LIMIT ?4";
    /// The same after the row of a number, whatever its key is.
    PAGE_AFTER_ROW = "SELECT ", record_columns!(), ",a.rowid", joined!(),
        "WHERE (a.board,a.task_id,a.run_id)>(SELECT board,task_id,run_id FROM assignments WHERE rowid=?1) \
        ORDER BY a.board,a.task_id,a.run_id LIMIT ?2";
    /// Texts and blobs are greater than every number: they are read, to be told of.
    HELD_BACK = "SELECT board,task_id,run_id,not_before FROM claims WHERE board=?1 AND not_before>?2";
    /// Of rows that cannot be understood too, as far as their locks can.
    LOCKS_OF_BOARD = "SELECT c.board,c.task_id,c.run_id,c.claim_lock", joined!(), "WHERE a.board=?1 AND a.", unsettled!(),
        " UNION ALL SELECT board,task_id,'',claim_lock FROM intents WHERE board=?1";
    /// Everything that is no number is greater than all numbers.
    AGELESS_ENDED = "SELECT board,task_id,run_id,updated_at FROM assignments WHERE ", ended!(), " AND updated_at>?1 LIMIT 100";
    AGELESS_DELIVERIES = "SELECT delivery_id,kind,digest,received_at FROM deliveries WHERE received_at>?1 LIMIT 100";
    TEXTS = "SELECT board,task_id,run_id,payload_json,result_json FROM assignments \
        WHERE board=?1 AND task_id=?2 AND run_id=?3";
    BOARDS = "SELECT board,task_id,run_id FROM assignments WHERE ", unsettled!(),
        " UNION ALL SELECT board,task_id,claim_lock FROM intents";
    COUNTS = "SELECT state,count(*) FROM assignments WHERE ", unsettled!(),
        " GROUP BY state UNION ALL SELECT state,count FROM ended WHERE count>0";
    FENCE = "SELECT fence FROM pool";
    PROBE = "UPDATE pool SET fence=fence";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn no_statement_scans_a_table_of_history() {
        let folder = tempfile::tempdir().unwrap();
        for slots in [3, 10] {
            let path = folder.path().join("assignments.db");
            drop(Store::open(&path, slots).unwrap());
            let connection = rusqlite::Connection::open(&path).unwrap();
            for (name, sql) in ALL {
                let mut explain = connection
                    .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                    .unwrap();
                let nulls = vec![rusqlite::types::Null; explain.parameter_count()];
                let plan: Vec<String> = explain
                    .query_map(rusqlite::params_from_iter(nulls), |row| row.get(3))
                    .unwrap()
                    .map(Result::unwrap)
                    .collect();
                for step in &plan {
                    let scanned = step
                        .strip_prefix("SCAN ")
                        .filter(|rest| !rest.contains("INDEX"))
                        .and_then(|rest| rest.split(' ').next());
                    let history = ["a", "c", "assignments", "deliveries", "claims"];
                    assert!(
                        scanned.is_none_or(|table| !history.contains(&table)),
                        "{name} with {slots} slots: {plan:?}"
                    );
                }
            }
        }
    }

    /// On the hot path this would cost more than the statements themselves.
    #[test]
    fn no_statement_is_prepared_anew_when_it_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("assignments.db"), 3).unwrap();
        for (name, sql) in ALL {
            let mut statement = store.connection.prepare(sql).unwrap();
            for _use in 0..3 {
                for parameter in 1..=statement.parameter_count() {
                    statement.raw_bind_parameter(parameter, "text").unwrap();
                }
                // Some statements refuse such values, which is beside the point.
                let _ = statement.raw_query().next();
                statement.clear_bindings();
            }
            let again = statement.get_status(rusqlite::StatementStatus::RePrepare);
            assert_eq!(again, 0, "{name}");
        }
    }
}
