"""A worker whose runs end as their task's body says: a JSON list with the result of its first run, its second, and so on.

Started as `worker.py URL ORDINAL FOLDER`. A run is not finished while somebody holds the lock of FOLDER/gate, nor before the
pool has acknowledged a heartbeat for it.
"""

import fcntl
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "client"))

from hermes_pool_client import Client, Worker, log  # noqa: E402


class ScriptedWorker(Worker):
    def __init__(self, client, folder):
        super().__init__(client)
        self.folder = folder

    def work(self, assignment, lost):
        log("begun: {board}/{task_id} run {run_id} attempt {attempt}".format(**assignment))
        self.insist(lambda: self.client.heartbeat(assignment, "working"))
        with open(self.folder / "gate") as gate:
            fcntl.flock(gate, fcntl.LOCK_SH)
        body = assignment["payload"]["task"]["body"]
        if not body:
            return super().work(assignment, lost)
        results = json.loads(body)
        return results[min(self.number_of_run(assignment), len(results)) - 1]

    def number_of_run(self, assignment):
        """Which run of its task this is, by the traces that the workers of this folder left."""
        runs = self.folder / "runs"
        name = "{board}.{task_id}.".format(**assignment)
        (runs / (name + assignment["run_id"])).touch()
        return len(list(runs.glob(name + "*")))


url, ordinal, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
key = (folder / f"worker-{ordinal}.key").read_bytes().strip()
ScriptedWorker(Client(url, ordinal, key), folder).run()
