"""celery over kombu's azurestoragequeues: workers are killed at random, and tasks are counted.

kombu's transport deletes a message when it receives it, before the task runs, so each kill may lose the task of the killed worker. No other task
may be lost, and none may be done twice.
"""

import os
import random
import signal
import subprocess
import sys
import time

from account import CONNECTION, KEY, QUEUE
from azure.storage.queue import QueueClient
from celery import Celery

TASKS, WORKERS, KILLS = 60, 2, 4

app = Celery("celery_tasks", broker=f"azurestoragequeues://{KEY}@{QUEUE}")
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, task_ignore_result=True, broker_connection_retry_on_startup=True,
    task_default_queue="celery-tasks", worker_enable_remote_control=False, worker_send_task_events=False,
    broker_transport_options={"visibility_timeout": 5, "polling_interval": 0.2})


@app.task
def note(folder, n):
    time.sleep(0.05)
    with open(os.path.join(folder, str(n)), "a") as f:
        f.write("x")


def worker(folder):
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(os.path.join(folder, "..", "celery.log"), "a"), cwd=os.path.dirname(os.path.abspath(__file__)))


if __name__ == "__main__":
    folder = os.path.join(sys.argv[1], "done")
    os.makedirs(folder)
    for n in range(TASKS):
        note.delay(folder, n)
    workers = [worker(folder) for _ in range(WORKERS)]
    choice = random.Random(int(os.environ.get("LAZULI_CLIENTS_SEED", "1")))
    kills, deadline = 0, time.monotonic() + 150
    queue = QueueClient.from_connection_string(CONNECTION, "celery-tasks")

    def done():
        return len(os.listdir(folder))

    try:
        while kills < KILLS or done() < TASKS - kills or queue.get_queue_properties().approximate_message_count > 0:
            assert time.monotonic() < deadline, f"{done()} of {TASKS} tasks were done, {kills} workers killed"
            if kills < KILLS and done() > (kills + 1) * TASKS // (KILLS + 3):
                i = choice.randrange(WORKERS)
                workers[i].send_signal(signal.SIGKILL)
                workers[i].wait()
                workers[i] = worker(folder)
                kills += 1
            time.sleep(0.05)
    finally:
        for w in workers:
            w.kill()
            w.wait()
    for n in os.listdir(folder):
        with open(os.path.join(folder, n)) as f:
            assert f.read() == "x", f"task {n} was done more than once"
