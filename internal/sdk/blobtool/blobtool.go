// Package blobtool reads and changes blobs for the command, through the Azure SDK: on Lazuli, Azurite or Azure.
package blobtool

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// ErrExists means that a blob exists and must not be overwritten.
var ErrExists = errors.New("the blob exists")

// Entry is an entry of a listing.
type Entry struct {
	// Name is the name of a container, of a blob, or of a virtual folder, which ends in a slash.
	Name string `json:"name"`
	// Folder is set for containers and virtual folders, which have no size.
	Folder bool `json:"folder,omitempty"`
	// Directory is set for a directory of an account with a hierarchical namespace, which has no content.
	Directory bool `json:"directory,omitempty"`
	// Size is the length of a blob in bytes.
	Size int64 `json:"size"`
	// Modified is zero for a virtual folder.
	Modified time.Time `json:"modified,omitzero"`
	// Tier is the access tier of a blob, Type its type.
	Tier string `json:"tier,omitempty"`
	Type string `json:"type,omitempty"`
}

// Containers calls each with the containers whose names begin with prefix.
func Containers(ctx context.Context, c *azblob.Client, prefix string, each func(Entry) error) error {
	pages := c.NewListContainersPager(&azblob.ListContainersOptions{Prefix: ptr.Text(prefix)})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, item := range page.ContainerItems {
			e := Entry{Name: ptr.Value(item.Name), Folder: true}
			if item.Properties != nil {
				e.Modified = ptr.Value(item.Properties.LastModified)
			}
			if err := each(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// List calls each with the blobs of a container whose names begin with prefix, and, unless recursive is set, with
// virtual folders in place of the blobs below them.
func List(ctx context.Context, c *azblob.Client, name, prefix string, recursive bool, each func(Entry) error) error {
	client := c.ServiceClient().NewContainerClient(name)
	if recursive {
		pages := client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: ptr.Text(prefix)})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			if err := eachBlob(page.Segment.BlobItems, each); err != nil {
				return err
			}
		}
		return nil
	}
	pages := client.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: ptr.Text(prefix)})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, p := range page.Segment.BlobPrefixes {
			if err := each(Entry{Name: ptr.Value(p.Name), Folder: true}); err != nil {
				return err
			}
		}
		if err := eachBlob(page.Segment.BlobItems, each); err != nil {
			return err
		}
	}
	return nil
}

