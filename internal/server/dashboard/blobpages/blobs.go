package blobpages

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// blobPage holds what the page of a blob shows.
type blobPage struct {
	Container, Name   string
	Snapshot, Version string // which of the blob's states is shown; "" for the current one
	Properties        []frame.Property
	Metadata, Tags    string
	ContentType, Tier string
	Block, Leased     bool
	Deleted           bool
	URL, Download     string
	Size              int64
	Preview           preview
	States            []blobRow // versions and snapshots
	MoreStates        bool
	Lake              *lakeAccess // of an account with directories
}

func (blobPage) Template() string { return "blob" }

// blobOf is the client of the blob, snapshot or version that the page is about.
func (d *blobPages) blobOf(r *http.Request) (*blob.Client, *container.Client, error) {
	service, err := d.BlobClient(r)
	if err != nil {
		return nil, nil, err
	}
	box := service.NewContainerClient(r.PathValue("container"))
	if r.URL.Query().Get("name") == "" {
		return nil, nil, frame.NewProblem(http.StatusBadRequest, "The address names no blob",
			"Open the blob from the page of its container.")
	}
	client, q := box.NewBlobClient(r.URL.Query().Get("name")), r.URL.Query()
	switch snapshot, version := q.Get("snapshot"), q.Get("versionid"); {
	case snapshot != "":
		client, err = client.WithSnapshot(snapshot)
	case version != "":
		client, err = client.WithVersionID(version)
	}
	return client, box, err
}

// blob shows a blob: properties, metadata, tags, a preview, and its other states.
func (d *blobPages) blob(w http.ResponseWriter, r *http.Request) error {
	return d.showBlob(w, r, r.URL.Query().Get("name"), nil)
}

// showBlob shows a blob, with why a form for its access control was refused.
func (d *blobPages) showBlob(w http.ResponseWriter, r *http.Request, name string, refused *frame.Problem) error {
	if refused != nil { // the form belongs to the address of a path
		r = r.Clone(r.Context())
		r.URL.RawQuery = url.Values{"name": {name}}.Encode()
	}
	client, box, err := d.blobOf(r)
	if err != nil {
		return err
	}
	account, q := r.PathValue("account"), r.URL.Query()
	data := blobPage{Container: r.PathValue("container"), Name: name, Snapshot: q.Get("snapshot"),
		Version: q.Get("versionid")}
	data.URL = client.URL()
	data.Download = frame.Link("accounts", account, "content", data.Container) +
		string(frame.Query("name", name, "snapshot", data.Snapshot, "versionid", data.Version))
	if data.States, data.MoreStates, err = d.states(r, box, name); err != nil {
		return err
	}
	p, err := client.GetProperties(r.Context(), nil)
	switch {
	case err != nil && data.Snapshot == "" && data.Version == "" &&
		slices.ContainsFunc(data.States, func(b blobRow) bool { return b.Deleted || b.Version != "" }):
		data.Deleted = true
	case err != nil:
		return err
	default:
		data.describe(&p)
		if data.Snapshot == "" && data.Version == "" {
			if data.Metadata, err = blobMetadata(r.Context(), box, name); err != nil {
				return err
			}
			if d.hierarchical(r) && !strings.HasPrefix(data.Container, "$") {
				paths, err := d.lakeClient(r)
				if err != nil {
					return err
				}
				if data.Lake, err = lakeAccessOf(r, paths, name, refused); err != nil {
					return err
				}
			}
		}
		if tags, err := client.GetTags(r.Context(), nil); err == nil { // not of page blobs
			lines := make(map[string]*string)
			for _, t := range tags.BlobTagSet {
				lines[ptr.Value(t.Key)] = t.Value
			}
			data.Tags = frame.MetadataText(lines)
		}
		if data.Preview, err = d.preview(r.Context(), client, &p, data.Download); err != nil {
			data.Preview = preview{Note: "There is no preview: " + frame.Explain(err).What}
		}
	}
	crumbs := frame.CrumbsOf(account, "containers", data.Container)
	if i := strings.LastIndex(name, "/"); i >= 0 {
		crumbs = append(crumbs, folders(account, data.Container, name[:i+1])...)
	}
	status := http.StatusOK
	if refused != nil {
		status = refused.Status
	}
	return d.ShowStatus(w, r, status, name, crumbs, data)
}

