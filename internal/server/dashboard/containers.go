package dashboard

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// pageSize is the number of rows that a page shows.
const pageSize = 100

// containerRow is a container in the list.
type containerRow struct {
	Name             string
	Modified         time.Time
	Access, Lease    string
	Deleted          bool
	Version          string
	DeletedAt        time.Time
	DaysLeft         int32
	HasPolicy, Holds bool
}

// containersPage holds the containers of an account.
type containersPage struct {
	Kind         string // the part of the address of a container: containers, or paths in a hierarchical account
	Rows         []containerRow
	Prefix, Next string
	Note         ownNote

	Public, Leased, Deleted bool // a row is
}

func (containersPage) template() string { return "containers" }

// containers lists the containers of an account.
func (d *dashboard) containers(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	q := r.URL.Query()
	list, err := listShown(d, r, wire.Blob, func(c *service.ContainerItem) string { return ptr.Value(c.Name) },
		func(limit int32, marker string) ([]*service.ContainerItem, string, error) {
			got, err := client.NewListContainersPager(&service.ListContainersOptions{MaxResults: &limit,
				Prefix: ptr.Text(q.Get("prefix")), Marker: ptr.Text(marker),
				Include: service.ListContainersInclude{Deleted: true, System: true}}).NextPage(r.Context())
			return got.ContainerItems, ptr.Value(got.NextMarker), err
		})
	if err != nil {
		return err
	}
	var data containersPage
	for _, c := range list.rows {
		row := containerRow{Name: ptr.Value(c.Name), Deleted: ptr.Value(c.Deleted), Version: ptr.Value(c.Version)}
		// A deleted container may come without properties.
		if p := c.Properties; p != nil {
			row.Modified, row.Access, row.Lease, row.DeletedAt, row.DaysLeft = ptr.Value(p.LastModified),
				string(ptr.Value(p.PublicAccess)), string(ptr.Value(p.LeaseState)), ptr.Value(p.DeletedTime),
				ptr.Value(p.RemainingRetentionDays)
			row.HasPolicy, row.Holds = ptr.Value(p.HasImmutabilityPolicy), ptr.Value(p.HasLegalHold)
		}
		data.Rows = append(data.Rows, row)
		// Columns that would be empty in each row are left out of the page.
		data.Public = data.Public || row.Access != ""
		data.Leased = data.Leased || row.Lease == "leased"
		data.Deleted = data.Deleted || row.Deleted
	}
	account := r.PathValue("account")
	data.Kind, data.Prefix, data.Next = "containers", q.Get("prefix"), list.next
	data.Note = ownNote{list.hidden, list.own, data.Prefix}
	if d.hierarchical(r) {
		data.Kind = "paths"
	}
	return d.show(w, r, "Containers", crumbsOf(account), data)
}

// changeContainers creates a container, restores a deleted one, or deletes those that are chosen.
func (d *dashboard) changeContainers(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	if r.PostFormValue("action") == "restore" {
		name := strings.TrimSpace(r.PostFormValue("name"))
		_, err := client.RestoreContainer(r.Context(), name, r.PostFormValue("version"), nil)
		return back(w, r, err, link("accounts", r.PathValue("account"), "containers"), "restored")
	}
	return changeList(w, r, "containers", func(ctx context.Context, name string) error {
		_, err := client.CreateContainer(ctx, name, nil)
		return err
	}, func(ctx context.Context, name string) error {
		_, err := client.DeleteContainer(ctx, name, nil)
		return err
	})
}

var errAction = problem{http.StatusBadRequest, "The form has no action that the page knows",
	"Go back and reload the page."}

// blobRow is a blob or a virtual folder in the list.
type blobRow struct {
	Name, Short       string
	Folder            bool
	Size              int64
	Modified          time.Time
	Kind, Tier, Lease string
	ContentType       string
	Deleted           bool
	Snapshot, Version string
	Current           bool
}

// containerPage holds a page of the blobs of a container.
type containerPage struct {
	Container    string
	Rows         []blobRow
	Prefix, Next string
	Folders      []crumb
	All          bool // versions, snapshots and deleted blobs as well
	Props        *containerProperties
	Tree         bool
}

