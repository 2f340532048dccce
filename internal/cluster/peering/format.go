package peering

import (
	"errors"
	"fmt"
)

// The format of a cluster's data rises by decision alone. While nodes of two releases run, all of them write the format
// that the cluster has had, so that each of them can go back to the release before. When every node runs the newer
// release, a person decides ([Site.Raise] at every node), and from then on the older release is refused.
//
// Each node stores the format in its identity. The decision is made when the first node has stored it: all programs
// that take part understand the newer format by then, and a node that was away takes it with the next connection. So
// nodes may differ for a moment, and nothing has to happen at all of them at once.

// ErrFormat means that a program does not understand the format of a cluster's data.
var ErrFormat = errors.New("the format of the cluster's data is not supported")

// checkFormat returns [ErrFormat] if this program does not understand the format of the cluster.
func (id Identity) checkFormat() error {
	switch f := id.format(); {
	case f > Supported.Newest:
		return fmt.Errorf("%w: it is %d since `lazuli cluster upgrade --finish`, and this program supports formats up "+
			"to %d: use the newer release", ErrFormat, f, Supported.Newest)
	// A node that joins does not know the format yet.
	case f < Supported.Oldest && (id.State != Joining || id.Format != 0):
		return fmt.Errorf("%w: it is %d, and this program needs %d or newer: start the release before again on all nodes, "+
			"and run `lazuli cluster upgrade --finish`", ErrFormat, f, Supported.Oldest)
	}
	return nil
}

// Format returns the format of the cluster's data, which this node writes.
func (s *Site) Format() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.format()
}

// Raise makes a format that of the cluster's data, durably. The caller has made sure that every node understands it. A
// format that the cluster has already, or an older one, changes nothing. Errors: [ErrFormat] if this program does not
// understand it.
func (s *Site) Raise(format int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raise(format)
}

// raise is Raise; the caller holds the lock.
func (s *Site) raise(format int) error {
	id := s.identity
	if format <= id.format() {
		return nil
	}
	id.Format = format
	if err := id.checkFormat(); err != nil {
		return err
	}
	before := s.identity.format()
	if err := s.store(id); err != nil {
		return err
	}
	s.log.Info("the cluster's data has a newer format; releases that do not know it are refused from now on", "node",
		id.Node, "before", before, "format", format)
	return nil
}
