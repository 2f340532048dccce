package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A converted cluster begins with the data of a single server, in the folder of one node, the seed. No node opens its
// services before the data is in the logs and streams. One stream says how far that is:
//
//	no stream ──> begun ──> done
//	               │  ^
//	               └──┘ the seed was restarted: it deletes what it has written, and writes it again
//
// The seed keeps its files unchanged until then. Afterwards it deletes what the logs have, and opens its services as a
// node with an empty folder does. Only the extents stay, under the number that they have
// (internal/state/blob/replica/seed.go).

// The moments at which tests kill the node with the data.
var (
	pointBegun   = fault.Declare("conversion/begun")
	pointTables  = fault.Declare("conversion/tables")
	pointBlobs   = fault.Declare("conversion/blobs")
	pointQueues  = fault.Declare("conversion/queues")
	pointDone    = fault.Declare("conversion/done")
	pointRemoved = fault.Declare("conversion/removed")
)

const (
	conversionStream  = "LAZULI_CONVERSION"
	conversionSubject = "lazuli.conversion"

	conversionBegun = "begun"
	conversionDone  = "done"

	// conversionPoll is the interval of asking whether the data is in the logs, and conversionTimeout bounds a question.
	conversionPoll    = time.Second
	conversionTimeout = 5 * time.Second
)

// errSeed is an error that another attempt does not remove.
type errSeed struct{ error }

// Unwrap returns the cause.
func (e errSeed) Unwrap() error { return e.error }

// awaitConversion returns when the logs have the data with which a converted cluster begins. Of other clusters, it
// returns at once.
func (s *Server) awaitConversion(ctx context.Context, nats *natsserver.Server, node *cluster.Node) error {
	if !node.Converted() {
		return nil
	}
	js, err := jetstream.New(nats.Conn(), jetstream.WithDefaultTimeout(conversionTimeout))
	if err != nil {
		return err
	}
	c := conversion{server: s, nats: nats, node: node, js: js}
	// The conversion is asked about once a second. A reason is logged when it changes, and is given to Waiting each
	// time.
	for said := ""; ; {
		done, err := c.step(ctx)
		switch {
		case done:
			return nil
		// The folder is what is wrong, and is the same at the next attempt.
		case errors.As(err, new(errSeed)):
			return err
		}
		reason := "waiting until the node that was converted has put its data into the cluster"
		switch {
		case err != nil && node.HasSeed():
			reason = "the data of this folder cannot be put into the cluster; trying again: " + err.Error()
		case err != nil:
			reason = "it is not known whether the cluster has its data; trying again: " + err.Error()
		}
		if s.config.Waiting != nil {
			s.config.Waiting(reason)
		}
		if reason != said {
			s.config.Log.Info("the cluster does not serve yet", "reason", reason)
			said = reason
		}
		select {
		case <-time.After(conversionPoll):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", reason, context.Cause(ctx))
		}
	}
}

// conversion is the part of one node in the beginning of a converted cluster.
type conversion struct {
	server *Server
	nats   *natsserver.Server
	node   *cluster.Node
	js     jetstream.JetStream
}

// step asks how far the conversion is, and makes it if this node has the data.
func (c *conversion) step(ctx context.Context) (done bool, err error) {
	state, seq, err := c.state(ctx)
	if err != nil || !c.node.HasSeed() {
		return state == conversionDone, err
	}
	// The state may be out of date, so nothing is written before begin has stored a message after the one that was read.
	if state != conversionDone {
		if seq, err = c.begin(ctx, state, seq); err != nil {
			return false, err
		}
		if err := errors.Join(fault.Point(pointBegun), c.seed(ctx)); err != nil {
			return false, err
		}
		// This fails if another message was stored after that of begin: then another attempt has deleted what this one
		// wrote.
		if _, err := c.note(ctx, conversionDone, seq); err != nil {
			return false, err
		}
		if err := fault.Point(pointDone); err != nil {
			return false, err
		}
		c.server.config.Log.Info("the cluster has the data of this folder", "node", c.node.Name())
	}
	// This is also reached after a restart, when done is stored and some of the files are still there. A node with a
	// seed must not open its services before they are gone.
	if err := c.leave(); err != nil {
		return false, errSeed{fmt.Errorf("removing what the cluster has from %s: %w", c.server.dir.Path(), err)}
	}
	return true, nil
}

// state returns how far the conversion is, "" if it has not begun, and the sequence of the message that says so. Both
// may be out of date: a server that was cut off answers as the leader.
func (c *conversion) state(ctx context.Context) (state string, seq uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, conversionTimeout)
	defer cancel()
	stream, err := c.js.Stream(ctx, conversionStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, conversionSubject)
	// The stream was created, and the process ended before the first message. begin goes on after the sequence 0.
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return conversionBegun, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	return string(m.Data), m.Sequence, nil
}

