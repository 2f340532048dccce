package hub

import (
	"context"
	"errors"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// remakePause is the time for which a hub that was made again is not made once more.
const remakePause = time.Second

// isHubMissing reports whether a request failed because a part of the hub does not exist.
func isHubMissing(err error) bool {
	_, code := record.HTTPStatus(err)
	return code == "QueueNotFound" || code == "ContainerNotFound" || record.IsTableMissing(err)
}

// remake makes an open hub again whose storage was deleted while this process used it, as the reset of a server does,
// and reports whether the failed request can be tried again. Nothing that the hub contained comes back.
func (b *Backend) remake(ctx context.Context, failed error) bool {
	if !isHubMissing(failed) || !b.opened.Load() {
		return false
	}
	b.remaking.mu.Lock()
	defer b.remaking.mu.Unlock()
	if time.Since(b.remaking.last) < remakePause {
		return true
	}
	b.log.Warn("the hub is gone; making it again", "err", sdkerr.Short(failed))
	b.cache.Clear()
	if err := b.CreateTaskHub(ctx); err != nil && !errors.Is(err, backend.ErrTaskHubExists) {
		b.log.Error("cannot make the hub", "err", sdkerr.Short(err))
		return false
	}
	if b.apps != nil {
		err := b.apps.write(ctx)
		if b.apps.isOneOf() {
			err = errors.Join(err, b.apps.makeQueue(ctx))
		}
		if err != nil {
			b.log.Error("cannot make the hub", "err", sdkerr.Short(err))
			return false
		}
	}
	b.leases.BalanceEarly()
	b.remaking.last = time.Now()
	return true
}