func eachBlob(items []*container.BlobItem, each func(Entry) error) error {
	for _, item := range items {
		e := Entry{Name: ptr.Value(item.Name)}
		if p := item.Properties; p != nil {
			e.Size, e.Modified, e.Tier, e.Type = ptr.Value(p.ContentLength), ptr.Value(p.LastModified),
				string(ptr.Value(p.AccessTier)),
				string(ptr.Value(p.BlobType))
			e.Directory = ptr.Value(p.ResourceType) == "directory"
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// PutOptions are the options of Put.
type PutOptions struct {
	// ContentType is the blob's content type; "" follows from the extension of its name.
	ContentType string
	// Create creates the container if it does not exist.
	Create bool
	// Absent fails with [ErrExists] if the blob exists.
	Absent bool
}

// Put uploads a block blob. The content is read once, in parts.
func Put(ctx context.Context, c *azblob.Client, name, blobName string, content io.Reader, o PutOptions) error {
	if o.Create {
		if _, err := c.CreateContainer(ctx, name, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return err
		}
	}
	if o.ContentType == "" {
		o.ContentType = mime.TypeByExtension(path.Ext(blobName))
	}
	up := &azblob.UploadStreamOptions{HTTPHeaders: &blob.HTTPHeaders{BlobContentType: ptr.Text(o.ContentType)}}
	if o.Absent {
		up.AccessConditions =
			&blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
	}
	_, err := c.UploadStream(ctx, name, blobName, content, up)
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("%s/%s: %w", name, blobName, ErrExists)
	}
	if bloberror.HasCode(err, "BlobOperationNotSupported") {
		return fmt.Errorf("%s/%s was made by the dfs endpoint: delete it first: %w", name, blobName, err)
	}
	return err
}

// Get writes the content of a blob. A connection that ends early is continued where it ended. progress, which may be
// nil, is called with the number of bytes that were written and the blob's length.
func Get(ctx context.Context, c *azblob.Client, name, blobName string, w io.Writer,
	progress func(done, total int64)) error {
	resp, err := c.DownloadStream(ctx, name, blobName, nil)
	if err != nil {
		return err
	}
	body := resp.NewRetryReader(ctx, nil)
	defer body.Close()
	if progress != nil {
		w = &progressWriter{Writer: w, total: ptr.Value(resp.ContentLength), progress: progress}
	}
	_, err = io.Copy(w, body)
	return err
}

// progressWriter calls progress after each write.
type progressWriter struct {
	io.Writer
	done, total int64
	progress    func(done, total int64)
}

func (w *progressWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.done += int64(n)
	w.progress(w.done, w.total)
	return n, err
}

// Remove deletes a blob with its snapshots.
func Remove(ctx context.Context, c *azblob.Client, name, blobName string) error {
	_, err := c.DeleteBlob(ctx, name, blobName,
		&azblob.DeleteBlobOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
	return err
}

// RemoveAll deletes the blobs whose names begin with prefix, and calls each with the name of each. It stops at the
// first failure.
func RemoveAll(ctx context.Context, c *azblob.Client, name, prefix string, each func(blobName string) error) error {
	remove := func(blobName string) error {
		if err := Remove(ctx, c, name, blobName); err != nil && !bloberror.HasCode(err, bloberror.BlobNotFound) {
			return fmt.Errorf("%s/%s: %w", name, blobName, err)
		}
		return each(blobName)
	}
	var directories []string // of a hierarchical namespace, which lists them before what is in them
	err := List(ctx, c, name, prefix, true, func(e Entry) error {
		err := remove(e.Name)
		if bloberror.HasCode(err, "DirectoryIsNotEmpty") {
			directories = append(directories, e.Name)
			return nil
		}
		return err
	})
	for _, directory := range slices.Backward(directories) {
		if err == nil {
			err = remove(directory)
		}
	}
	return err
}

// copyPoll is the pause between two looks at a copy that is under way.
const copyPoll = 100 * time.Millisecond

// Copy copies a blob within the account, on the server, and waits until the copy is complete.
func Copy(ctx context.Context, c *azblob.Client, fromContainer, fromBlob, toContainer, toBlob string) error {
	service := c.ServiceClient()
	from, dest := service.NewContainerClient(fromContainer).NewBlobClient(fromBlob),
		service.NewContainerClient(toContainer).NewBlobClient(toBlob)
	started, err := dest.StartCopyFromURL(ctx, from.URL(), nil)
	if err != nil {
		return err
	}
	for status := ptr.Value(started.CopyStatus); status != blob.CopyStatusTypeSuccess; {
		if status != blob.CopyStatusTypePending {
			return fmt.Errorf("the copy ended with the status %s", status)
		}
		select {
		case <-time.After(copyPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
		p, err := dest.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		status = ptr.Value(p.CopyStatus)
	}
	return nil
}

// Property is a property of a blob, for people.
type Property struct{ Name, Value string }

// Stat returns the properties of a blob that it has, in a fixed order, and its metadata by name.
func Stat(ctx context.Context, c *azblob.Client, name, blobName string) (list []Property, metadata map[string]*string,
	err error) {
	p, err := c.ServiceClient().NewContainerClient(name).NewBlobClient(blobName).GetProperties(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	add := func(name, value string) {
		if value != "" {
			list = append(list, Property{name, value})
		}
	}
	date := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	// Empty ones are left out: services differ in whether they send a property without a value.
	add("type", string(ptr.Value(p.BlobType)))
	add("size", fmt.Sprint(ptr.Value(p.ContentLength)))
	add("content type", ptr.Value(p.ContentType))
	add("content encoding", ptr.Value(p.ContentEncoding))
	add("content language", ptr.Value(p.ContentLanguage))
	add("content disposition", ptr.Value(p.ContentDisposition))
	add("cache control", ptr.Value(p.CacheControl))
	if len(p.ContentMD5) > 0 {
		add("content MD5", base64.StdEncoding.EncodeToString(p.ContentMD5))
	}
	add("created", date(p.CreationTime))
	add("modified", date(p.LastModified))
	add("ETag", strings.Trim(string(ptr.Value(p.ETag)), `"`))
	add("tier", ptr.Value(p.AccessTier))
	add("archive status", ptr.Value(p.ArchiveStatus))
	add("lease", string(ptr.Value(p.LeaseState)))
	add("version", ptr.Value(p.VersionID))
	add("copy status", string(ptr.Value(p.CopyStatus)))
	add("copy source", ptr.Value(p.CopySource))
	add("expires", date(p.ExpiresOn))
	if n := ptr.Value(p.TagCount); n > 0 {
		add("tags", fmt.Sprint(n))
	}
	return list, p.Metadata, nil
}