func (containerPage) template() string { return "container" }

// containerProperties are what a page shows of a container besides what is in it.
type containerProperties struct {
	Container, URL          string
	Access, Lease, Metadata string
	Modified                time.Time
}

// containerPropertiesOf reads the properties of a container.
func containerPropertiesOf(ctx context.Context, service *service.Client, name string) (*containerProperties, error) {
	client := service.NewContainerClient(name)
	p, err := client.GetProperties(ctx, nil)
	if err != nil {
		return nil, err
	}
	metadata, err := containerMetadata(ctx, service, name)
	return &containerProperties{Container: name, URL: client.URL(), Access: string(ptr.Value(p.BlobPublicAccess)),
		Lease: string(ptr.Value(p.LeaseState)), Metadata: metadata, Modified: ptr.Value(p.LastModified)}, err
}

// container lists the blobs of a container, with virtual folders. One with directories has a page of its own, unless
// what is not in them is asked for.
func (d *dashboard) container(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	account, name := r.PathValue("account"), r.PathValue("container")
	client := service.NewContainerClient(name)
	q := r.URL.Query()
	all := q.Get("all") != ""
	prefix := q.Get("prefix")
	if d.hierarchical(r) && !all && !strings.HasPrefix(name, "$") { // those of the system are flat
		http.Redirect(w, r, link("accounts", account, "paths", name)+
			string(query("path", strings.Trim(prefix, "/"), "done", q.Get("done"))), http.StatusSeeOther)
		return nil
	}
	rows, next, err := d.listBlobs(r, client, prefix, q.Get("marker"), all)
	if err != nil {
		return err
	}
	properties, err := containerPropertiesOf(r.Context(), service, name)
	if err != nil {
		return err
	}
	data := containerPage{Container: name, Rows: rows, Prefix: prefix, Folders: folders(account, name, prefix),
		Next: next, All: all, Props: properties, Tree: d.hierarchical(r)}
	return d.show(w, r, name, crumbsOf(account, "containers"), data)
}

