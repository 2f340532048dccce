package endpoint

import (
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/tree"
)

// Touch checks the touches of the operation that the request makes. source resolves and authenticates the path that a
// header names, once.
func (c *Call) Touch(touches []frontend.Touch, source func(t *frontend.Touch) (Source, error)) error {
	c.touched.declared = touches
	for i := range touches {
		t := &touches[i]
		if !t.Applies(c.Request) {
			continue
		}
		// Where it depends on what exists, a refusal is only noted, as a grant of nothing: the transaction of the handler
		// refuses if it finds something.
		g, err := c.touch(t, source)
		if err != nil && !t.IfExists {
			return err
		}
		if c.touched.grants == nil {
			c.touched.grants = map[deedOn]tree.Grant{}
		}
		c.touched.grants[deedOn{t.Does, t.Source}] = g
	}
	return nil
}

// touch returns what the caller may do of t.
func (c *Call) touch(t *frontend.Touch, source func(t *frontend.Touch) (Source, error)) (tree.Grant, error) {
	if t.Source == "" {
		return c.grant(t)
	}
	src, known := c.touched.sources[t.Source]
	if !known {
		var err error
		if src, err = source(t); err != nil {
			return tree.Grant{}, err
		}
		if c.touched.sources == nil {
			c.touched.sources = map[string]Source{}
		}
		c.touched.sources[t.Source] = src
	}
	switch {
	case src.Call == nil: // another service checks its callers itself
		return tree.Grant{}, nil
	case !known: // source has checked this permission
		return tree.Grant{Held: true, By: src.Caller()}, nil
	}
	g, err := src.grant(t)
	if err != nil && src.Refused != nil {
		err = src.Refused(err)
	}
	return g, err
}

// grant is what the caller may do to the path of c. A caller to whom no role permits it may have it by the lists.
func (c *Call) grant(t *frontend.Touch) (tree.Grant, error) {
	if t.Does == frontend.Spans && !c.Identity.Covers(c.Container, c.Blob+"/.") {
		return tree.Grant{}, wire.ErrAuthorizationPermissionMismatch
	}
	err := c.Identity.Holds(t.Need)
	if err == nil {
		return tree.Grant{Held: true, By: c.Caller()}, nil
	}
	// A copy is asked, since LeftToLists marks the call as one of the lists, and this answer is for one deed alone.
	by := *c
	if !by.LeftToLists(by.Identity, t.Need) {
		return tree.Grant{}, err
	}
	return tree.Grant{Held: true, By: by.Caller()}, nil
}

// Granted is what the caller may do of a deed that the row of the operation declares, on the path that a header names.
// Nothing is granted of a deed that the row does not declare, or that the request does not ask for.
func (c *Call) Granted(d frontend.Deed, header string) tree.Grant {
	return c.touched.grants[deedOn{d, header}]
}

// Source returns the path that a header names, which the row of the operation declares.
func (c *Call) Source(header string) (src Source, sent bool) {
	src, sent = c.touched.sources[header]
	return src, sent
}

// OfCaller is the path of another blob in the account, for the caller of c: its token must be for that path as well.
func (c *Call) OfCaller(container, blob string, need auth.Need) (*Call, error) {
	if !c.Identity.Covers(container, blob) {
		return nil, wire.ErrAuthorizationPermissionMismatch
	}
	at := *c
	// What was found out about the path of the URL does not hold for another one.
	at.Container, at.Blob, at.ByLists, at.touched = container, blob, false, touched{}
	id := c.Identity.At(container)
	if err := id.Check(wire.Blob, need); err != nil && !at.LeftToLists(id, need) {
		return nil, err
	}
	return &at, at.AdmitCaller(id, need)
}

// rights are the permissions for the path of the URL that the transaction of the request checks. overwrite reports
// whether the caller may overwrite the path, for an operation that does not declare that it does.
func (t *touched) rights(overwrite bool) state.Rights {
	of := func(d frontend.Deed) tree.Grant { return t.grants[deedOn{d, ""}] }
	r := state.Rights{Overwrite: overwrite, Below: of(frontend.Spans).Held, Alter: of(frontend.Alters),
		Chown: of(frontend.Chowns)}
	for i := range t.declared {
		if t.declared[i].Does == frontend.Overwrites {
			r.Overwrite = of(frontend.Overwrites).Held
		}
	}
	return r
}