// describe takes over what Get Blob Properties answered.
func (data *blobPage) describe(p *blob.GetPropertiesResponse) {
	data.Size, data.ContentType, data.Tier = ptr.Value(p.ContentLength), ptr.Value(p.ContentType), ptr.Value(p.AccessTier)
	data.Block = ptr.Value(p.BlobType) == blob.BlobTypeBlockBlob
	data.Leased = ptr.Value(p.LeaseState) == lease.StateTypeLeased || ptr.Value(p.LeaseState) == lease.StateTypeBreaking
	data.Metadata = frame.MetadataText(p.Metadata)
	md5 := ""
	if len(p.ContentMD5) > 0 {
		md5 = base64.StdEncoding.EncodeToString(p.ContentMD5) // as the header and other tools show it
	}
	for _, v := range [][2]string{
		{"Size", display.Bytes(data.Size)}, {"Type", string(ptr.Value(p.BlobType))},
		{"Modified", display.When(ptr.Value(p.LastModified))}, {"Created", display.When(ptr.Value(p.CreationTime))},
		{"ETag", string(ptr.Value(p.ETag))}, {"Content type", data.ContentType},
		{"Content encoding", ptr.Value(p.ContentEncoding)}, {"Content language", ptr.Value(p.ContentLanguage)},
		{"Content disposition", ptr.Value(p.ContentDisposition)}, {"Cache control", ptr.Value(p.CacheControl)},
		{"MD5", md5}, {"Access tier", data.Tier}, {"Archive status", ptr.Value(p.ArchiveStatus)},
		{"Lease", strings.TrimSpace(string(ptr.Value(p.LeaseState)) + " " + string(ptr.Value(p.LeaseDuration)))},
		{"Version", ptr.Value(p.VersionID)}, {"Last access", display.When(ptr.Value(p.LastAccessed))},
		{"Copy", strings.TrimSpace(string(ptr.Value(p.CopyStatus)) + " " + ptr.Value(p.CopyProgress))},
		{"Copy source", display.MaskURL(ptr.Value(p.CopySource))}, {"Expires", display.When(ptr.Value(p.ExpiresOn))},
		{"Immutable until", display.When(ptr.Value(p.ImmutabilityPolicyExpiresOn))},
	} {
		if v[1] != "" {
			data.Properties = append(data.Properties, frame.Property{Name: v[0], Value: v[1]})
		}
	}
}

// maxStates bounds the versions and snapshots on the page.
const maxStates = 50

// everyState includes all states of blobs in a list. Blobs of trees have no versions, and a list of them is refused.
func (d *blobPages) everyState(r *http.Request) container.ListBlobsInclude {
	return container.ListBlobsInclude{Deleted: true, Snapshots: true, Versions: !d.hierarchical(r)}
}

// states are the versions, snapshots and deleted states of a blob.
func (d *blobPages) states(r *http.Request, box *container.Client, name string) (rows []blobRow, more bool, err error) {
	got, err := box.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Prefix: &name, MaxResults: to.Ptr(int32(maxStates + 1)),
			Include: d.everyState(r)}).NextPage(r.Context())
	if err != nil {
		return nil, false, err
	}
	for _, b := range got.Segment.BlobItems {
		if ptr.Value(b.Name) != name || !ptr.Value(b.Deleted) && ptr.Value(b.Snapshot) == "" && ptr.Value(b.VersionID) == "" {
			continue
		}
		row := blobRow{Name: name, Deleted: ptr.Value(b.Deleted), Snapshot: ptr.Value(b.Snapshot),
			Version: ptr.Value(b.VersionID),
			Current: ptr.Value(b.IsCurrentVersion)}
		if b.Properties != nil {
			row.Size, row.Modified = ptr.Value(b.Properties.ContentLength), ptr.Value(b.Properties.LastModified)
		}
		rows = append(rows, row)
	}
	return rows, ptr.Value(got.NextMarker) != "" && len(rows) > maxStates, nil
}

