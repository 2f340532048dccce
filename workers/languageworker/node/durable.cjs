'use strict';
// Workflows of the package durable-functions. The host speaks the Durable Task protocol: it sends an OrchestratorRequest
// with the history, and wants the new actions in an OrchestratorResponse, both as protobuf in base64. The package takes
// the history as JSON, and returns all actions since the workflow's start without their IDs. The IDs and the new actions
// are read from its tasks that are open after the step.
// https://github.com/microsoft/durabletask-protobuf

const proto = require('./proto.cjs');

const eventTypes = {
    executionStarted: 0,
    taskScheduled: 4,
    taskCompleted: 5,
    taskFailed: 6,
    subOrchestrationCreated: 7,
    subOrchestrationCompleted: 8,
    subOrchestrationFailed: 9,
    timerCreated: 10,
    timerFired: 11,
    orchestratorStarted: 12,
    orchestratorCompleted: 13,
    eventSent: 14,
    eventRaised: 15,
};

const actionTypes = {
    callActivity: 0,
    callActivityWithRetry: 1,
    callSubOrchestrator: 2,
    callSubOrchestratorWithRetry: 3,
    continueAsNew: 4,
    createTimer: 5,
    callEntity: 7,
    callHttp: 8,
    signalEntity: 9,
};

// schemaVersion is that of the newest form of the package's messages that is known here.
const schemaVersion = 2;

// noLongTimer is longer than any timer: the package need not divide long ones, as the engine takes them.
const noLongTimer = '36500.00:00:00';

// failureMark is what the package puts between the message of a failure and its state in JSON.
const failureMark = '\n\n$OutOfProcData$:';

const statuses = { completed: 1, continuedAsNew: 2, failed: 3 };

// isStep reports whether an invocation is a step of a workflow by the Durable Task protocol. A host that sends the
// package's own JSON gets the package's own result.
function isStep(metadata, invocation) {
    return Object.values(metadata.bindings ?? {}).some((b) => b.type?.toLowerCase() === 'orchestrationtrigger') &&
        invocation.inputData.some((i) => i.data?.string !== undefined);
}

// text is the value of a wrapped string, undefined if there is none.
function text(wrapped) {
    return wrapped ? wrapped.value ?? '' : undefined;
}

function date(timestamp) {
    return new Date(timestamp ? timestamp.seconds * 1000 + timestamp.nanos / 1e6 : 0);
}

function timestamp(when) {
    const ms = new Date(when).getTime();
    return { seconds: Math.floor(ms / 1000), nanos: (((ms % 1000) + 1000) % 1000) * 1e6 };
}

// toHistory returns an event in the package's form, or undefined for one that concerns the engine alone.
function toHistory(event, isPlayed) {
    const kind = Object.keys(eventTypes).find((k) => event[k]);
    if (!kind) {
        return undefined;
    }
    const e = event[kind];
    const common = {
        EventType: eventTypes[kind],
        EventId: event.eventId,
        IsPlayed: isPlayed,
        Timestamp: date(event.timestamp),
    };
    switch (kind) {
        case 'executionStarted':
        case 'taskScheduled':
        case 'eventRaised':
            return { ...common, Name: e.name, Input: text(e.input) };
        case 'subOrchestrationCreated':
            return { ...common, Name: e.name, InstanceId: e.instanceId, Input: text(e.input) };
        case 'taskCompleted':
        case 'subOrchestrationCompleted':
            return { ...common, TaskScheduledId: e.taskScheduledId, Result: text(e.result) || 'null' };
        case 'taskFailed':
        case 'subOrchestrationFailed':
            return { ...common, TaskScheduledId: e.taskScheduledId, Reason: e.failureDetails?.errorMessage ?? '',
                Details: text(e.failureDetails?.stackTrace) ?? '' };
        case 'timerCreated':
            return { ...common, FireAt: date(e.fireAt) };
        case 'timerFired':
            return { ...common, TimerId: e.timerId, FireAt: date(e.fireAt) };
    }
    return common;
}

function parsed(json) {
    try {
        return json === undefined || json === '' ? undefined : JSON.parse(json);
    } catch {
        return json;
    }
}

// written is an input in JSON. The package has done that with strings.
function written(input) {
    return input === undefined ? undefined : { value: typeof input === 'string' ? input : JSON.stringify(input) };
}

// Step is one step of a workflow.
class Step {
    #request;
    #now = new Date(0); // the time of the step
    #scheduled = new Set(); // IDs of tasks that were scheduled before

