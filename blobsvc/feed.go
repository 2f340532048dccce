package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

// maxChanged is the maximum number of blobs in a listing of changes.
const maxChanged = 1000

// changedBlobs is the extension of List Blobs by which a client hears of changes at once: it names the position up to
// which it has seen them, and gets only what was created or written since, after waiting for it if it likes. only is
// false if the whole container is to be listed: the request does not ask for changes, its position is no longer known,
// or it is for the second page. See [longpoll.AfterHeader].
func (s *Service) changedBlobs(c *call, l *state.Listing) (names []string, only bool, err error) {
	if s.feed == nil || !c.HasHeader(longpoll.AfterHeader) || len(l.From) > 0 {
		return nil, false, nil
	}
	wanted := func(name string) bool {
		return strings.HasPrefix(name, l.Prefix) && (l.EndBefore == "" || name < l.EndBefore)
	}
	if err := s.state.Watch(c.Account, c.container); err != nil {
		return nil, false, err
	}
	key := longpoll.Key(c.Account, c.container)
	var at string
	err = s.common.Wait(c.Request, key, nil, func() (bool, error) {
		names, at, only = s.feed.After(c.Header(longpoll.AfterHeader), key, min(l.Max, maxChanged), wanted)
		return len(names) > 0 || !only, nil
	})
	c.Set(longpoll.PositionHeader, at)
	c.Set(longpoll.FeedHeader, longpoll.FeedEverything)
	if only {
		c.Set(longpoll.FeedHeader, longpoll.FeedChanges)
	}
	return names, only, err
}

// writeChanged lists the named blobs that exist.
func (s *Service) writeChanged(c *call, names []string, write func(state.Item) error) error {
	return s.state.EachNamed(c.Account, c.container, names, c.Now, func(name string, b *state.Blob) error {
		return write(state.Item{Name: name, Blob: b})
	})
}
