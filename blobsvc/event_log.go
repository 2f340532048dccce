package blobsvc

import (
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
)

// Event is an entry of the event log: a change of a blob.
type Event = state.Event

// ErrNotWorker means that another node of the cluster delivers the events now.
var ErrNotWorker = state.ErrNotWorker

// ClaimWork reports whether this node does the work that one node of the cluster does for all, after it has tried to
// become that if no other node is. A server alone always does.
func (s *Service) ClaimWork(now time.Time) (bool, error) { return s.state.Membership.Claim(now) }

// Worker returns the data folder of the node that does that work, as far as this node knows; "" for none.
func (s *Service) Worker() string { return s.state.Membership.Worker() }

// Node returns the name of this node's data folder; "" for a service of a single machine.
func (s *Service) Node() string { return s.state.Membership.Node() }

// EventLog returns the log of the events of all services.
func (s *Service) EventLog() *eventlog.Log { return s.state.EventLog() }

// EventOf returns the event of an entry that the Blob service has put into the log.
func EventOf(e *eventlog.Entry) (Event, error) {
	return state.DecodeEvent(eventlog.Key(e.Account, e.Number), e.Record)
}
