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

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
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

// Move renames a file or directory within a filesystem, in one change. An account without a hierarchical namespace,
// which would rename a part of a large directory, is refused.
func Move(ctx context.Context, c *service.Client, fs, from, to string) error {
	if _, err := GetAccess(ctx, c, fs, from); err != nil {
		return err
	}
	_, err := path(c, fs, from).Rename(ctx, to, nil)
	return err
}

// GetAccess returns the access control of a path.
func GetAccess(ctx context.Context, c *service.Client, fs, name string) (Access, error) {
	r, err := path(c, fs, name).GetAccessControl(ctx, nil)
	return Access{ptr.Value(r.Owner), ptr.Value(r.Group), ptr.Value(r.Permissions), ptr.Value(r.ACL)}, err
}

// SetAccess changes what is not "" of the access control of a path. Permissions and a list exclude each other.
func SetAccess(ctx context.Context, c *service.Client, fs, name string, a Access) error {
	_, err := path(c, fs, name).SetAccessControl(ctx, &directory.SetAccessControlOptions{Owner: ptr.Text(a.Owner),
		Group: ptr.Text(a.Group), Permissions: ptr.Text(a.Permissions), ACL: ptr.Text(a.ACL)})
	return err
}

// ErrFailures means that some paths of a recursive change could not be changed.
var ErrFailures = errors.New("some paths could not be changed")

// Change says whether a recursive change replaces the lists, changes entries, or removes them.
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
	files, directories = int(ptr.Value(r.FilesSuccessful)), int(ptr.Value(r.DirectoriesSuccessful))
	if err == nil && ptr.Value(r.FailureCount) > 0 {
		var names []string
		for _, f := range r.FailedEntries {
			names = append(names, ptr.Value(f.Name))
		}
		err = fmt.Errorf("%w: %s", ErrFailures, strings.Join(names, ", "))
	}
	return files, directories, err
}

// Tree calls each with everything below a directory, each directory before what is in it.
func Tree(ctx context.Context, c *service.Client, fs, dir string, each func(Entry) error) error {
	pages := c.NewFileSystemClient(fs).NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: ptr.Text(dir)})
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
	e := Entry{Path: ptr.Value(p.Name), Directory: ptr.Value(p.IsDirectory), Size: ptr.Value(p.ContentLength),
		Owner: ptr.Value(p.Owner), Group: ptr.Value(p.Group), Permissions: ptr.Value(p.Permissions)}
	if t, err := time.Parse(time.RFC1123, ptr.Value(p.LastModified)); err == nil {
		e.Modified = t
	}
	return e
}
