package requestlog

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/taskhub"
)

// maxHubs bounds the task hubs that are remembered, to tell their requests from those of a program.
const maxHubs = 100

// hubName names a task hub of an account.
type hubName struct{ account, hub string }

// background reports whether a runtime sent a request of its own accord: it looks for work and finds none, renews the
// leases of a host, or keeps the records of a task hub. What a program asked for is not of this kind, and neither is a
// request that failed on the server or by a fault rule. l.mu is held.
func (l *Log) background(q *Request) bool {
	if q.Status == 0 || q.Status >= http.StatusInternalServerError || q.Fault != "" {
		return false
	}
	name, _ := q.names()
	lower := strings.ToLower(name)
	if q.Service == wire.Blob.String() {
		if hub, ok := strings.CutSuffix(lower, "-leases"); ok {
			l.noteHub(hubName{q.Account, hub})
		}
	}
	return q.polls() || strings.HasPrefix(lower, "azure-webjobs-") || l.ofHub(q.Service, q.Account, lower) ||
		q.Service == wire.Table.String() && (lower == poisonTable || lower == hostrow.Table)
}

// poisonTable is poison.Table in lower case.
var poisonTable = strings.ToLower(poison.Table)

// noteHub remembers that a hub exists. Of too many hubs, one is forgotten.
func (l *Log) noteHub(hub hubName) {
	if l.hubs[hub] {
		return
	}
	if len(l.hubs) >= maxHubs {
		for other := range l.hubs {
			delete(l.hubs, other)
			break
		}
	}
	l.hubs[hubName{strings.Clone(hub.account), strings.Clone(hub.hub)}] = true
}

// ofHub reports whether a resource, in lower case, belongs to a task hub that was seen: a table History alone can be
// anyone's.
func (l *Log) ofHub(service, account, name string) bool {
	if len(l.hubs) == 0 { // as in most servers
		return false
	}
	hub, _, control := strings.Cut(name, "-control-")
	if control && service == wire.Queue.String() && l.hubs[hubName{account, hub}] {
		return true
	}
	return slices.ContainsFunc(taskhub.Parts[service], func(end string) bool {
		hub, ok := strings.CutSuffix(name, end)
		return ok && l.hubs[hubName{account, hub}]
	})
}
