package natsserver

import (
	"net/url"
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

// SetRoutes changes the addresses of other servers to which the embedded server connects. It does nothing while the
// server does not run: the next start asks for them.
func (s *Server) SetRoutes(routes []*url.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded != nil {
		s.options = SetRoutes(s.embedded, s.options, routes)
	}
}

// SetRoutes changes the addresses of other servers to which a server with options connects, as ReloadOptions does, and
// returns its next options. Of an address that it has already the credentials stay.
func SetRoutes(e *server.Server, options *server.Options, routes []*url.URL) *server.Options {
	next := *options // the server does not change what it has
	next.Routes = slices.Clone(routes)
	var change routesChange
	for i, r := range routes {
		at := slices.IndexFunc(options.Routes, func(have *url.URL) bool { return have.Host == r.Host })
		if at < 0 {
			change.add = append(change.add, r)
			continue
		}
		next.Routes[i] = options.Routes[at]
	}
	for _, have := range options.Routes {
		if !slices.ContainsFunc(routes, func(r *url.URL) bool { return r.Host == have.Host }) {
			change.remove = append(change.remove, have)
		}
	}
	if len(change.add)+len(change.remove) == 0 {
		return options
	}
	setOptions(e, &next)
	applyRoutes(&change, e)
	return &next
}

// routesChange has the memory of the library's routesOption.
type routesChange struct {
	_           struct{}
	add, remove []*url.URL
}

// TestRoutesOfARunningServer in package cluster fails when the library renames this.

//go:linkname applyRoutes github.com/nats-io/nats-server/v2/server.(*routesOption).Apply
func applyRoutes(*routesChange, *server.Server)

// TestTagsOfARunningServer fails when the library renames or removes one of these.

//go:linkname setOptions github.com/nats-io/nats-server/v2/server.(*Server).setOpts
func setOptions(*server.Server, *server.Options)

//go:linkname resetInternalLoop github.com/nats-io/nats-server/v2/server.(*Server).resetInternalLoopInfo
func resetInternalLoop(*server.Server)

//go:linkname sendStats github.com/nats-io/nats-server/v2/server.(*Server).sendStatszUpdate
func sendStats(*server.Server)
