"""A workflow."""

import azure.durable_functions as df


def orchestrate(context: df.DurableOrchestrationContext):
    first = yield context.call_activity("greet", context.get_input())
    rest = yield context.task_all([context.call_activity("greet", str(n)) for n in range(2)])
    return [first, *rest]


main = df.Orchestrator.create(orchestrate)