// changeBlob changes, deletes or restores a blob.
func (d *blobPages) changeBlob(w http.ResponseWriter, r *http.Request) error {
	client, box, err := d.blobOf(r)
	if err != nil {
		return err
	}
	account, name, ctx := r.PathValue("account"), r.URL.Query().Get("name"), r.Context()
	outcome := "saved"
	switch r.PostFormValue("action") {
	case "delete":
		o := &blob.DeleteOptions{}
		if r.PostFormValue("snapshots") != "" {
			o.DeleteSnapshots = to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)
		}
		if _, err := client.Delete(ctx, o); err != nil {
			return err
		}
		folder := name[:strings.LastIndex(name, "/")+1]
		http.Redirect(w, r, frame.Link("accounts", account, "containers", r.PathValue("container"))+
			string(frame.Query("prefix", folder, "done", "deleted")), http.StatusSeeOther)
		return nil
	case "undelete":
		outcome = "restored"
		_, err = client.Undelete(ctx, nil)
	case "promote": // an earlier version or a snapshot becomes the current state
		outcome = "restored"
		_, err = box.NewBlobClient(name).StartCopyFromURL(ctx, client.URL(), nil)
	case "metadata":
		var m map[string]*string
		if m, err = frame.ParseMetadata(r.PostFormValue("metadata")); err == nil {
			_, err = client.SetMetadata(ctx, m, nil)
		}
	case "tags":
		var m map[string]*string
		if m, err = frame.ParseLines(r.PostFormValue("tags")); err == nil {
			tags := make(map[string]string)
			for k, v := range m {
				tags[k] = ptr.Value(v)
			}
			_, err = client.SetTags(ctx, tags, nil)
		}
	case "tier":
		_, err = client.SetTier(ctx, blob.AccessTier(r.PostFormValue("tier")), nil)
	case "type":
		err = setContentType(ctx, client, r.PostFormValue("type"))
	case "break":
		outcome = "broken"
		var l *lease.BlobClient
		if l, err = lease.NewBlobClient(client, nil); err == nil {
			_, err = l.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))})
		}
	case "snapshot":
		outcome = "created"
		_, err = client.CreateSnapshot(ctx, nil)
	default:
		return frame.ErrAction
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, frame.Link("accounts", account, "blob", r.PathValue("container"))+
		string(frame.Query("name", name, "done", outcome)), http.StatusSeeOther)
	return nil
}

// setContentType changes the content type and keeps the other HTTP headers.
func setContentType(ctx context.Context, client *blob.Client, kind string) error {
	if !frame.HeaderText(kind) {
		return frame.NewProblem(http.StatusBadRequest, "The content type has characters that a header cannot have",
			"Examples are text/plain and image/png.")
	}
	p, err := client.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	_, err = client.SetHTTPHeaders(ctx,
		blob.HTTPHeaders{BlobContentType: &kind, BlobCacheControl: p.CacheControl,
			BlobContentDisposition: p.ContentDisposition,
			BlobContentEncoding:    p.ContentEncoding, BlobContentLanguage: p.ContentLanguage, BlobContentMD5: p.ContentMD5},
		nil)
	return err
}

func breakContainerLease(ctx context.Context, client *container.Client) error {
	l, err := lease.NewContainerClient(client, nil)
	if err != nil {
		return err
	}
	_, err = l.BreakLease(ctx, &lease.ContainerBreakOptions{BreakPeriod: to.Ptr(int32(0))})
	return err
}

// blobMetadata reads metadata from a list: in the headers of other answers, the SDK for Go does not keep the case of
// the names.
func blobMetadata(ctx context.Context, client *container.Client, name string) (string, error) {
	got, err := client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: container.ListBlobsInclude{Metadata: true}}).NextPage(ctx)
	if err != nil || len(got.Segment.BlobItems) == 0 || ptr.Value(got.Segment.BlobItems[0].Name) != name {
		return "", err
	}
	return frame.MetadataText(got.Segment.BlobItems[0].Metadata), nil
}
