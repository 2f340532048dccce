package functions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
)

// binding is one entry of "bindings".
type binding struct {
	name       string // of the value in Data or Outputs
	kind       string // "queueTrigger", "blob", ...
	binary     bool   // dataType is binary
	client     bool   // the value is a client of the SDK, which the worker makes
	connection string

	target       template // queue name, blob path or table name
	path         string   // of a blob trigger, with its own braces
	events       bool     // of a blob trigger: its blobs are announced by events
	schedule     string
	runOnStartup bool
	monitor      *bool
	existing     bool // a table trigger begins with the entities that are there
	inOrder      bool // a table trigger is called for every change, in order

	// durableName is the name of an orchestration, activity or entity in workflows. messages: the app's package uses the
	// messages of the Durable Task protocol.
	durableName string
	messages    bool

	partitionKey, rowKey *template
	filter               *filterTemplate
	take                 int
}

// returnName is the name of the output that takes ReturnValue.
const returnName = "$return"

const (
	kindQueueTrigger = "queueTrigger"
	kindBlobTrigger  = "blobTrigger"
	kindTimerTrigger = "timerTrigger"
	kindHTTPTrigger  = "httpTrigger"
	kindEventTrigger = "eventGridTrigger"
	kindTableTrigger = "tableTrigger" // not of Azure Functions
	kindWarmup       = "warmupTrigger"
	kindQueue        = "queue"
	kindBlob         = "blob"
	kindTable        = "table"
	kindHTTP         = "http"

	kindOrchestrationTrigger = "orchestrationTrigger"
	kindActivityTrigger      = "activityTrigger"
	kindEntityTrigger        = "entityTrigger"
	kindDurableClient        = "durableClient"
)

// readBinding reads one binding and reports whether it is an output.
func readBinding(o *section, s *settings, h *hostFile, f *function) (b *binding, output bool) {
	output, ok := readDirection(o)
	if !ok {
		return nil, false
	}
	b = &binding{name: o.text("name", ""), kind: readKind(o, output)}
	if b.kind == "" {
		return nil, false
	}
	b.checkName(o, output)
	if t := o.choice("dataType", "string", "string", "binary", "stream"); t == "stream" {
		o.fail("dataType", "stream is not supported; want string or binary")
	} else {
		b.binary = t == "binary"
	}
	if p := o.object("properties"); p != nil || o.has("sdkBinding") {
		b.client = o.boolean("sdkBinding", false) || p != nil && p.boolean("supportsDeferredBinding", false)
		if b.client && (h.runtime == "" || output || !deferrable(b.kind)) {
			o.fail("sdkBinding", "a type of the SDK is for triggers of queues and blobs and inputs of blobs only, in language "+
				"workers: take the binding's value, or make a client in the function")
		}
	}
	b.readOptions(o, s, h, f, output)
	b.readConnection(o, s)
	o.done()
	return b, output
}

// deferrable reports whether a worker can make a type of the SDK of a binding: the host hands on a reference then.
func deferrable(kind string) bool {
	return kind == kindBlobTrigger || kind == kindBlob || kind == kindQueueTrigger
}

// readDirection reports whether a binding is an output. ok is false if it is neither that nor an input.
func readDirection(o *section) (output, ok bool) {
	switch direction := o.text("direction", "in"); direction {
	case "in", "In", "IN":
		return false, true
	case "out", "Out", "OUT":
		return true, true
	default:
		o.fail("direction", "%q is neither in nor out", direction)
		return false, false
	}
}

