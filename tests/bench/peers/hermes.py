"""Hermes itself, measured or at work, on the board "bench" of a home of its own.

    hermes.py HOME lives COUNT     makes COUNT tasks, then claims and completes each; prints lives a second
    hermes.py HOME ready LANE      makes a ready task for each line of its input; prints when it began to, in seconds
"""

import os
import sys
import time

for name in [name for name in os.environ if name.startswith("HERMES_")]:
    del os.environ[name]
os.environ["HERMES_KANBAN_HOME"] = os.environ["HERMES_HOME"] = sys.argv[1]

from hermes_cli import kanban_db  # noqa: E402

BOARD = "bench"


def lives(count):
    with kanban_db.connect_closing(board=BOARD) as board:
        tasks = [
            kanban_db.create_task(board, title=f"task {number}", assignee="bench", board=BOARD)
            for number in range(count)
        ]
        began = time.monotonic()
        for task in tasks:
            claimed = kanban_db.claim_task(board, task)
            assert kanban_db.complete_task(
                board, task, summary="done", expected_run_id=claimed.current_run_id
            )
        print(count / (time.monotonic() - began), flush=True)


def ready(lane):
    with kanban_db.connect_closing(board=BOARD) as board:
        print("open", flush=True)
        for number, _ in enumerate(sys.stdin):
            began = time.time()
            kanban_db.create_task(board, title=f"task {number}", assignee=lane, board=BOARD)
            print(began, flush=True)


if sys.argv[2] == "lives":
    lives(int(sys.argv[3]))
else:
    ready(sys.argv[3])
