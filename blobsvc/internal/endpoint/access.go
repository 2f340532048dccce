package endpoint

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
)

// IsTree reports whether the container of the request is a tree: those that the system writes are not.
func (c *Call) IsTree() bool {
	return c.Hierarchical(c.Account) && !state.IsSystem(c.Container)
}

// LeftToLists reports whether access control lists may permit an operation to a caller to whom no role does.
// https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-access-control-model
func (c *Call) LeftToLists(id auth.Identity, need auth.Need) bool {
	if !c.Hierarchical(c.Account) || id.Principal() == nil || need.Bearer != auth.ByLetters {
		return false
	}
	switch {
	case need.On == auth.OnContainer && need.Any == "l":
	case need.On != auth.OnObject || !ofLists(need):
		return false
	}
	if id.Mechanism == auth.SAS { // whose letters and whose signer's roles bound it; lists may only take from that
		return false
	}
	c.ByLists = true
	return true
}

// ofLists reports whether access control lists decide about what has these letters: others are of features that trees
// do not have.
func ofLists(need auth.Need) bool {
	const letters = "rwcadlmeop"
	return strings.Trim(need.All, letters) == "" && (need.Any != "" || need.All != "") &&
		(need.Any == "" || strings.ContainsAny(need.Any, letters))
}

// Holds is identity.Holds, or leaves the decision to access control lists.
func (c *Call) Holds(need auth.Need) error {
	if c.ByLists && ofLists(need) {
		return nil
	}
	return c.Identity.Holds(need)
}

// Caller is on whose behalf a tree is read or changed: nil, the superuser, for account keys and the signatures made
// with them.
func (c *Call) Caller() *posix.Caller {
	p := c.Identity.Principal()
	if p == nil {
		return nil
	}
	caller := &posix.Caller{ID: p.ObjectID, Groups: p.Groups(), Checked: c.ByLists}
	if c.Identity.Mechanism != auth.SAS {
		return caller
	}
	owns := c.Identity.Holds(auth.Need{On: auth.OnObject, All: "o"}) == nil
	if id := c.Identity.Authorized(); id != "" {
		return &posix.Caller{ID: id, Agent: true, Owns: owns}
	}
	if id := c.Identity.Unauthorized(); id != "" {
		return &posix.Caller{ID: id, Checked: true, Agent: true, Owns: owns}
	}
	return caller
}

// OfTags is the permission for tags, which what sets or tests them by a header, or lists them, needs beside its own.
var OfTags = auth.Need{On: auth.OnObject, All: "t"}

// OfWrites is the permission to overwrite a blob. Create permission does not allow it.
var OfWrites = auth.Need{On: auth.OnObject, Any: "w"}
