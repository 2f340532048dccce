package natsserver

import (
	"time"
	_ "unsafe" // for go:linkname
)

// JetStream's followers start an election when they have not heard from a leader for a random time between these two.
// The library's values, 4 and 9 seconds, are for clusters over wide networks, and it has no option for them. A leader
// sends a heartbeat every second, so that a follower still tolerates one that comes late. The time matters for
// availability only: Raft elects at most one leader per term at any timeout.
//
// TestElectionTimeouts fails when the library renames or removes one of the variables.
const (
	minElection = 2500 * time.Millisecond
	maxElection = 4000 * time.Millisecond
)

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

// libraryMinElection and libraryMaxElection are the library's own values.
var libraryMinElection, libraryMaxElection time.Duration

// The variables are set before any server of the process runs, since the library reads them without a lock.
func init() {
	libraryMinElection, libraryMaxElection = minElectionTimeout, maxElectionTimeout
	minElectionTimeout, maxElectionTimeout = minElection, maxElection
}
