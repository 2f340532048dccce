package natsserver

import (
	"slices"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server"
)

// SetTags changes the tags of the embedded server, by which JetStream places streams. The other servers learn of it at
// once. It does nothing while the server does not run: the next start asks for the tags.
//
// It does what the library's ReloadOptions does for tags. ReloadOptions also configures the accounts again, since it
// cannot compare them, and messages to other nodes are lost meanwhile: requests that were passed on had no answer, and
// content was sent again after five seconds.
func (s *Server) SetTags(tags []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded == nil || slices.Equal(s.options.Tags, tags) {
		return
	}
	options := *s.options // the server does not change what it has
	options.Tags = tags
	setOptions(s.embedded, &options)
	resetInternalLoop(s.embedded) // which sends the tags with what it says about the server
	sendStats(s.embedded)
	s.options = &options
}

// TestTagsOfARunningServer fails when the library renames or removes one of these.

//go:linkname setOptions github.com/nats-io/nats-server/v2/server.(*Server).setOpts
func setOptions(*server.Server, *server.Options)

//go:linkname resetInternalLoop github.com/nats-io/nats-server/v2/server.(*Server).resetInternalLoopInfo
func resetInternalLoop(*server.Server)

//go:linkname sendStats github.com/nats-io/nats-server/v2/server.(*Server).sendStatszUpdate
func sendStats(*server.Server)