    // constructor puts what the package wants in the place of what the host has sent.
    constructor(invocation) {
        const input = invocation.inputData.find((i) => i.data?.string !== undefined);
        this.#request = proto.decode('OrchestratorRequest', Buffer.from(input?.data.string ?? '', 'base64'));
        const { pastEvents, newEvents, instanceId } = this.#request;
        const history = [];
        let started;
        for (const [events, played] of [[pastEvents, true], [newEvents, false]]) {
            for (const event of events) {
                started ??= event.executionStarted;
                if (event.orchestratorStarted) {
                    this.#now = date(event.timestamp);
                }
                if (event.taskScheduled || event.subOrchestrationCreated || event.timerCreated) {
                    this.#scheduled.add(event.eventId);
                }
                const e = toHistory(event, played);
                if (e) {
                    history.push(e);
                }
            }
        }
        input.data = {
            json: JSON.stringify({
                history,
                input: parsed(text(started?.input)),
                instanceId,
                parentInstanceId: started?.parentInstance?.orchestrationInstance?.instanceId,
                isReplaying: pastEvents.length > 0,
                upperSchemaVersion: schemaVersion,
                maximumShortTimerDuration: noLongTimer,
                longRunningTimerIntervalDuration: noLongTimer,
                defaultHttpAsyncRequestSleepTimeMillseconds: 30_000,
            }),
        };
    }

    // response is the answer to the host. context is that of the invocation; state is what the function returned, and
    // failure what it threw.
    response(context, state, failure) {
        const executor = context.df?.taskOrchestratorExecutor;
        if (!executor?.openTasks) {
            throw failure ?? new Error('The workflow is not one of the package durable-functions, version 2 or 3.');
        }
        if (failure) {
            const at = failure.message?.indexOf(failureMark) ?? -1;
            if (at >= 0) {
                state = JSON.parse(failure.message.slice(at + failureMark.length));
            }
            const message = state?.error ?? failure.message ?? String(failure);
            return this.#respond(state ?? {}, [this.#complete(executor, {
                orchestrationStatus: statuses.failed,
                failureDetails: { errorType: 'Error', errorMessage: message,
                    stackTrace: { value: failure.stack ?? '' } },
            })]);
        }
        const all = state.actions.flat(Infinity);
        const refused = all.find((a) => a?.actionType === actionTypes.signalEntity);
        const actions = refused ? [] : this.#opened(executor);
        const again = all.find((a) => a?.actionType === actionTypes.continueAsNew);
        const unsupported = refused ?? actions.find((a) => a.refused)?.refused;
        if (unsupported) {
            const what = unsupported.actionType === actionTypes.callHttp ? 'callHttp' : 'entities';
            return this.#respond(state, [this.#complete(executor, {
                orchestrationStatus: statuses.failed,
                failureDetails: { errorType: 'NotSupported',
                    errorMessage: `${what}: not supported for workflows in JavaScript; call an activity instead` },
            })]);
        }
        if (again) {
            actions.push(this.#complete(executor,
                { orchestrationStatus: statuses.continuedAsNew, result: written(again.input) ?? { value: 'null' } }));
        } else if (state.isDone) {
            const value = JSON.stringify(state.output);
            actions.push(this.#complete(executor,
                { orchestrationStatus: statuses.completed, result: value === undefined ? undefined : { value } }));
        }
        return this.#respond(state, actions);
    }

    #respond(state, actions) {
        const status = JSON.stringify(state.customStatus);
        const message = {
            instanceId: this.#request.instanceId,
            actions,
            customStatus: status === undefined ? undefined : { value: status },
        };
        const response = proto.encode('OrchestratorResponse', message).toString('base64');
        return { outputData: [], returnValue: { string: response } };
    }

    #complete(executor, completeOrchestration) {
        return { id: Math.max(executor.sequenceNumber, ...this.#scheduled, -1) + 1, completeOrchestration };
    }

    // opened are the actions of the tasks that this step has opened.
    #opened(executor) {
        const actions = [];
        for (const [key, task] of Object.entries(executor.openTasks)) {
            const id = Number(key);
            if (!Number.isInteger(id) || this.#scheduled.has(id)) {
                continue;
            }
            const retried = task.parent; // has tasks without an action: a timer between attempts, or an attempt
            if (!retried?.innerTask || retried.innerTask === task) {
                actions.push(this.#action(id, task.actionObj));
            } else if (retried.isWaitingOnTimer) {
                actions.push({ id, createTimer: { fireAt: timestamp(this.#now.getTime() + delay(retried)) } });
            } else {
                actions.push(this.#action(id, retried.innerTask.actionObj));
            }
        }
        return actions.filter(Boolean).sort((a, b) => a.id - b.id);
    }

    #action(id, a) {
        switch (a.actionType) {
            case actionTypes.callActivity:
            case actionTypes.callActivityWithRetry:
                return { id, scheduleTask: { name: a.functionName, input: written(a.input) } };
            case actionTypes.callSubOrchestrator:
            case actionTypes.callSubOrchestratorWithRetry:
                return { id, createSubOrchestration: {
                    name: a.functionName,
                    instanceId: a.instanceId,
                    input: a.input === undefined ? undefined : { value: JSON.stringify(a.input) },
                } };
            case actionTypes.createTimer:
                return a.isCanceled ? undefined : { id, createTimer: { fireAt: timestamp(a.fireAt) } };
        }
        return { id, refused: a };
    }
}

// delay is the time in milliseconds before the next attempt.
function delay(retried) {
    const o = retried.retryOptions;
    const failures = retried.attemptNumber - 1;
    const next = o.firstRetryIntervalInMilliseconds * (o.backoffCoefficient || 1) ** (failures - 1);
    return Math.min(next, o.maxRetryIntervalInMilliseconds || Infinity);
}

module.exports = { isStep, Step };
