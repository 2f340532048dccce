package frontend

import (
	"context"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Wait calls poll until it returns true or an error, for as long as the request wants to wait for a change of key (see
// [longpoll.WaitHeader]); once if the request does not want to wait, or if nothing can be waited for. A waiting request
// does not count against the limit on requests. after, if not nil, returns when to poll again without a change; see
// [longpoll.Board.Wait].
func (c *Common) Wait(r *wire.Request, key string, after func() time.Duration,
	poll func() (done bool, err error)) error {
	limit, wanted := longpoll.ParseWait(r.Header(longpoll.WaitHeader))
	wanted = wanted && c.Board != nil
	if wanted {
		r.Set(longpoll.WaitHeader, strconv.Itoa(int(limit/time.Second)))
	}
	ctx := r.HTTP.Context()
	if name := r.Header(longpoll.NameHeader); wanted && name != "" && len(name) <= longpoll.MaxName {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer c.Board.Name(waitName(key, name), end)() // before the first poll, so that no release is missed
	}
	if done, err := poll(); done || err != nil || !wanted {
		return err
	}
	r.Pause() // it computes nothing while it waits
	var err error
	began := time.Now()
	c.outside(r.Account, func() { _, err = c.Board.Wait(ctx, key, limit, after, poll) })
	r.Waited += time.Since(began)
	return err
}

// ReleaseWait ends the wait of another request for a change of key, if the request names one. See
// [longpoll.ReleaseHeader].
func (c *Common) ReleaseWait(r *wire.Request, key string) {
	if name := r.Header(longpoll.ReleaseHeader); name != "" && c.Board.ReleaseName(waitName(key, name)) {
		r.Set(longpoll.ReleaseHeader, name)
	}
}

func waitName(key, name string) string { return key + "\x00" + name }
