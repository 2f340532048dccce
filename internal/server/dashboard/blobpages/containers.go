package blobpages

import (
	"context"
	"embed"
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
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

//go:embed templates
var files embed.FS

// blobPages are the pages of containers, blobs and directories.
type blobPages struct{ *frame.Site }

// Add adds them to a site.
func Add(s *frame.Site) {
	d := &blobPages{s}
	s.Templates(files)
	s.Route("accounts/{account}/containers", frame.With(s.BlobClient, d.containers), frame.With(s.BlobClient,
		d.changeContainers))
	s.Route("accounts/{account}/containers/{container}", frame.With(s.BlobClient, d.container),
		frame.With(s.BlobClient, d.changeContainer))
	s.Route("accounts/{account}/containers/{container}/size", frame.With(s.BlobClient, d.containerSize), nil)
	s.Route("accounts/{account}/containers/{container}/upload", d.uploadForm, frame.With(s.BlobClient, d.upload))
	s.Route("accounts/{account}/paths/{container}", frame.With(d.lakeClient, d.paths), frame.With(d.lakeClient,
		d.changePaths))
	s.Route("accounts/{account}/blob/{container}", d.blob, d.changeBlob)
	s.Route("accounts/{account}/content/{container}", d.content, nil)
}

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
	Note         frame.OwnNote

	Public, Leased, Deleted bool // a row is
}

func (containersPage) Template() string { return "containers" }

