// Workflows of the Durable Task SDK for JavaScript on the gRPC endpoint of Lazuli: each kind of step.
import { TaskHubGrpcClient, TaskHubGrpcWorker, RetryPolicy, EntityInstanceId, TaskEntity, whenAll, whenAny } from "@microsoft/durabletask-js";

const address = process.env.LAZULI_DURABLE;
const failures = new Map();

const double = async (_, n) => 2 * n;
const failsTwice = async (_, key) => {
  failures.set(key, (failures.get(key) ?? 0) + 1);
  if (failures.get(key) < 3) throw new Error("not yet");
  return "done";
};
const fanOut = async function* (ctx, n) {
  const results = yield whenAll(Array.from({ length: n }, (_, i) => ctx.callActivity(double, i)));
  return results.reduce((a, b) => a + b, 0);
};
const chain = async function* (ctx, n) {
  for (let i = 0; i < 3; i++) n = yield ctx.callActivity(double, n);
  return n;
};
const timer = async function* (ctx) {
  const began = ctx.currentUtcDateTime.getTime();
  yield ctx.createTimer(1);
  return ctx.currentUtcDateTime.getTime() - began >= 1000;
};
const event = async function* (ctx) {
  const approved = ctx.waitForExternalEvent("approved");
  const winner = yield whenAny([approved, ctx.createTimer(3600)]);
  return winner === approved ? approved.getResult() : "late";
};
const parent = async function* (ctx, n) {
  return yield ctx.callSubOrchestrator(chain, n);
};
const retry = async function* (ctx, key) {
  return yield ctx.callActivity(failsTwice, key, { retry: new RetryPolicy({ maxNumberOfAttempts: 5, firstRetryIntervalInMilliseconds: 50 }) });
};
const again = async function* (ctx, n) {
  if (n < 5) {
    yield ctx.createTimer(0.01);
    ctx.continueAsNew(n + 1, false);
    return;
  }
  return n;
};

class Counter extends TaskEntity {
  initializeState() {
    return 0;
  }
  add(n) {
    this.state += n;
    return this.state;
  }
}
const entity = async function* (ctx) {
  const b = new EntityInstanceId("counter", "b");
  yield ctx.entities.callEntity(b, "add", 1);
  return yield ctx.entities.callEntity(b, "add", 2);
};

const orchestrators = { fanOut, chain, timer, event, parent, retry, again, entity };
const worker = new TaskHubGrpcWorker({ hostAddress: address });
for (const [name, o] of Object.entries(orchestrators)) worker.addNamedOrchestrator(name, o);
worker.addNamedActivity("double", double);
worker.addNamedActivity("failsTwice", failsTwice);
worker.addNamedEntity("counter", () => new Counter());
await worker.start();
const client = new TaskHubGrpcClient({ hostAddress: address });

function check(what, got, want) {
  if (got !== want) {
    console.error(`FAIL: ${what}: got ${got}, want ${want}`);
    process.exit(1);
  }
  console.log(`  ${what}: ok`);
}

async function run(name, input, during) {
  const id = await client.scheduleNewOrchestration(name, input);
  if (during) {
    await client.waitForOrchestrationStart(id, false, 60);
    await during(id);
  }
  const state = await client.waitForOrchestrationCompletion(id, true, 60);
  return state.failureDetails?.message ?? state.serializedOutput;
}

check("fan-out, fan-in", await run("fanOut", 30), "870");
check("sequence", await run("chain", 1), "8");
check("timer", await run("timer"), "true");
check("event", await run("event", undefined, (id) => client.raiseOrchestrationEvent(id, "approved", "by Ada")), '"by Ada"');
check("sub-orchestration", await run("parent", 2), "16");
check("retry", await run("retry", "a"), '"done"');
check("continue as new", await run("again", 1), "5");
check("entity", await run("entity"), "3");
await worker.stop();
await client.stop();
process.exit(0);
