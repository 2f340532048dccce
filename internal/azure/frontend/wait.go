package frontend

import (
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
	if done, err := poll(); done || err != nil || !wanted {
		return err
	}
	var err error
	began := time.Now()
	c.Limit.Outside(func() { _, err = c.Board.Wait(r.HTTP.Context(), key, limit, after, poll) })
	r.Waited += time.Since(began)
	return err
}
