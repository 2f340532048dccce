// Workflows of the Durable Task SDK for Java on the gRPC endpoint of Lazuli: each kind of step, and the calls of a client.
import com.microsoft.durabletask.*;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;

public final class Workflows {
  private static final Duration PATIENCE = Duration.ofMinutes(2);
  private static final Map<String, Integer> attempts = new ConcurrentHashMap<>();

  private static void fanOut(TaskOrchestrationContext ctx) {
    List<Task<Integer>> all = new ArrayList<>();
    for (int i = 0; i < ctx.getInput(Integer.class); i++) {
      all.add(ctx.callActivity("twice", i, Integer.class));
    }
    ctx.complete(ctx.allOf(all).await().stream().mapToInt(Integer::intValue).sum());
  }

  private static void chain(TaskOrchestrationContext ctx) {
    int n = ctx.getInput(Integer.class);
    for (int i = 0; i < 3; i++) {
      n = ctx.callActivity("twice", n, Integer.class).await();
    }
    ctx.complete(n);
  }

  private static void timer(TaskOrchestrationContext ctx) {
    Instant began = ctx.getCurrentInstant();
    ctx.createTimer(Duration.ofSeconds(1)).await();
    ctx.complete(!ctx.getCurrentInstant().isBefore(began.plusSeconds(1)));
  }

  private static void event(TaskOrchestrationContext ctx) {
    ctx.complete(ctx.waitForExternalEvent("approved", Duration.ofHours(1), String.class).await());
  }

  private static void parent(TaskOrchestrationContext ctx) {
    ctx.complete(ctx.callSubOrchestrator("chain", ctx.getInput(Integer.class), Integer.class).await());
  }

  private static void retry(TaskOrchestrationContext ctx) {
    TaskOptions options = new TaskOptions(new RetryPolicy(5, Duration.ofMillis(50)));
    ctx.complete(ctx.callActivity("failsTwice", ctx.getInput(String.class), options, String.class).await());
  }

  private static void again(TaskOrchestrationContext ctx) {
    int n = ctx.getInput(Integer.class);
    if (n < 5) {
      ctx.createTimer(Duration.ofMillis(10)).await();
      ctx.continueAsNew(n + 1);
      return;
    }
    ctx.complete(n);
  }

  private static String failsTwice(TaskActivityContext ctx) {
    if (attempts.merge(ctx.getInput(String.class), 1, Integer::sum) < 3) {
      throw new IllegalStateException("not yet");
    }
    return "done";
  }

  private static void check(String what, Object got, Object want) {
    if (!Objects.equals(got, want)) {
      System.err.println("FAIL: " + what + ": got " + got + ", want " + want);
      System.exit(1);
    }
    System.out.println("  " + what + ": ok");
  }

  private static DurableTaskGrpcWorkerBuilder orchestration(DurableTaskGrpcWorkerBuilder builder, String name, TaskOrchestration code) {
    return builder.addOrchestration(new TaskOrchestrationFactory() {
      @Override public String getName() { return name; }
      @Override public TaskOrchestration create() { return code; }
    });
  }

  private static DurableTaskGrpcWorkerBuilder activity(DurableTaskGrpcWorkerBuilder builder, String name, TaskActivity code) {
    return builder.addActivity(new TaskActivityFactory() {
      @Override public String getName() { return name; }
      @Override public TaskActivity create() { return code; }
    });
  }

  public static void main(String[] args) throws Exception {
    String address = System.getenv("LAZULI_DURABLE");
    int port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    DurableTaskGrpcWorkerBuilder builder = new DurableTaskGrpcWorkerBuilder().port(port);
    Map<String, TaskOrchestration> orchestrations = Map.of("fanOut", Workflows::fanOut, "chain", Workflows::chain, "timer", Workflows::timer,
        "event", Workflows::event, "parent", Workflows::parent, "retry", Workflows::retry, "again", Workflows::again,
        "raises", ctx -> { throw new IllegalArgumentException("this is wrong"); });
    orchestrations.forEach((name, code) -> orchestration(builder, name, code));
    activity(builder, "twice", ctx -> 2 * ctx.getInput(Integer.class));
    activity(builder, "failsTwice", Workflows::failsTwice);
    try (DurableTaskGrpcWorker worker = builder.build(); DurableTaskClient client = new DurableTaskGrpcClientBuilder().port(port).build()) {
      worker.start();
      check("fan-out, fan-in", run(client, "fanOut", 30).readOutputAs(Integer.class), 870);
      check("sequence", run(client, "chain", 1).readOutputAs(Integer.class), 8);
      check("timer", run(client, "timer", null).readOutputAs(Boolean.class), true);
      String id = client.scheduleNewOrchestrationInstance("event");
      client.waitForInstanceStart(id, PATIENCE);
      client.raiseEvent(id, "approved", "by Ada");
      check("event", client.waitForInstanceCompletion(id, PATIENCE, true).readOutputAs(String.class), "by Ada");
      check("sub-orchestration", run(client, "parent", 2).readOutputAs(Integer.class), 16);
      check("retry", run(client, "retry", "a").readOutputAs(String.class), "done");
      check("continue as new", run(client, "again", 1).readOutputAs(Integer.class), 5);
      OrchestrationMetadata failed = run(client, "raises", null);
      check("failure", failed.getFailureDetails().getErrorMessage(), "this is wrong");

      id = client.scheduleNewOrchestrationInstance("event");
      client.waitForInstanceStart(id, PATIENCE);
      client.suspendInstance(id);
      client.resumeInstance(id);
      client.terminate(id, "enough");
      check("terminate", client.waitForInstanceCompletion(id, PATIENCE, true).getRuntimeStatus(), OrchestrationRuntimeStatus.TERMINATED);
      check("purge", client.purgeInstance(id).getDeletedInstanceCount(), 1);
      check("purged", client.getInstanceMetadata(id, false).isInstanceFound(), false);
      OrchestrationStatusQuery query = new OrchestrationStatusQuery().setRuntimeStatusList(List.of(OrchestrationRuntimeStatus.FAILED)).setInstanceIdPrefix(failed.getInstanceId());
      check("query", client.queryInstances(query).getOrchestrationState().size(), 1);
    }
    System.exit(0); // The worker's threads go on otherwise.
  }

  private static OrchestrationMetadata run(DurableTaskClient client, String name, Object input) throws Exception {
    String id = client.scheduleNewOrchestrationInstance(name, input);
    return client.waitForInstanceCompletion(id, PATIENCE, true);
  }
}