// What operations do beyond their needs.
var (
	// Options that create a path with an owner, or change that of what exists.
	chowning = []string{"X-Ms-Owner", "X-Ms-Group"}
	// Options that set permissions.
	altering      = []string{"X-Ms-Permissions", "X-Ms-Umask"}
	permissionsOf = auth.Need{On: auth.OnObject, All: "p"}
)

// The touches of the operations on paths.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
var (
	// ReadsSource is of what copies a blob, or its tags, or writes its content.
	ReadsSource = []frontend.Touch{
		{Does: frontend.Reads, Source: CopySourceHeader, Need: ReadBlob},
		{Does: frontend.Reads, Source: CopySourceHeader, Need: OfTags,
			Options: []string{"X-Ms-Source-If-Tags", "X-Ms-Copy-Source-Tag-Option=COPY"}},
	}
	TakesContainer = frontend.Touch{Does: frontend.Takes, Source: SourceContainerHeader, Need: OnContainerByAccount("w")}
	// RestoresContainer is of the name that a deleted container had.
	RestoresContainer = frontend.Touch{Does: frontend.Restores, Source: DeletedContainerHeader,
		Need: OnContainerByAccount("w")}
	ChangesOwner = frontend.Touch{Does: frontend.Chowns, Options: chowning, Need: auth.Need{On: auth.OnObject, All: "o"}}
	ChangesList  = frontend.Touch{Does: frontend.Alters, Options: []string{"X-Ms-Acl", "X-Ms-Permissions"},
		Need: permissionsOf}
	// ReplacesList is ChangesList of an operation that creates what does not exist.
	ReplacesList = frontend.Touch{Does: frontend.Alters, Options: append([]string{"X-Ms-Acl"}, altering...),
		Need: permissionsOf, IfExists: true}
	// ChangesListsBelow are what a recursive change of lists does.
	ChangesListsBelow = []frontend.Touch{
		{Does: frontend.Alters, Options: []string{"X-Ms-Acl"}, Need: permissionsOf},
		{Does: frontend.Spans, Need: permissionsOf, IfExists: true},
	}
	OverwritesIt = frontend.Touch{Does: frontend.Overwrites, Need: OfWrites, IfExists: true}
	DeletesBelow = frontend.Touch{Does: frontend.Spans, Need: auth.Need{On: auth.OnObject, All: "d"}, IfExists: true}
	// RestoresFrom is the place from which a deleted path is restored to the path of the URL.
	RestoresFrom = frontend.Touch{Does: frontend.Restores, Source: UndeleteHeader, Need: OfWrites}
)

// RenameTouches are what a rename does to its source, and to what is at its destination. Permissions and properties
// that a rename sets are those of the source. Only in a flat account does it span what is below: there it moves each
// blob.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
var RenameTouches = []frontend.Touch{
	{Does: frontend.Takes, Source: RenameHeader, Need: auth.Need{On: auth.OnObject, Any: "md"}},
	{Does: frontend.Alters, Source: RenameHeader, Options: altering, Need: permissionsOf},
	{Does: frontend.Changes, Source: RenameHeader, Options: []string{"X-Ms-Properties"}, Need: OfWrites},
	{Does: frontend.Spans, Source: RenameHeader, Need: auth.Need{On: auth.OnObject, Any: "md"}, IfExists: true},
	{Does: frontend.Spans, Need: auth.Need{On: auth.OnObject, Any: "cwm"}, IfExists: true},
	{Does: frontend.Overwrites, Need: auth.Need{On: auth.OnObject, Any: "wd"}, IfExists: true},
}

// The headers that name a second path.
const (
	CopySourceHeader       = "X-Ms-Copy-Source"
	RenameHeader           = "X-Ms-Rename-Source"
	UndeleteHeader         = "X-Ms-Undelete-Source"
	SourceContainerHeader  = "X-Ms-Source-Container-Name"
	DeletedContainerHeader = "X-Ms-Deleted-Container-Name"
)