// readKind returns the kind of a binding, or "" if bindings of that direction have no such kind.
func readKind(o *section, output bool) string {
	name := o.text("type", "")
	switch {
	case name == "":
		o.fail("type", "is missing")
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
	o.fail("type", "%q is not supported with direction %s; there are %s (binding %s)", name, direction,
		strings.Join(known, ", "), o.text("name", ""))
	return ""
}

// checkName checks the name of the binding's value.
func (b *binding) checkName(o *section, output bool) {
	switch {
	case b.name == "":
		o.fail("name", "is missing")
	case b.name == returnName && output:
	case len(b.name) > maxName || !bindingName().MatchString(b.name):
		o.fail("name", "%q is not a name: a letter, then letters, digits and _; $return for an output", b.name)
	}
}

// readOptions reads what bindings of the kind have.
func (b *binding) readOptions(o *section, s *settings, h *hostFile, f *function, output bool) {
	switch b.kind {
	case kindQueueTrigger, kindQueue:
		b.readTarget(o, s, "queueName", output)
		b.checkTarget(o, "queueName")
	case kindBlobTrigger:
		b.readBlobTrigger(o, s)
	case kindEventTrigger:
		if o.choice("cardinality", "one", "one", "many") == "many" {
			o.fail("cardinality", "many is not supported; leave it out, and the function is called for each event")
		}
	case kindBlob:
		b.readBlob(o, s)
	case kindTable:
		b.readTable(o, s, output)
	case kindTableTrigger:
		b.readTableName(o, s, false)
		b.existing, b.inOrder = o.boolean("existing", false), o.boolean("inOrder", false)
	case kindTimerTrigger:
		b.readTimerTrigger(o, s)
	case kindHTTPTrigger:
		f.readHTTPTrigger(o)
	case kindOrchestrationTrigger, kindActivityTrigger, kindEntityTrigger, kindDurableClient:
		b.readDurable(o, s, h, f)
	}
}

func (b *binding) readBlobTrigger(o *section, s *settings) {
	if b.path = b.expand(o, s, "path"); b.path != "" {
		pattern, err := blobpath.Parse(b.path)
		if err != nil {
			o.fail("path", "%v", err)
		} else if !containerName(pattern.Container) {
			o.fail("path", "%q: %s", pattern.Container, dashedRule)
		}
	}
	b.events = o.choice("source", "LogsAndContainerScan", "LogsAndContainerScan", "EventGrid") == "EventGrid"
}

func (b *binding) readBlob(o *section, s *settings) {
	name := "path"
	if o.has("blobPath") && !o.has(name) {
		name = "blobPath" // As the worker of .NET calls it.
	}
	b.readTarget(o, s, name, true)
	if _, _, ok := strings.Cut(b.target.source, "/"); !ok && !b.client && b.target.source != "" {
		o.fail(name, "%q lacks the blob's name: container/blob", b.target.source) // A client may be that of the container.
		return
	}
	b.checkTarget(o, name)
}

func (b *binding) readTimerTrigger(o *section, s *settings) {
	if b.schedule = b.expand(o, s, "schedule"); b.schedule != "" {
		if _, err := ncrontab.Parse(b.schedule); err != nil {
			o.fail("schedule", "%v", err)
		}
	}
	b.runOnStartup = o.boolean("runOnStartup", false)
	if o.has("useMonitor") {
		monitor := o.boolean("useMonitor", true)
		b.monitor = &monitor
	}
}

// readConnection reads which storage account a binding of storage uses.
func (b *binding) readConnection(o *section, s *settings) {
	switch b.kind {
	case kindQueueTrigger, kindQueue, kindBlobTrigger, kindBlob, kindTable, kindTableTrigger:
	default:
		return
	}
	b.connection = strings.Trim(o.text("connection", ""), "%")
	if b.connection == "" {
		b.connection = connstr.DefaultConnection
	}
	if _, err := s.connection(b.connection); err != nil {
		o.fail("connection", "%v", err)
	}
}

// dashedRule are the rules for the names of queues and containers.
// https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata
const dashedRule = "a name has 3 to 63 lower-case letters, digits and single dashes between them"

var (
	dashedName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	tableName  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{2,62}$`)
)

func dashed(name string) bool {
	return len(name) >= 3 && len(name) <= 63 && dashedName().MatchString(name)
}

func containerName(name string) bool {
	return dashed(name) || slices.Contains([]string{"$root", "$web", "$logs"}, name)
}

// expand returns a text with its settings filled in.
func (b *binding) expand(o *section, s *settings, name string) string {
	text := o.text(name, "")
	if text == "" {
		o.fail(name, "is missing")
		return ""
	}
	text, err := s.expand(text, false)
	if err != nil {
		o.fail(name, "%v", err)
	}
	return text
}

// readTarget reads a name or path, which may hold expressions if it is not a trigger's.
func (b *binding) readTarget(o *section, s *settings, name string, expressions bool) {
	text := b.expand(o, s, name)
	t, err := parseTemplate(text)
	if err != nil {
		o.fail(name, "%v", err)
	}
	if !expressions && strings.ContainsAny(text, "{}") {
		o.fail(name, "%q: a trigger's name cannot hold expressions in braces", text)
	}
	b.target = t
}

func (b *binding) readTableName(o *section, s *settings, expressions bool) {
	b.readTarget(o, s, "tableName", expressions)
	b.checkTarget(o, "tableName")
}

// checkTarget checks a name at the start of the app if it does not depend on invocations, and makes it the name to use.
func (b *binding) checkTarget(o *section, member string) {
	if b.target.source == "" || strings.ContainsAny(b.targetName(b.target.source), "{}") {
		return
	}
	name, err := b.normalTarget(b.target.source)
	if err != nil {
		o.fail(member, "%v", err)
		return
	}
	if b.target.source != name {
		b.target, _ = parseTemplate(name) // It has no braces.
	}
}

// targetName is the part of a target that names a queue, a container or a table.
func (b *binding) targetName(target string) string {
	if b.kind != kindBlob {
		return target
	}
	container, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
	return container
}

// normalTarget returns a target as the service wants it. What requests and messages put into a name must not make it
// that of something else: a queue called "../other/queue" would be in another account. Names of queues are lowered, as
// the host does.
// https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/storage/Microsoft.Azure.WebJobs.Extensions.Storage.Queues/src/Config/QueuesExtensionConfigProvider.cs
func (b *binding) normalTarget(target string) (string, error) {
	name := b.targetName(target)
	switch b.kind {
	case kindQueueTrigger, kindQueue:
		if target = strings.ToLower(target); !dashed(target) {
			return "", fmt.Errorf("%q: %s", name, dashedRule)
		}
	case kindTable, kindTableTrigger:
		if !tableName().MatchString(name) {
			return "", fmt.Errorf("%q: a name has 3 to 63 letters and digits, a letter first", name)
		}
	case kindBlob:
		if !containerName(name) {
			return "", fmt.Errorf("%q: %s", name, dashedRule)
		}
	}
	return target, nil
}

// resolveTarget returns the name or path for one invocation.
func (b *binding) resolveTarget(inv *invocation) (string, error) {
	target, err := b.target.resolve(inv)
	if err != nil {
		return "", err
	}
	return b.normalTarget(target)
}

func (b *binding) readTable(o *section, s *settings, output bool) {
	b.readTableName(o, s, true)
	optional := func(name string) *template {
		if !o.has(name) {
			return nil
		}
		t, err := parseTemplate(b.expand(o, s, name))
		if err != nil {
			o.fail(name, "%v", err)
		}
		return &t
	}
	b.partitionKey, b.rowKey = optional("partitionKey"), optional("rowKey")
	if output {
		o.refuse("an output has no filter", "filter", "take")
		return
	}
	if t := optional("filter"); t != nil {
		b.filter = newFilterTemplate(*t)
	}
	b.take = o.integer("take", 0, 0, 1_000_000)
	if b.rowKey != nil && (b.partitionKey == nil || b.filter != nil || b.take != 0) {
		o.fail("rowKey", "one entity is named by partitionKey and rowKey alone; leave rowKey out to get several")
	}
}

// readAuthLevel reads an access level.
func readAuthLevel(o *section, name, fallback string) string {
	return o.choice(name, fallback, authAnonymous, "user", authFunction, authSystem, "admin")
}

// readHTTPTrigger reads what an HTTP trigger has.
func (f *function) readHTTPTrigger(o *section) {
	f.authLevel = readAuthLevel(o, "authLevel", authFunction)
	o.refuse("it is gone from Azure Functions as well, since version 2", "webHookType")
	for _, m := range o.texts("methods") {
		f.methods = append(f.methods, strings.ToUpper(m))
	}
	text := o.text("route", "")
	if text == "" {
		text = f.name
	}
	var err error
	if f.route, err = parseRoute(text); err != nil {
		o.fail("route", "%v", err)
	}
}
