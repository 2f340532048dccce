package endpoint

import (
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
)

// Storage holds what the requests to both endpoints read and change.
type Storage struct {
	State      *state.Store
	Accounts   *auth.Accounts
	Properties *properties.Registry
	Scopes     *encryption.Scopes
	// Wake begins a round of background work, after a change that leaves much to remove.
	Wake func()
}

// Hierarchical reports whether the account has a hierarchical namespace.
func (s *Storage) Hierarchical(account string) bool { return s.Accounts.Blob(account).Hierarchical }

// Policy returns the settings of an account that writes depend on.
func (s *Storage) Policy(account string) state.Policy {
	set, retention := s.Accounts.Blob(account), s.Properties.Of(account).DeleteRetention
	p := state.Policy{Versioning: set.Versioning, ChangeFeed: set.ChangeFeed, AccessTimes: set.AccessTimes,
		Immutability:  set.Immutability,
		ContainerDays: int64(set.ContainerDays), Hierarchical: set.Hierarchical,
		PermanentDelete: retention.AllowPermanentDelete}
	if retention.Enabled {
		p.RetentionDays = int64(retention.Days)
	}
	return p
}

// Before sets CORS headers, and the version of a request that has none: the version of its batch, or the default.
func (s *Storage) Before(r *wire.Request) {
	batched(r)
	p := s.Properties.Of(r.Account)
	s.Properties.SetCORS(r)
	if r.Version == 0 && p.DefaultVersion != "" {
		r.Version, _ = wire.ParseVersion(p.DefaultVersion)
	}
}

// batched gives a request of a batch the version of the batch.
func batched(r *wire.Request) {
	if outer, ok := r.HTTP.Context().Value(BatchVersion{}).(*wire.Request); ok && r.VersionHeader == "" {
		r.Version, r.VersionHeader = outer.Version, outer.VersionHeader
		r.Set("x-ms-version", r.VersionHeader)
	}
}

// BatchVersion is the key under which the context of a batch's request has the version of the batch: the requests
// themselves name none.
type BatchVersion struct{}
