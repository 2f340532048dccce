package natsserver

import (
	"testing"
	"time"
)

// The variables are those of the library: they had its values before they were set.
func TestElectionTimeouts(t *testing.T) {
	t.Parallel()
	if libraryMinElection != 4*time.Second || libraryMaxElection != 9*time.Second {
		t.Errorf("the library's election timeouts are %v to %v, want 4s to 9s: has it renamed or changed its variables?",
			libraryMinElection, libraryMaxElection)
	}
	if minElectionTimeout != minElection || maxElectionTimeout != maxElection {
		t.Errorf("the election timeouts are %v to %v, want %v to %v", minElectionTimeout, maxElectionTimeout, minElection,
			maxElection)
	}
}
