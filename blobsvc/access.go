package blobsvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// hierarchical reports whether the account has a hierarchical namespace.
func (s *Service) hierarchical(account string) bool { return s.accounts.Blob(account).Hierarchical }

// isTree reports whether the container of the request is a tree: those that the system writes are not.
func (s *Service) isTree(c *call) bool {
	return s.hierarchical(c.Account) && !state.IsSystem(c.container)
}

// byLists reports whether access control lists may permit an operation to a caller to whom no role does.
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control-model
func (s *Service) byLists(c *call, id auth.Identity, need auth.Need) bool {
	if !s.hierarchical(c.Account) || id.Principal() == nil || need.Bearer != auth.ByLetters {
		return false
	}
	switch {
	case need.On == auth.OnContainer && need.Any == "l":
	case need.On != auth.OnObject || !ofLists(need):
		return false
	}
	if id.Mechanism == auth.SAS && (id.Unauthorized() == "" || !id.TokenHolds(need)) {
		return false
	}
	c.byLists = true
	return true
}

// ofLists reports whether access control lists decide about what has these letters: others are of features that trees
// do not have.
func ofLists(need auth.Need) bool {
	const letters = "rwcadlmeop"
	return strings.Trim(need.All, letters) == "" && (need.Any != "" || need.All != "") &&
		(need.Any == "" || strings.ContainsAny(need.Any, letters))
}

// holds is identity.Holds, or leaves the decision to access control lists.
func (c *call) holds(need auth.Need) error {
	if c.byLists && ofLists(need) {
		return nil
	}
	return c.identity.Holds(need)
}

// caller is on whose behalf a tree is read or changed: nil, the superuser, for account keys and the signatures made
// with them.
func (c *call) caller() *posix.Caller {
	p := c.identity.Principal()
	if p == nil {
		return nil
	}
	caller := &posix.Caller{ID: p.ObjectID, Groups: p.Groups(), Checked: c.byLists}
	if c.identity.Mechanism != auth.SAS {
		return caller
	}
	if id := c.identity.Authorized(); id != "" {
		return &posix.Caller{ID: id}
	}
	if id := c.identity.Unauthorized(); id != "" {
		return &posix.Caller{ID: id, Checked: true}
	}
	return caller
}

// holdsTags checks the permission for tags, which what sets or tests them by a header, or lists them, needs beside its
// own.
func (c *call) holdsTags() error {
	return c.identity.Holds(ofTags)
}

var ofTags = auth.Need{On: auth.OnObject, All: "t"}

// policy returns the settings of an account that writes depend on.
func (s *Service) policy(account string) state.Policy {
	set, retention := s.accounts.Blob(account), s.properties.Of(account).DeleteRetention
	p := state.Policy{Versioning: set.Versioning, ChangeFeed: set.ChangeFeed, AccessTimes: set.AccessTimes,
		Immutability:  set.Immutability,
		ContainerDays: int64(set.ContainerDays), Hierarchical: set.Hierarchical,
		PermanentDelete: retention.AllowPermanentDelete}
	if retention.Enabled {
		p.RetentionDays = int64(retention.Days)
	}
	return p
}

// ofWrites is the permission to overwrite a blob. Create permission does not allow it.
var ofWrites = auth.Need{On: auth.OnObject, Any: "w"}