// containers lists the containers of an account.
func (d *blobPages) containers(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	q := r.URL.Query()
	list, err := frame.ReadList(d.Site, r, wire.Blob, func(c *service.ContainerItem) string { return ptr.Value(c.Name) },
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
	for _, c := range list.Rows {
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
	data.Kind, data.Prefix, data.Next = "containers", q.Get("prefix"), list.Next
	data.Note = frame.OwnNote{Hidden: list.Hidden, Own: list.Own, Prefix: data.Prefix}
	if d.hierarchical(r) {
		data.Kind = "paths"
	}
	return d.Show(w, r, "Containers", frame.CrumbsOf(account), data)
}

// changeContainers creates a container, restores a deleted one, or deletes those that are chosen.
func (d *blobPages) changeContainers(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	if r.PostFormValue("action") == "restore" {
		name := strings.TrimSpace(r.PostFormValue("name"))
		_, err := client.RestoreContainer(r.Context(), name, r.PostFormValue("version"), nil)
		return frame.Back(w, r, err, frame.Link("accounts", r.PathValue("account"), "containers"), "restored")
	}
	return frame.ChangeList(w, r, "containers", func(ctx context.Context, name string) error {
		_, err := client.CreateContainer(ctx, name, nil)
		return err
	}, func(ctx context.Context, name string) error {
		_, err := client.DeleteContainer(ctx, name, nil)
		return err
	})
}

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
	Folders      []frame.Crumb
	All          bool // versions, snapshots and deleted blobs as well
	Props        *containerProperties
	Tree         bool
}

func (containerPage) Template() string { return "container" }

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
func (d *blobPages) container(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	account, name := r.PathValue("account"), r.PathValue("container")
	client := service.NewContainerClient(name)
	q := r.URL.Query()
	all := q.Get("all") != ""
	prefix := q.Get("prefix")
	if d.hierarchical(r) && !all && !strings.HasPrefix(name, "$") { // those of the system are flat
		http.Redirect(w, r, frame.Link("accounts", account, "paths", name)+
			string(frame.Query("path", strings.Trim(prefix, "/"), "done", q.Get("done"))), http.StatusSeeOther)
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
	return d.Show(w, r, name, frame.CrumbsOf(account, "containers"), data)
}

// listBlobs returns a page of blobs and virtual folders, and the marker of the next one. all adds versions, snapshots
// and deleted blobs, and leaves out folders: the service does not list snapshots together with a delimiter.
func (d *blobPages) listBlobs(r *http.Request, client *container.Client, prefix, marker string, all bool) (
	rows []blobRow, next string, err error) {
	ctx, limit := r.Context(), to.Ptr(int32(frame.PageSize))
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
func folders(account, container, prefix string) (list []frame.Crumb) {
	for i, c := range prefix {
		if c == '/' {
			begin := strings.LastIndex(prefix[:i], "/") + 1
			list = append(list, frame.Crumb{Name: prefix[begin : i+1],
				URL: frame.Link("accounts", account, "containers", container) + "?prefix=" + url.QueryEscape(prefix[:i+1])})
		}
	}
	return list
}

// changeContainer changes the access or the metadata of a container, breaks its lease, or deletes it.
func (d *blobPages) changeContainer(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	account, name := r.PathValue("account"), r.PathValue("container")
	client := service.NewContainerClient(name)
	here := frame.Link("accounts", account, "containers", name)
	switch r.PostFormValue("action") {
	case "delete":
		_, err := client.Delete(r.Context(), nil)
		return frame.Back(w, r, err, frame.Link("accounts", account, "containers"), "deleted")
	case "deleteBlobs":
		// Snapshots go with their blob: without the option the service refuses a blob that has some, and the page has no
		// other way to remove it.
		if err := frame.RemoveChosen(r, func(blobName string) error {
			_, err := client.NewBlobClient(blobName).Delete(r.Context(),
				&blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
			return err
		}); err != nil {
			return err
		}
		http.Redirect(w, r, here+string(frame.Query("prefix", r.PostFormValue("prefix"), "done", "deleted")),
			http.StatusSeeOther)
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
		return frame.Back(w, r, err, here, "saved")
	case "metadata":
		m, err := frame.ParseMetadata(r.PostFormValue("metadata"))
		if err != nil {
			return err
		}
		_, err = client.SetMetadata(r.Context(), &container.SetMetadataOptions{Metadata: m})
		return frame.Back(w, r, err, here, "saved")
	case "break":
		return frame.Back(w, r, breakContainerLease(r.Context(), client), here, "broken")
	}
	return frame.ErrAction
}

// uploadForm is the page with the upload form, for browsers without the script.
func (d *blobPages) uploadForm(w http.ResponseWriter, r *http.Request) error {
	return frame.Back(w, r, nil, frame.Link("accounts", r.PathValue("account"), "containers", r.PathValue("container")),
		"")
}

// upload stores the file that is the body as the block blob ?name=. The script sends one request for each file that is
// dropped. The body is streamed: it is never in memory as a whole.
func (d *blobPages) upload(w http.ResponseWriter, r *http.Request, service *service.Client) error {
	name := strings.TrimPrefix(r.URL.Query().Get("name"), "/")
	if name == "" {
		return frame.NewProblem(http.StatusBadRequest, "The blob has no name", "")
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
	return frame.WriteJSON(w, http.StatusCreated, map[string]string{"name": name})
}

// drain reads and closes a body.
func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	_ = body.Close()
}

// containerMetadata reads metadata from a list: in the headers of other answers, the SDK for Go does not keep the case
// of
// the names.
func containerMetadata(ctx context.Context, client *service.Client, name string) (string, error) {
	got, err := client.NewListContainersPager(&service.ListContainersOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: service.ListContainersInclude{Metadata: true, System: true}}).NextPage(ctx)
	if err != nil || len(got.ContainerItems) == 0 || ptr.Value(got.ContainerItems[0].Name) != name {
		return "", err
	}
	return frame.MetadataText(got.ContainerItems[0].Metadata), nil
}

// containerSize counts the blobs of a container, or those below ?path=, without snapshots and versions. Directories are
// not counted.
func (d *blobPages) containerSize(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	pages := client.NewContainerClient(r.PathValue("container")).NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](5000), Prefix: ptr.Text(r.URL.Query().Get("path")),
			Include: container.ListBlobsInclude{Metadata: true}})
	var s frame.Size
	err := frame.Counting(r.Context(), &s, func(ctx context.Context) (bool, error) {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, b := range got.Segment.BlobItems {
			// A directory of a hierarchical container is a blob with this metadata, and has no size of its own.
			if ptr.Value(b.Metadata["hdi_isfolder"]) == "true" {
				continue
			}
			s.Items++
			if b.Properties != nil {
				s.Bytes += ptr.Value(b.Properties.ContentLength)
			}
		}
		return pages.More(), nil
	})
	if err != nil {
		return err
	}
	// A plus sign: counting ended at its limit, and the number is a lower bound.
	if s.Text = display.Bytes(s.Bytes); s.More {
		s.Text += "+"
	}
	return frame.WriteJSON(w, http.StatusOK, s)
}
