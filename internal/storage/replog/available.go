package replog

import (
	"errors"
	"fmt"
	"time"
)

const (
	// majorityPoll is the interval at which a call that waits checks that this node has a majority: without one, what it
	// waits for may not come before its time is over, nor before its client gives up.
	majorityPoll = 100 * time.Millisecond
	// downTimeout replaces Config.Timeout while the log is known to be unavailable.
	downTimeout = time.Second
)

// patience is the time that a call waits for a majority.
func (l *Log) patience() time.Duration {
	timeout := time.Duration(l.timeout.Load())
	if l.stats.down.Load() {
		return min(downTimeout, timeout)
	}
	return timeout
}

// checkMajority returns an error if it is known that no majority can be reached, or that this node cannot apply what
// comes next.
func (l *Log) checkMajority() error {
	if l.config.Failed != nil {
		if err := l.config.Failed(); err != nil {
			return &diskError{err}
		}
	}
	// What waits for this node to apply something would wait for its disk.
	if cause := l.stats.stalled.Load(); cause != nil {
		return &diskError{*cause}
	}
	if l.config.Majority == nil || l.config.Majority() {
		return nil
	}
	return fmt.Errorf("%w: this node is not connected to a majority", ErrUnavailable)
}

// SetTimeout changes Config.Timeout for later calls.
func (l *Log) SetTimeout(d time.Duration) { l.timeout.Store(int64(d)) }

// available notes the outcome of an append or a mark. While the log is unavailable, calls wait for a short time only,
// and the follower tries a mark now and then.
func (l *Log) available(err error) {
	switch {
	case err == nil:
		l.stats.caughtUp.Store(true)
		if l.stats.down.CompareAndSwap(true, false) {
			l.stats.note(nil)
			l.config.Log.Info("the log is available again")
		}
	case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown):
		// A server that says why it has failed has logged that itself.
		if !l.stats.down.CompareAndSwap(false, true) || l.config.Failed != nil && l.config.Failed() != nil {
			return
		}
		until := "a majority of its servers answers"
		if errors.Is(err, ErrDisk) {
			until = "this node can write to its disk"
		}
		l.config.Log.Error("the log is not available; reads and writes are refused until "+until, "err", err)
	}
}
