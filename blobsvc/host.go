package blobsvc

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/lakesvc"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// LakeOperations returns the names of the operations that [Service.LakeHandler] serves, as in the REST reference:
// "PathCreate". A name is there once for each of its methods.
func LakeOperations() []string { return lakesvc.OperationNames() }

// LakeHandler serves the dfs endpoint.
func (s *Service) LakeHandler() http.Handler { return s.byHost(true) }

// byHost serves the protocol that the request's host name or, without one, its parameters ask for. The SDKs for dfs
// send some requests to the address of the Blob endpoint, which they get by replacing "dfs" in the host's name: with an
// address that has no such name they go to the same port as the rest.
func (s *Service) byHost(lake bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lake := lake
		switch wire.HostService(r.Host) {
		case wire.DataLake:
			lake = true
		case wire.Blob:
			lake = false
		default:
			if q := r.URL.RawQuery; lake {
				lake = !hasParam(q, "comp") && !hasParam(q, "restype") && len(r.Header["X-Ms-Blob-Type"]) == 0 &&
					len(r.Header["X-Ms-Copy-Source"]) == 0
			} else {
				lake = hasParam(q, "resource") || hasParam(q, "action") || hasParam(q, "recursive") ||
					len(r.Header["X-Ms-Rename-Source"]) > 0
			}
		}
		if lake {
			s.lake.ServeHTTP(w, r)
		} else {
			s.front.ServeHTTP(w, r)
		}
	})
}

// hasParam reports whether a raw query has a parameter.
func hasParam(raw, name string) bool {
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if p, _, _ := strings.Cut(part, "="); strings.EqualFold(p, name) {
			return true
		}
	}
	return false
}

// Handler serves the Blob protocol, and static websites at their host names.
func (s *Service) Handler() http.Handler {
	byHost := s.byHost(false)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if account := s.website.Account(r.Host); account != "" {
			s.website.Serve(w, r, account)
			return
		}
		byHost.ServeHTTP(w, r)
	})
}
