package functions

import (
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/functions/internal/route"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
)

// readBinding reads one binding and reports whether it is an output.
func readBinding(o *jsonfile.Section, s *settings.Settings, h *hostFile, f *function) (b *binding, output bool) {
	output, ok := readDirection(o)
	if !ok {
		return nil, false
	}
	b = &binding{name: o.Text("name", ""), kind: readKind(o, output)}
	if b.kind == "" {
		return nil, false
	}
	b.checkName(o, output)
	if t := o.Choice("dataType", "string", "string", "binary", "stream"); t == "stream" {
		o.Fail("dataType", "stream is not supported; want string or binary")
	} else {
		b.binary = t == "binary"
	}
	if p := o.Object("properties"); p != nil || o.Has("sdkBinding") {
		b.client = o.Boolean("sdkBinding", false) || p != nil && p.Boolean("supportsDeferredBinding", false)
		if b.client && (h.runtime == "" || output || !deferrable(b.kind)) {
			o.Fail("sdkBinding", "a type of the SDK is for triggers of queues and blobs and inputs of blobs only, in language "+
				"workers: take the binding's value, or make a client in the function")
		}
	}
	b.readOptions(o, s, h, f, output)
	b.readConnection(o, s)
	o.Done()
	return b, output
}

// deferrable reports whether a worker can make a type of the SDK of a binding: the host hands on a reference then.
func deferrable(kind string) bool {
	return kind == kindBlobTrigger || kind == kindBlob || kind == kindQueueTrigger
}

// readDirection reports whether a binding is an output. ok is false if it is neither that nor an input.
func readDirection(o *jsonfile.Section) (output, ok bool) {
	switch direction := o.Text("direction", "in"); direction {
	case "in", "In", "IN":
		return false, true
	case "out", "Out", "OUT":
		return true, true
	default:
		o.Fail("direction", "%q is neither in nor out", direction)
		return false, false
	}
}

// readKind returns the kind of a binding, or "" if bindings of that direction have no such kind.
func readKind(o *jsonfile.Section, output bool) string {
	name := o.Text("type", "")
	switch {
	case name == "":
		o.Fail("type", "is missing")
		return ""
	case strings.EqualFold(name, "orchestrationClient"): // The name in version 1 of the extension.
		name = kindDurableClient
	}
	known, direction := outputKinds, "out"
	if !output {
		known, direction = append(slices.Clone(triggerKinds), inputKinds...), "in"
	}
	for _, kind := range known {
		if strings.EqualFold(kind, name) {
			return kind
		}
	}
	o.Fail("type", "%q is not supported with direction %s; there are %s (binding %s)", name, direction,
		strings.Join(known, ", "), o.Text("name", ""))
	return ""
}

// checkName checks the name of the binding's value.
func (b *binding) checkName(o *jsonfile.Section, output bool) {
	switch {
	case b.name == "":
		o.Fail("name", "is missing")
	case b.name == returnName && output:
	case len(b.name) > maxName || !bindingName().MatchString(b.name):
		o.Fail("name", "%q is not a name: a letter, then letters, digits and _; $return for an output", b.name)
	}
}

// readOptions reads what bindings of the kind have.
func (b *binding) readOptions(o *jsonfile.Section, s *settings.Settings, h *hostFile, f *function, output bool) {
	switch b.kind {
	case kindQueueTrigger, kindQueue:
		b.readTarget(o, s, "queueName", output)
		b.checkTarget(o, "queueName")
	case kindBlobTrigger:
		b.readBlobTrigger(o, s)
	case kindEventTrigger:
		if o.Choice("cardinality", "one", "one", "many") == "many" {
			o.Fail("cardinality", "many is not supported; leave it out, and the function is called for each event")
		}
	case kindBlob:
		b.readBlob(o, s)
	case kindTable:
		b.readTable(o, s, output)
	case kindTableTrigger:
		b.readTableName(o, s, false)
		b.existing, b.inOrder = o.Boolean("existing", false), o.Boolean("inOrder", false)
	case kindTimerTrigger:
		b.readTimerTrigger(o, s)
	case kindHTTPTrigger:
		f.readHTTPTrigger(o)
	case kindOrchestrationTrigger, kindActivityTrigger, kindEntityTrigger, kindDurableClient:
		b.readDurable(o, s, h, f)
	}
}

func (b *binding) readBlobTrigger(o *jsonfile.Section, s *settings.Settings) {
	if b.path = b.expand(o, s, "path"); b.path != "" {
		pattern, err := blobpath.Parse(b.path)
		if err != nil {
			o.Fail("path", "%v", err)
		} else if !containerName(pattern.Container) {
			o.Fail("path", "%q: %s", pattern.Container, dashedRule)
		}
	}
	b.events = o.Choice("source", "LogsAndContainerScan", "LogsAndContainerScan", "EventGrid") == "EventGrid"
}

func (b *binding) readBlob(o *jsonfile.Section, s *settings.Settings) {
	name := "path"
	if o.Has("blobPath") && !o.Has(name) {
		name = "blobPath" // As the worker of .NET calls it.
	}
	b.readTarget(o, s, name, true)
	if _, _, ok := strings.Cut(b.target.Source, "/"); !ok && !b.client && b.target.Source != "" {
		o.Fail(name, "%q lacks the blob's name: container/blob", b.target.Source) // A client may be that of the container.
		return
	}
	b.checkTarget(o, name)
}

