package functions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// binding is one entry of "bindings".
type binding struct {
	name       string // of the value in Data or Outputs
	kind       string // "queueTrigger", "blob", ...
	binary     bool   // dataType is binary
	client     bool   // the value is a client of the SDK, which the worker makes
	connection string

	target       expression.Template // queue name, blob path or table name
	path         string              // of a blob trigger, with its own braces
	events       bool                // of a blob trigger: its blobs are announced by events
	schedule     string
	runOnStartup bool
	monitor      *bool
	existing     bool // a table trigger begins with the entities that are there
	inOrder      bool // a table trigger is called for every change, in order

	// durableName is the name of an orchestration, activity or entity in workflows. messages: the app's package uses the
	// messages of the Durable Task protocol.
	durableName string
	messages    bool

	partitionKey, rowKey *expression.Template
	filter               *expression.Filter
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
func (b *binding) resolveTarget(d *expression.Data) (string, error) {
	target, err := b.target.Resolve(d)
	if err != nil {
		return "", err
	}
	return b.normalTarget(target)
}

// maxName is the largest length of the name of a function or binding, in bytes. A limit within the regular expressions
// would make them slow to compile, at each start of the process.
const maxName = 128

var (
	triggerKinds = []string{kindHTTPTrigger, kindQueueTrigger, kindBlobTrigger, kindTimerTrigger, kindEventTrigger,
		kindTableTrigger, kindOrchestrationTrigger, kindActivityTrigger, kindEntityTrigger, kindWarmup}
	inputKinds  = []string{kindBlob, kindTable, kindDurableClient}
	outputKinds = []string{kindHTTP, kindQueue, kindBlob, kindTable}

	functionName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*$`)
	bindingName  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*$`)
)