// begin notes that this node writes the data, and deletes what an earlier attempt has written. It deletes nothing if
// state, of the message with the sequence seq, is out of date: clients may have changed what is there. It returns the
// sequence of its own message.
func (c *conversion) begin(ctx context.Context, state string, seq uint64) (uint64, error) {
	if state == "" {
		names, err := c.nats.StreamNames(ctx)
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(names, func(name string) bool { return name != conversionStream }); i >= 0 {
			return 0, errSeed{fmt.Errorf("the cluster has data already (stream %s), so that the data of %s cannot be its "+
				"beginning: a node was started with another release or folder",
				names[i], c.server.dir.Path())}
		}
		if _, err := c.js.CreateStream(ctx,
			jetstream.StreamConfig{Name: conversionStream, Description: "Lazuli: how far the conversion of a single server is",
				Subjects: []string{conversionSubject}, Replicas: c.nats.Replicas(), DenyDelete: true,
				DenyPurge: true}); err != nil {
			return 0, err
		}
	}
	// The message comes before the deletion: it fails if the state was out of date, and then nothing may be deleted.
	seq, err := c.note(ctx, conversionBegun, seq)
	if err != nil {
		return 0, err
	}
	return seq, c.nats.DeleteStreams(ctx, func(name string) bool { return name == conversionStream })
}

// note stores how far the conversion is, if nothing was stored since the message with the sequence after. It returns
// the sequence of the new message.
func (c *conversion) note(ctx context.Context, state string, after uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, conversionTimeout)
	defer cancel()
	ack, err := c.js.Publish(ctx, conversionSubject, []byte(state), jetstream.WithExpectLastSequence(after))
	if err != nil {
		return 0, fmt.Errorf("storing that the conversion is %s: %w", state, err)
	}
	return ack.Sequence, nil
}

// seed writes the data of the folder to the logs and streams of the cluster.
func (c *conversion) seed(ctx context.Context) error {
	s := c.server
	lost := false
	for _, path := range []string{s.dir.Tables(), s.dir.Blobs(), s.dir.QueueState()} { // they would be created
		if _, err := os.Stat(path); err != nil {
			return errSeed{err}
		}
	}
	tables, err := tablestate.OpenFile(s.dir.Tables(), store.Options{})
	if err != nil {
		return errSeed{err}
	}
	err = tables.Seed(ctx, s.logConfig(c.nats, "tables"))
	if err := errors.Join(permanent(err), tables.Close(), fault.Point(pointTables)); err != nil {
		return err
	}
	err = permanent(replica.Seed(ctx, s.dir.Blobs(), s.dir.EncryptionScopes(), c.node.Folder(),
		s.logConfig(c.nats, "blobs")))
	if err := errors.Join(err, fault.Point(pointBlobs)); err != nil {
		return err
	}
	queues, err := queuestate.OpenFolder(s.dir.QueueState(), s.dir.Queues(),
		func(d jetstreamfiles.Damage) { lost = lost || !d.Torn })
	if err != nil {
		return errSeed{err}
	}
	// A torn end is left by a crash, and has no record that was acknowledged. Other damage may have lost records.
	if lost {
		return errors.Join(errSeed{errors.New(
			"the log of the queues is damaged: run `lazuli fsck --repair` before the conversion")}, queues.Close())
	}
	err = queues.Seed(ctx, s.logConfig(c.nats, queuestate.LogName))
	return errors.Join(permanent(err), queues.Close(), fault.Point(pointQueues))
}

// permanent marks errors of the folder, as opposed to those of the cluster.
func permanent(err error) error {
	switch {
	case err == nil, errors.Is(err, replog.ErrUnavailable), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrFormat), errors.Is(err, store.ErrLocked),
		errors.Is(err, store.ErrReplicated), errors.Is(err, replog.ErrExists):
		return errSeed{err}
	}
	return err
}

// leave removes from the folder what the logs and streams have.
func (c *conversion) leave() error {
	dir := c.server.dir
	// The list of the folder's files goes first: a folder without a file that its list has would be a damaged one.
	if err := dir.Forget(datadir.Content...); err != nil {
		return err
	}
	for _, path := range []string{dir.Tables(), dir.Blobs(), dir.EncryptionScopes(), dir.QueueState(),
		dir.QueueState() + "-mark", store.Witness(dir.QueueState()), filepath.Join(dir.Path(), store.MarksFile),
		dir.Queues()} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	// The removal must be durable before Seeded is: after a crash between the two, leave runs again. In the other order,
	// a node without a seed could find the old files, which are no view of the logs.
	if err := errors.Join(disk.SyncDir(dir.Path()), fault.Point(pointRemoved)); err != nil {
		return err
	}
	return c.node.Seeded()
}
