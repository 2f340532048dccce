package blobsvc

import (
	"time"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
)

// ClaimWork reports whether this node does the work that one node of the cluster does for all, after it has tried to
// become that if no other node is. A server alone always does.
func (s *Service) ClaimWork(now time.Time) (bool, error) { return s.state.Membership.Claim(now) }

// Worker returns the data folder of the node that does that work, as far as this node knows; "" for none.
func (s *Service) Worker() string { return s.state.Membership.Worker() }

// Node returns the name of this node's data folder; "" for a service of a single machine.
func (s *Service) Node() string { return s.state.Membership.Name() }

// EventLog returns the log of the events of all services.
func (s *Service) EventLog() *eventlog.Log { return s.state.EventLog() }