// listBlobs returns a page of blobs and virtual folders, and the marker of the next one. all adds versions, snapshots
// and deleted blobs, and leaves out folders: the service does not list snapshots together with a delimiter.
func (d *dashboard) listBlobs(r *http.Request, client *container.Client, prefix, marker string, all bool) (
	rows []blobRow, next string, err error) {
	ctx, limit := r.Context(), to.Ptr(int32(pageSize))
	// Both kinds of list give the same items; only the flat one has versions, snapshots and deleted blobs.
	row := func(b *container.BlobItem) blobRow {
		row := blobRow{Name: ptr.Value(b.Name), Short: strings.TrimPrefix(ptr.Value(b.Name), prefix),
			Deleted:  ptr.Value(b.Deleted),
			Snapshot: ptr.Value(b.Snapshot), Version: ptr.Value(b.VersionID), Current: ptr.Value(b.IsCurrentVersion)}
		if p := b.Properties; p != nil {
			row.Size, row.Modified, row.Kind, row.Tier, row.Lease, row.ContentType = ptr.Value(p.ContentLength),
				ptr.Value(p.LastModified), string(ptr.Value(p.BlobType)), string(ptr.Value(p.AccessTier)),
				string(ptr.Value(p.LeaseState)),
				ptr.Value(p.ContentType)
		}
		return row
	}
	if all {
		o := &container.ListBlobsFlatOptions{MaxResults: limit, Prefix: ptr.Text(prefix), Marker: ptr.Text(marker),
			Include: d.everyState(r)}
		got, err := client.NewListBlobsFlatPager(o).NextPage(ctx)
		if err != nil {
			return nil, "", err
		}
		for _, b := range got.Segment.BlobItems {
			rows = append(rows, row(b))
		}
		return rows, ptr.Value(got.NextMarker), nil
	}
	// One level at a time: a container of a million blobs in folders shows its folders at once.
	got, err := client.NewListBlobsHierarchyPager("/",
		&container.ListBlobsHierarchyOptions{MaxResults: limit, Prefix: ptr.Text(prefix),
			Marker: ptr.Text(marker)}).NextPage(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, p := range got.Segment.BlobPrefixes {
		rows = append(rows, blobRow{Name: ptr.Value(p.Name), Short: strings.TrimPrefix(ptr.Value(p.Name), prefix),
			Folder: true})
	}
	for _, b := range got.Segment.BlobItems {
		rows = append(rows, row(b))
	}
	return rows, ptr.Value(got.NextMarker), nil
}

// folders are the virtual folders on the way to a prefix.
func folders(account, container, prefix string) (list []crumb) {
	for i, c := range prefix {
		if c == '/' {
			begin := strings.LastIndex(prefix[:i], "/") + 1
			list = append(list, crumb{prefix[begin : i+1],
				link("accounts", account, "containers", container) + "?prefix=" + url.QueryEscape(prefix[:i+1])})
		}
	}
	return list
}

// changeContainer changes the access or the metadata of a container, breaks its lease, or deletes it.
func (d *dashboard) changeContainer(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	account, name := r.PathValue("account"), r.PathValue("container")
	client := service.NewContainerClient(name)
	here := link("accounts", account, "containers", name)
	switch r.PostFormValue("action") {
	case "delete":
		_, err := client.Delete(r.Context(), nil)
		return back(w, r, err, link("accounts", account, "containers"), "deleted")
	case "deleteBlobs":
		// Snapshots go with their blob: without the option the service refuses a blob that has some, and the page has no
		// other way to remove it.
		if err := removeChosen(r, func(blobName string) error {
			_, err := client.NewBlobClient(blobName).Delete(r.Context(),
				&blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
			return err
		}); err != nil {
			return err
		}
		http.Redirect(w, r, here+string(query("prefix", r.PostFormValue("prefix"), "done", "deleted")), http.StatusSeeOther)
		return nil
	case "access":
		// Set Container ACL replaces the stored policies, too. Sent without them, a change of the access would invalidate
		// every SAS that names one.
		policy, err := client.GetAccessPolicy(r.Context(), nil)
		if err != nil {
			return err
		}
		o := &container.SetAccessPolicyOptions{ContainerACL: policy.SignedIdentifiers}
		// An empty value is private, which Azure expresses by leaving the header out.
		if access := container.PublicAccessType(r.PostFormValue("access")); access != "" {
			o.Access = &access
		}
		_, err = client.SetAccessPolicy(r.Context(), o)
		return back(w, r, err, here, "saved")
	case "metadata":
		m, err := parseMetadata(r.PostFormValue("metadata"))
		if err != nil {
			return err
		}
		_, err = client.SetMetadata(r.Context(), &container.SetMetadataOptions{Metadata: m})
		return back(w, r, err, here, "saved")
	case "break":
		return back(w, r, breakContainerLease(r.Context(), client), here, "broken")
	}
	return errAction
}

// uploadForm is the page with the upload form, for browsers without the script.
func (d *dashboard) uploadForm(w http.ResponseWriter, r *http.Request) error {
	return back(w, r, nil, link("accounts", r.PathValue("account"), "containers", r.PathValue("container")), "")
}

// upload stores the file that is the body as the block blob ?name=. The script sends one request for each file that is
// dropped. The body is streamed: it is never in memory as a whole.
func (d *dashboard) upload(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	name := strings.TrimPrefix(r.URL.Query().Get("name"), "/")
	if name == "" {
		return problem{http.StatusBadRequest, "The blob has no name", ""}
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	client := service.NewContainerClient(r.PathValue("container")).NewBlockBlobClient(name)
	if _, err := client.UploadStream(r.Context(), r.Body,
		&blockblob.UploadStreamOptions{BlockSize: 4 << 20, Concurrency: 2,
			HTTPHeaders: &blob.HTTPHeaders{BlobContentType: &kind}}); err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, map[string]string{"name": name})
}

// escapePath escapes a container/blob for a URL.
func escapePath(p string) string { return strings.ReplaceAll(url.PathEscape(p), "%2F", "/") }

// drain reads and closes a body.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	_ = body.Close()
}
