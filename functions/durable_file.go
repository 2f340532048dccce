package functions

import (
	"cmp"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// defaultDurableHub is the hub's name on a developer's machine.
const defaultDurableHub = "TestHubName"

// readDurable reads extensions.durableTask. Its members are honoured or refused.
func readDurable(s *jsonfile.Section, app *settings.Settings) DurableSettings {
	expand := func(o *jsonfile.Section, name, fallback string) string {
		text, err := app.Expand(o.Text(name, fallback), false)
		if err != nil {
			o.Fail(name, "%v", err)
		}
		// Of a variable that is not set the name is left, without its signs.
		return strings.Trim(text, "%")
	}
	d := DurableSettings{Hub: defaultDurableHub, Connection: connstr.DefaultConnection,
		MaxActivities: 10 * runtime.GOMAXPROCS(0), MaxOrchestrators: 10 * runtime.GOMAXPROCS(0),
		MaxEntities: 10 * runtime.GOMAXPROCS(0)}
	// An app without the section has the defaults of the extension, and not none: its functions may be workflows all the
	// same.
	if s == nil {
		return d
	}
	d.Hub = expand(s, "hubName", d.Hub)
	d.MaxActivities = s.Integer("maxConcurrentActivityFunctions", d.MaxActivities, 1, 10_000)
	d.MaxOrchestrators = s.Integer("maxConcurrentOrchestratorFunctions", d.MaxOrchestrators, 1, 10_000)
	d.MaxEntities = s.Integer("maxConcurrentEntityFunctions", d.MaxEntities, 1, 10_000)
	if h := s.Object("httpSettings"); h != nil {
		ms := h.Integer("defaultAsyncRequestSleepTimeMilliseconds", 0, 1, 24*60*60*1000)
		d.HTTPSleep = time.Duration(ms) * time.Millisecond
		if h.Boolean("useForwardedHost", false) {
			h.Fail("useForwardedHost", "true is not supported")
		}
		h.RefuseUnread()
	}
	d.ReplaceRunning = s.Choice("overridableExistingInstanceStates", "NonRunningStates", "NonRunningStates",
		"AnyState") == "AnyState"
	if p := s.Object("storageProvider"); p != nil {
		connection := ""
		// The member has had both names.
		for _, name := range []string{"connectionName", "connectionStringName"} {
			if p.Has(name) {
				connection = expand(p, name, "")
			}
		}
		if p.Choice("type", "AzureStorage", "AzureStorage", "azureManaged") == "azureManaged" {
			d.readScheduler(p, s.Has("hubName"), connection, app)
		} else if connection != "" {
			d.Connection = connection
		}
		d.Partitions = p.Integer("partitionCount", 0, 1, 16)
		d.MaxBuffered = p.Integer("controlQueueBufferThreshold", 0, 1, 1000)
		d.MaxPolling = p.Duration("maxQueuePollingInterval", 0, 100*time.Millisecond, time.Hour)
		d.Visibility = p.Duration("controlQueueVisibilityTimeout", 0, time.Second, time.Hour)
		// One of the two may be given alone. Two values that differ are refused: one of them would be accepted and ignored.
		if work := p.Duration("workItemQueueVisibilityTimeout", d.Visibility, time.Second, time.Hour); d.Visibility != 0 &&
			work != d.Visibility {
			p.Fail("workItemQueueVisibilityTimeout",
				"differs from controlQueueVisibilityTimeout, which is not supported: one value is for both")
		} else {
			d.Visibility = work
		}
		p.NoEffect("the queues of workflows are Lazuli's own", "controlQueueBatchSize", "FetchLargeMessagesAutomatically",
			"QueueClientMessageEncoding", "useLegacyPartitionManagement", "useTablePartitionManagement")
		p.RefuseUnread()
	}
	s.NoEffect("it is for .NET", "extendedSessionsEnabled", "extendedSessionIdleTimeoutInSeconds")
	s.NoEffect("it is for Application Insights", "tracing")
	s.NoEffect("a stop lets running functions end in any case", "useGracefulShutdown")
	s.NoEffect("any app that names the hub takes part in its work", "useAppLease")
	// Last: each member that was read, or has no effect, is known by now; what remains is misspelled or not supported.
	s.RefuseUnread()
	return d
}

// readScheduler reads the connection to a Durable Task Scheduler. A scheduler on this machine is Lazuli's
// (serve --durable): the app takes part in its hub, in the storage account of the app, as the workers do that are
// connected to it.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-task-scheduler/quickstart-durable-task-scheduler
func (d *DurableSettings) readScheduler(p *jsonfile.Section, named bool, connection string, app *settings.Settings) {
	if connection == "" {
		connection = "DURABLE_TASK_SCHEDULER_CONNECTION_STRING"
	}
	text, ok := app.Get(connection)
	if !ok || text == "" {
		p.Fail("connectionStringName", "%q is set neither in the environment nor in %s (Values)", connection, settings.File)
		return
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		parts[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	endpoint, err := url.Parse(parts["endpoint"])
	if err != nil || endpoint.Hostname() == "" {
		p.Fail("connectionStringName", "%s: want Endpoint=http://localhost:8080;Authentication=None", connection)
		return
	}
	if host := endpoint.Hostname(); host != "localhost" && !net.ParseIP(host).IsLoopback() {
		p.Fail("connectionStringName", "%s: the scheduler %s is not on this machine, which is not supported: want "+
			"Endpoint=http://localhost:8080;Authentication=None for Lazuli's own", connection, endpoint.Host)
		return
	}
	d.Scheduler, d.SchedulerConnection = true, connection
	if hub := parts["taskhub"]; !named {
		d.Hub = cmp.Or(hub, "default")
	}
	p.Report.Note("%s: the workflows are in the hub %s in the account of %s, "+
		"which `lazuli serve --durable` serves as a scheduler; the host does not connect to %s", p.At("type"), d.Hub,
		connstr.DefaultConnection, endpoint.Host)
	p.NoEffect("large payloads are stored in blobs in any case", "largePayloadStorageEnabled",
		"largePayloadStorageThresholdBytes")
}
