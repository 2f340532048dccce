"""Workflows of the Durable Task SDK for Python on the gRPC endpoint of Lazuli: each kind of step, and the calls of a client."""

import os
import sys
from datetime import timedelta

from durabletask import client, entities, task, worker

ADDRESS = os.environ["LAZULI_DURABLE"]
failures: dict[str, int] = {}


def double(_: task.ActivityContext, n: int) -> int:
    return 2 * n


def fails_twice(_: task.ActivityContext, key: str) -> str:
    failures[key] = failures.get(key, 0) + 1
    if failures[key] < 3:
        raise RuntimeError("not yet")
    return "done"


def fan_out(ctx: task.OrchestrationContext, n: int):
    results = yield task.when_all([ctx.call_activity(double, input=i) for i in range(n)])
    return sum(results)


def chain(ctx: task.OrchestrationContext, n: int):
    for _ in range(3):
        n = yield ctx.call_activity(double, input=n)
    return n


def timer(ctx: task.OrchestrationContext, _):
    began = ctx.current_utc_datetime
    yield ctx.create_timer(timedelta(seconds=1))
    return (ctx.current_utc_datetime - began) >= timedelta(seconds=1)


def event(ctx: task.OrchestrationContext, _):
    approved = ctx.wait_for_external_event("approved")
    timeout = ctx.create_timer(timedelta(hours=1))
    winner = yield task.when_any([approved, timeout])
    return approved.get_result() if winner == approved else "late"


def parent(ctx: task.OrchestrationContext, n: int):
    result = yield ctx.call_sub_orchestrator(chain, input=n)
    return result


def retry(ctx: task.OrchestrationContext, key: str):
    policy = task.RetryPolicy(first_retry_interval=timedelta(milliseconds=50), max_number_of_attempts=5)
    result = yield ctx.call_activity(fails_twice, input=key, retry_policy=policy)
    return result


def again(ctx: task.OrchestrationContext, n: int):
    if n < 5:
        yield ctx.create_timer(timedelta(milliseconds=10))
        ctx.continue_as_new(n + 1)
        return None
    return n


def raises(_: task.OrchestrationContext, __):
    raise ValueError("this is wrong")


def counter(ctx: entities.EntityContext, n: int) -> int:
    state = ctx.get_state(int, 0)
    if ctx.operation == "add":
        state += n
        ctx.set_state(state)
    return state


def entity(ctx: task.OrchestrationContext, _):
    a = entities.EntityInstanceId("counter", "a")
    ctx.signal_entity(a, "add", 1)
    yield ctx.call_entity(a, "add", 2)
    result = yield ctx.call_entity(a, "get")
    return result


def check(what: str, got, want):
    if got != want:
        sys.exit(f"FAIL: {what}: got {got!r}, want {want!r}")
    print(f"  {what}: ok")


def main():
    with worker.TaskHubGrpcWorker(host_address=ADDRESS) as w:
        for o in (fan_out, chain, timer, event, parent, retry, again, raises, entity):
            w.add_orchestrator(o)
        for a in (double, fails_twice):
            w.add_activity(a)
        w.add_entity(counter)
        w.start()
        c = client.TaskHubGrpcClient(host_address=ADDRESS)

        def run(orchestrator, value=None):
            i = c.schedule_new_orchestration(orchestrator, input=value)
            return c.wait_for_orchestration_completion(i, timeout=60)

        check("fan-out, fan-in", run(fan_out, 30).serialized_output, "870")
        check("sequence", run(chain, 1).serialized_output, "8")
        check("timer", run(timer).serialized_output, "true")
        i = c.schedule_new_orchestration(event)
        c.wait_for_orchestration_start(i, timeout=60)
        c.raise_orchestration_event(i, "approved", data="by Ada")
        check("event", c.wait_for_orchestration_completion(i, timeout=60).serialized_output, '"by Ada"')
        check("sub-orchestration", run(parent, 2).serialized_output, "16")
        check("retry", run(retry, "a").serialized_output, '"done"')
        check("continue as new", run(again, 1).serialized_output, "5")
        failed = run(raises)
        check("failure", (failed.runtime_status.name, failed.failure_details.message), ("FAILED", "this is wrong"))
        check("entity", run(entity).serialized_output, "3")
        check("unknown workflow", run("nobody").runtime_status.name, "FAILED")

        i = c.schedule_new_orchestration(event)
        c.wait_for_orchestration_start(i, timeout=60)
        c.suspend_orchestration(i)
        c.resume_orchestration(i)
        c.terminate_orchestration(i, output="enough")
        check("terminate", c.wait_for_orchestration_completion(i, timeout=60).runtime_status.name, "TERMINATED")
        check("purge", c.purge_orchestration(i).deleted_instance_count, 1)
        check("purged", c.get_orchestration_state(i), None)
        states = c.get_all_orchestration_states(client.OrchestrationQuery(runtime_status=[client.OrchestrationStatus.FAILED]))
        check("query", len(states), 2)


main()
