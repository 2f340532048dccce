package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
)

// maxHubs bounds the task hubs that are remembered, to tell their requests from those of a program.
const maxHubs = 100

// hubParts are what ends the names of a task hub's resources, by service; see package durable. DurableTask.AzureStorage
// has the same names, and leases of its own.
var hubParts = map[string][]string{
	wire.Blob.String():  {"-leases", "-largemessages", "-applease"},
	wire.Queue.String(): {"-workitems", "-shared", "-poison"},
	wire.Table.String(): {"instances", "history", "entities", "partitions"},
}

// background reports whether a runtime sent a request of its own accord: it looks for work and finds none, renews the
// leases of a host, or keeps the records of a task hub. What a program asked for is not of this kind, and neither is a
// request that failed on the server or by a fault rule. l.mu is held.
func (l *Requests) background(q *Request) bool {
	if q.Status == 0 || q.Status >= http.StatusInternalServerError || q.Fault != "" {
		return false
	}
	name, _ := q.names()
	lower := strings.ToLower(name)
	if q.Service == wire.Blob.String() {
		if hub, ok := strings.CutSuffix(lower, "-leases"); ok {
			l.noteHub(queueName{q.Account, hub})
		}
	}
	return q.polls() || strings.HasPrefix(lower, "azure-webjobs-") || l.ofHub(q.Service, q.Account, lower) ||
		q.Service == wire.Table.String() && (lower == strings.ToLower(poison.Table) || lower == hostrow.Table)
}

// noteHub remembers that a hub exists. Of too many hubs, one is forgotten.
func (l *Requests) noteHub(hub queueName) {
	if l.hubs[hub] {
		return
	}
	if len(l.hubs) >= maxHubs {
		for other := range l.hubs {
			delete(l.hubs, other)
			break
		}
	}
	l.hubs[queueName{strings.Clone(hub.account), strings.Clone(hub.queue)}] = true
}

// ofHub reports whether a resource, in lower case, belongs to a task hub that was seen: a table History alone can be
// anyone's.
func (l *Requests) ofHub(service, account, name string) bool {
	hub, _, control := strings.Cut(name, "-control-")
	if control && service == wire.Queue.String() && l.hubs[queueName{account, hub}] {
		return true
	}
	return slices.ContainsFunc(hubParts[service], func(end string) bool {
		hub, ok := strings.CutSuffix(name, end)
		return ok && l.hubs[queueName{account, hub}]
	})
}

// polls reports whether a worker has looked for work: it follows a queue, container or table and waits for what is new,
// or has found no message, or a queue that does not exist, which it does again and again.
func (q *Request) polls() bool {
	if len(q.header[longpoll.AfterHeader]) > 0 {
		return true
	}
	switch q.Operation {
	case "PeekMessages":
		return q.Status == http.StatusNotFound || len(q.header[longpoll.WaitHeader]) > 0
	case "GetMessages":
		return q.Status == http.StatusNotFound || q.Status == http.StatusOK && len(q.Touched) == 0
	}
	return false
}

// names returns the container, queue or table of a request, and the blob or what else follows it in the path.
func (q *Request) names() (first, rest string) {
	if q.BatchTable != "" {
		return q.BatchTable, ""
	}
	path := q.Resource()
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	first, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if q.Service == wire.Table.String() {
		var keys string
		first, keys, _ = strings.Cut(first, "(")
		return first, keys
	}
	return first, rest
}
