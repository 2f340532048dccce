package mirror

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Everything in this package that waits, takes the time or starts a goroutine does so by the functions of this file,
// which ask package schedule. So a simulation can decide what happens next, and give the nodes a network and extents of
// its own.

// network carries messages between nodes: connections of NATS, or the model of a simulation.
type network interface {
	publish(m *nats.Msg) error
	request(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
	respond(m *nats.Msg, data []byte) error
}

// extents are the methods of extent.Store that a Mirror calls while it runs.
type extents interface {
	Stats() []extent.Stat
	Record(x extent.Slice) (offset int64, record []byte, err error)
	Records(id uint64, offset int64, limit int) (at int64, data []byte, err error)
	PutRecords(id uint64, at int64, data []byte) error
	SyncPuts(id uint64) error
	SyncAllPuts() error
	Missing(id uint64, from, size int64) (at, n int64, err error)
	Lacking(id uint64, size int64) int64
	Void(id uint64, at, n int64)
	Complete(id uint64, size int64) (bool, error)
	Release(id uint64) bool
	Reconsider()
}

var _ extents = (*extent.Store)(nil)

// connections implements network.
type connections struct{ puts, asks *nats.Conn }

func (c connections) publish(m *nats.Msg) error { return c.puts.PublishMsg(m) }

func (c connections) request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	return c.asks.RequestWithContext(ctx, subject, data)
}

func (c connections) respond(m *nats.Msg, data []byte) error { return m.Respond(data) }

func (m *Mirror) now() time.Time { return schedule.Now(m.config.schedule) }

func (m *Mirror) random() uint64 { return schedule.Random(m.config.schedule) }

// await returns true once a message comes, and false once the Mirror is closed or d is over.
func (m *Mirror) await(d time.Duration, in <-chan struct{}) bool {
	if s := m.config.schedule; s != nil {
		came := false
		s.Park(d, func() bool {
			select {
			case <-in:
				came = true
			default:
			}
			return came || m.life.Err() != nil
		})
		return came
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-in:
		return true
	case <-timer.C:
	case <-m.life.Done():
	}
	return false
}

// sleep waits. It returns false if the Mirror was closed.
func (m *Mirror) sleep(d time.Duration) bool { return schedule.Sleep(m.life, m.config.schedule, d) }

// spawn runs f until it returns. Close waits for it.
func (m *Mirror) spawn(f func()) {
	m.done.Add(1)
	schedule.Go(m.config.schedule, func() {
		defer m.done.Done()
		f()
	})
}