func (b *binding) readTimerTrigger(o *jsonfile.Section, s *settings.Settings) {
	if b.schedule = b.expand(o, s, "schedule"); b.schedule != "" {
		if _, err := ncrontab.Parse(b.schedule); err != nil {
			o.Fail("schedule", "%v", err)
		}
	}
	b.runOnStartup = o.Boolean("runOnStartup", false)
	if o.Has("useMonitor") {
		monitor := o.Boolean("useMonitor", true)
		b.monitor = &monitor
	}
}

// readConnection reads which storage account a binding of storage uses.
func (b *binding) readConnection(o *jsonfile.Section, s *settings.Settings) {
	switch b.kind {
	case kindQueueTrigger, kindQueue, kindBlobTrigger, kindBlob, kindTable, kindTableTrigger:
	default:
		return
	}
	b.connection = strings.Trim(o.Text("connection", ""), "%")
	if b.connection == "" {
		b.connection = connstr.DefaultConnection
	}
	if _, err := s.Connection(b.connection); err != nil {
		o.Fail("connection", "%v", err)
	}
}

// expand returns a text with its settings filled in.
func (b *binding) expand(o *jsonfile.Section, s *settings.Settings, name string) string {
	text := o.Text(name, "")
	if text == "" {
		o.Fail(name, "is missing")
		return ""
	}
	text, err := s.Expand(text, false)
	if err != nil {
		o.Fail(name, "%v", err)
	}
	return text
}

// readTarget reads a name or path, which may hold expressions if it is not a trigger's.
func (b *binding) readTarget(o *jsonfile.Section, s *settings.Settings, name string, expressions bool) {
	text := b.expand(o, s, name)
	t, err := expression.Parse(text)
	if err != nil {
		o.Fail(name, "%v", err)
	}
	if !expressions && strings.ContainsAny(text, "{}") {
		o.Fail(name, "%q: a trigger's name cannot hold expressions in braces", text)
	}
	b.target = t
}

func (b *binding) readTableName(o *jsonfile.Section, s *settings.Settings, expressions bool) {
	b.readTarget(o, s, "tableName", expressions)
	b.checkTarget(o, "tableName")
}

// checkTarget checks a name at the start of the app if it does not depend on invocations, and makes it the name to use.
func (b *binding) checkTarget(o *jsonfile.Section, member string) {
	if b.target.Source == "" || strings.ContainsAny(b.targetName(b.target.Source), "{}") {
		return
	}
	name, err := b.normalTarget(b.target.Source)
	if err != nil {
		o.Fail(member, "%v", err)
		return
	}
	if b.target.Source != name {
		b.target, _ = expression.Parse(name) // It has no braces.
	}
}

func (b *binding) readTable(o *jsonfile.Section, s *settings.Settings, output bool) {
	b.readTableName(o, s, true)
	optional := func(name string) *expression.Template {
		if !o.Has(name) {
			return nil
		}
		t, err := expression.Parse(b.expand(o, s, name))
		if err != nil {
			o.Fail(name, "%v", err)
		}
		return &t
	}
	b.partitionKey, b.rowKey = optional("partitionKey"), optional("rowKey")
	if output {
		o.Refuse("an output has no filter", "filter", "take")
		return
	}
	if t := optional("filter"); t != nil {
		b.filter = expression.NewFilter(*t)
	}
	b.take = o.Integer("take", 0, 0, 1_000_000)
	if b.rowKey != nil && (b.partitionKey == nil || b.filter != nil || b.take != 0) {
		o.Fail("rowKey", "one entity is named by partitionKey and rowKey alone; leave rowKey out to get several")
	}
}

// readHTTPTrigger reads what an HTTP trigger has.
func (f *function) readHTTPTrigger(o *jsonfile.Section) {
	f.authLevel = readAuthLevel(o, "authLevel", keys.ForFunction)
	o.Refuse("it is gone from Azure Functions as well, since version 2", "webHookType")
	for _, m := range o.Texts("methods") {
		f.methods = append(f.methods, strings.ToUpper(m))
	}
	text := o.Text("route", "")
	if text == "" {
		text = f.name
	}
	var err error
	if f.route, err = route.Parse(text); err != nil {
		o.Fail("route", "%v", err)
	}
}

// durableNames are the options by which the triggers' functions have another name in workflows.
var durableNames = map[string]string{kindOrchestrationTrigger: "orchestration", kindActivityTrigger: "activity",
	kindEntityTrigger: "entityName"}

// readDurable reads a binding of the durable extension.
func (b *binding) readDurable(o *jsonfile.Section, s *settings.Settings, h *hostFile, f *function) {
	b.connection = h.durable.Connection
	if _, err := s.Connection(b.connection); err != nil {
		o.Fail("type", "%v (host.json: extensions.durableTask.storageProvider)", err)
	}
	switch b.kind {
	case kindDurableClient:
		if hub := strings.Trim(o.Text("taskHub", ""), "%"); hub != "" && !strings.EqualFold(hub, h.durable.Hub) {
			o.Fail("taskHub", "%q is not supported: the app's own hub is %q", hub, h.durable.Hub)
		}
		if name := o.Text("connectionName", ""); name != "" && name != h.durable.Connection &&
			name != h.durable.SchedulerConnection {
			o.Fail("connectionName", "%q is not supported: the app's own connection is %q", name, h.durable.Connection)
		}
	default:
		b.durableName = o.Text(durableNames[b.kind], "")
		if b.durableName == "" {
			b.durableName = f.name
		}
	}
	b.messages = o.Boolean("durableRequiresGrpc", false) || h.runtime == runtimeDotNet || h.runtime == runtimeJava
}
