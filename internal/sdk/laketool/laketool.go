// Package laketool reads and changes what only accounts with a hierarchical namespace have, through the Azure SDK:
// access control, renames, the tree of a filesystem.
package laketool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"
)

// Entry is a file or directory of a tree.
type Entry struct {
	Path        string    `json:"path"`
	Directory   bool      `json:"directory,omitempty"`
	Size        int64     `json:"size"`
	Owner       string    `json:"owner"`
	Group       string    `json:"group"`
	Permissions string    `json:"permissions"`
	Modified    time.Time `json:"modified,omitzero"`
}

// Access is the access control of a file or directory.
type Access struct {
	Owner       string `json:"owner"`
	Group       string `json:"group"`
	Permissions string `json:"permissions"`
	ACL         string `json:"acl"`
}

// path is the client of a path. The requests about files and directories are the same; "" is the root directory.
func path(c *service.Client, fs, name string) *directory.Client {
	if name == "" {
		name = "/"
	}
	return c.NewFileSystemClient(fs).NewDirectoryClient(name)
}

// Move renames a file or directory within a filesystem.
func Move(ctx context.Context, c *service.Client, fs, from, to string) error {
	_, err := path(c, fs, from).Rename(ctx, to, nil)
	return err
}

// GetAccess returns the access control of a path.
func GetAccess(ctx context.Context, c *service.Client, fs, name string) (Access, error) {
	r, err := path(c, fs, name).GetAccessControl(ctx, nil)
	return Access{value(r.Owner), value(r.Group), value(r.Permissions), value(r.ACL)}, err
}

// SetAccess changes what is not "" of the access control of a path. Permissions and a list exclude each other.
func SetAccess(ctx context.Context, c *service.Client, fs, name string, a Access) error {
	_, err := path(c, fs, name).SetAccessControl(ctx, &directory.SetAccessControlOptions{Owner: optional(a.Owner),
		Group: optional(a.Group), Permissions: optional(a.Permissions), ACL: optional(a.ACL)})
	return err
}

// ErrFailures means that some paths of a recursive change could not be changed.
var ErrFailures = errors.New("some paths could not be changed")

// Change is how a recursive change applies its entries: it replaces the lists, changes entries, or removes them.
type Change string

const (
	Replace Change = "set"
	Modify  Change = "modify"
	Remove  Change = "remove"
)

// ChangeBelow changes the lists of a path and of everything below it. It goes on after failures, and then fails with
// [ErrFailures].
func ChangeBelow(ctx context.Context, c *service.Client, fs, name string, how Change, entries string) (files,
	directories int, err error) {
	d := path(c, fs, name)
	var r directory.SetAccessControlRecursiveResponse
	switch how {
	case Replace:
		r, err = d.SetAccessControlRecursive(ctx, entries, nil)
	case Modify:
		r, err = d.UpdateAccessControlRecursive(ctx, entries, nil)
	case Remove:
		r, err = d.RemoveAccessControlRecursive(ctx, entries, nil)
	}
	files, directories = int(value(r.FilesSuccessful)), int(value(r.DirectoriesSuccessful))
	if err == nil && value(r.FailureCount) > 0 {
		var names []string
		for _, f := range r.FailedEntries {
			names = append(names, value(f.Name))
		}
		err = fmt.Errorf("%w: %s", ErrFailures, strings.Join(names, ", "))
	}
	return files, directories, err
}

// Tree calls each with everything below a directory, each directory before what is in it.
func Tree(ctx context.Context, c *service.Client, fs, dir string, each func(Entry) error) error {
	pages := c.NewFileSystemClient(fs).NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: optional(dir)})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, p := range page.Paths {
			if err := each(EntryOf(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// EntryOf returns an element of a listing of the SDK.
func EntryOf(p *filesystem.Path) Entry {
	e := Entry{Path: value(p.Name), Directory: value(p.IsDirectory), Size: value(p.ContentLength),
		Owner: value(p.Owner), Group: value(p.Group), Permissions: value(p.Permissions)}
	if t, err := time.Parse(time.RFC1123, value(p.LastModified)); err == nil {
		e.Modified = t
	}
	return e
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
