package blobsvc_test

import (
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// moment is a snapshot, a version or the current state of a blob in the model.
type moment struct {
	snapshot, version string // ids; the current version has one as well
	content, metadata string
	deleted, hold     bool
}

// String holds what a listing shows.
func (m *moment) String() string {
	s := m.snapshot + "@" + m.version + " " + m.metadata + " " + fmt.Sprint(len(m.content))
	if m.deleted {
		s += " deleted"
	}
	if m.hold {
		s += " held"
	}
	return s
}

// GoString keeps contents out of rapid's log.
func (m *moment) GoString() string { return m.String() }

// past is the history of a blob in the model: what has been, in no order, and what is, nil for nothing.
type past struct {
	been []*moment
	is   *moment
}

// become makes next the current state; what was stays as a version.
func (p *past) become(next *moment) {
	if p.is != nil {
		p.been = append(p.been, p.is)
	}
	p.is = next
}

// any picks a moment that is not deleted, nil if none exists. current allows the current one.
func (p *past) any(rt *rapid.T, current, snapshots bool) *moment {
	var list []*moment
	for _, m := range p.been {
		if !m.deleted && (m.version != "" || snapshots) {
			list = append(list, m)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].id() < list[j].id() })
	if p.is != nil && current {
		list = append(list, p.is)
	}
	if len(list) == 0 {
		return nil
	}
	return rapid.SampledFrom(list).Draw(rt, "moment")
}

func (m *moment) id() string { return m.snapshot + m.version }

func (m *moment) query() string {
	if m.snapshot != "" {
		return "?snapshot=" + m.snapshot
	}
	return "?versionid=" + m.version
}

func (p *past) snapshots() bool {
	return slices.ContainsFunc(p.been, func(m *moment) bool { return m.snapshot != "" && !m.deleted })
}

// grave is a deleted container.
type grave struct {
	version string
	blobs   map[string]*past
}

// history is a container in memory, with all that it was.
type history struct {
	f        *fixture
	name     string
	keep     accountprops.Blob
	retained bool             // deleted blobs are kept
	blobs    map[string]*past // nil without a container
	graves   []grave
}

// Random operations on versions, snapshots, holds, soft-deleted blobs and containers leave the service in the state
// that the model has, also after garbage was collected and extents were compacted.
func TestHistoryLikeAModel(t *testing.T) {
	t.Parallel()
	for what, keep := range map[string]accountprops.Blob{
		"immutable":  {Versioning: true, Immutability: true, ContainerDays: 2},
		"restorable": {Versioning: true, ContainerDays: 2},
	} {
		t.Run(what, func(t *testing.T) {
			f := managed(t, keep)
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				h := &history{f: f, name: fmt.Sprintf("past%04d", n), keep: keep}
				n++
				f.keepDeleted(0, "")
				h.create(rt)
				rt.Repeat(map[string]func(*rapid.T){
					"put": h.put, "commit": h.commit, "metadata": h.metadata, "snapshot": h.snapshot, "promote": h.promote,
					"delete": h.delete, "delete one": h.deleteOne,
					"undelete": h.undelete, "hold": h.hold, "retain": h.retain, "create": h.create,
					"delete container": h.deleteContainer,
					"restore":          h.restore, "collect": h.collect, "": h.list,
				})
				h.read(rt)
			})
		})
	}
}

// of picks a blob; nil without a container.
func (h *history) of(rt *rapid.T) (name string, p *past) {
	name = rapid.SampledFrom([]string{"a", "a/b", "c"}).Draw(rt, "name")
	if h.blobs == nil {
		return name, nil
	}
	if h.blobs[name] == nil {
		h.blobs[name] = &past{}
	}
	return name, h.blobs[name]
}

func (h *history) do(method, target, content string, headers ...string) reply {
	return h.f.do(method, "/"+h.name+target, content, headers...)
}

func (h *history) put(rt *rapid.T) {
	name, p := h.of(rt)
	content := strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(rt, "fill"))),
		rapid.SampledFrom([]int{0, 1, 300, 300_000}).Draw(rt, "size"))
	r := h.do("PUT", "/"+name, content, "x-ms-blob-type", "BlockBlob")
	if p == nil {
		r.want(rt, 404, "ContainerNotFound")
		return
	}
	p.become(&moment{version: r.want(rt, 201, "").header.Get("x-ms-version-id"), content: content})
}

// commit writes a blob of so many blocks that their list has a record of its own, which versions and snapshots share.
func (h *history) commit(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	text := string(rune('a' + rapid.IntRange(0, 25).Draw(rt, "fill")))
	h.do("PUT", "/"+name+"?comp=block&blockid="+url.QueryEscape(blockName(1)), text).want(rt, 201, "")
	list := "<BlockList>" + strings.Repeat("<Latest>"+blockName(1)+"</Latest>", 20) + "</BlockList>"
	r := h.do("PUT", "/"+name+"?comp=blocklist", list).want(rt, 201, "")
	p.become(&moment{version: r.header.Get("x-ms-version-id"), content: strings.Repeat(text, 20)})
}

func (h *history) metadata(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	text := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "metadata")
	r := h.do("PUT", "/"+name+"?comp=metadata", "", "x-ms-meta-m", text)
	switch {
	case p.is == nil:
		r.want(rt, 404, "BlobNotFound")
	case p.is.hold:
		r.want(rt, 409, "BlobImmutableDueToLegalHold")
	default:
		p.become(&moment{version: r.want(rt, 200, "").header.Get("x-ms-version-id"), content: p.is.content, metadata: text})
	}
}

func (h *history) snapshot(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	r := h.do("PUT", "/"+name+"?comp=snapshot", "")
	if p.is == nil {
		r.want(rt, 404, "BlobNotFound")
		return
	}
	r.want(rt, 201, "")
	p.been = append(p.been, &moment{snapshot: r.header.Get("x-ms-snapshot"), content: p.is.content,
		metadata: p.is.metadata})
	p.become(&moment{version: r.header.Get("x-ms-version-id"), content: p.is.content, metadata: p.is.metadata})
}

func (h *history) promote(rt *rapid.T) {
	from, p := h.of(rt)
	to, q := h.of(rt)
	if p == nil {
		return
	}
	m := p.any(rt, true, true)
	if m == nil {
		return
	}
	r := h.do("PUT", "/"+to, "", "x-ms-copy-source", h.f.base+"/"+h.name+"/"+from+m.query()).want(rt, 202, "")
	q.become(&moment{version: r.header.Get("x-ms-version-id"), content: m.content, metadata: m.metadata})
}

// gone holds what becomes of a moment that is deleted.
func (h *history) gone(p *past, m *moment) {
	if h.retained {
		m.deleted = true
		return
	}
	p.been = slices.DeleteFunc(p.been, func(x *moment) bool { return x == m })
}

func (h *history) delete(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	var headers []string
	include := rapid.Bool().Draw(rt, "include")
	if include {
		headers = []string{"x-ms-delete-snapshots", "include"}
	}
	r := h.do("DELETE", "/"+name, "", headers...)
	switch {
	case p.is == nil:
		r.want(rt, 404, "BlobNotFound")
	case p.snapshots() && !include:
		r.want(rt, 409, "SnapshotsPresent")
	case p.is.hold:
		r.want(rt, 409, "BlobImmutableDueToLegalHold")
	default:
		r.want(rt, 202, "")
		for _, m := range slices.Clone(p.been) {
			if m.snapshot != "" && !m.deleted {
				h.gone(p, m)
			}
		}
		p.become(nil)
	}
}

func (h *history) deleteOne(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	m := p.any(rt, true, true)
	if m == nil {
		return
	}
	r := h.do("DELETE", "/"+name+m.query(), "")
	switch {
	case m == p.is:
		r.want(rt, 403, "OperationNotAllowedOnRootBlob")
	case m.hold:
		r.want(rt, 409, "BlobImmutableDueToLegalHold")
	default:
		r.want(rt, 202, "")
		h.gone(p, m)
	}
}

func (h *history) undelete(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	r := h.do("PUT", "/"+name+"?comp=undelete", "")
	if p.is == nil && len(p.been) == 0 {
		r.want(rt, 404, "BlobNotFound")
		return
	}
	r.want(rt, 200, "")
	for _, m := range p.been {
		m.deleted = false
	}
}

func (h *history) hold(rt *rapid.T) {
	name, p := h.of(rt)
	if p == nil {
		return
	}
	m := p.any(rt, true, false)
	if m == nil {
		return
	}
	on := rapid.Bool().Draw(rt, "on")
	r := h.do("PUT", "/"+name+m.query()+"&comp=legalhold", "", "x-ms-legal-hold", fmt.Sprint(on))
	if !h.keep.Immutability {
		r.want(rt, 409, "ImmutableStorageWithVersioningNotEnabled")
		return
	}
	r.want(rt, 200, "")
	m.hold = on
}

func (h *history) retain(rt *rapid.T) {
	h.retained = rapid.Bool().Draw(rt, "retained")
	h.f.keepDeleted(map[bool]int{true: 2}[h.retained], "")
}

func (h *history) create(rt *rapid.T) {
	r := h.do("PUT", "?restype=container", "")
	if h.blobs != nil {
		r.want(rt, 409, "ContainerAlreadyExists")
		return
	}
	r.want(rt, 201, "")
	h.blobs = map[string]*past{}
}

func (h *history) deleteContainer(rt *rapid.T) {
	if h.blobs == nil {
		h.do("DELETE", "?restype=container", "").want(rt, 404, "ContainerNotFound")
		return
	}
	full := false
	for _, p := range h.blobs {
		full = full || p.is != nil || slices.ContainsFunc(p.been, func(m *moment) bool { return !m.deleted })
	}
	r := h.do("DELETE", "?restype=container", "")
	if full && h.keep.Immutability {
		r.want(rt, 409, "ContainerImmutableStorageWithVersioningEnabled")
		return
	}
	r.want(rt, 202, "")
	versions := strings.Split(h.f.do("GET", "/?comp=list&include=deleted&prefix="+h.name, "").want(rt, 200, "").body,
		"<Version>")
	version, _, _ := strings.Cut(versions[len(versions)-1], "<")
	h.graves = append(h.graves, grave{version, h.blobs})
	h.blobs = nil
}

func (h *history) restore(rt *rapid.T) {
	if len(h.graves) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.graves)-1).Draw(rt, "grave")
	g := h.graves[i]
	r := h.do("PUT", "?restype=container&comp=undelete", "", "x-ms-deleted-container-name", h.name,
		"x-ms-deleted-container-version", g.version)
	if h.blobs != nil {
		r.want(rt, 409, "ContainerAlreadyExists")
		return
	}
	r.want(rt, 201, "")
	h.blobs = g.blobs
	h.graves = slices.Delete(h.graves, i, i+1)
}

func (h *history) collect(rt *rapid.T) {
	if err := h.f.parts.Clean(ctx); err != nil {
		rt.Fatal(err)
	}
	if _, err := h.f.parts.State.Maintenance.Compact(ctx, unbounded); err != nil {
		rt.Fatal(err)
	}
	if _, err := h.f.parts.State.Maintenance.Audit(func(err error) { rt.Error(err) }); err != nil {
		rt.Fatal(err)
	}
}

// list compares the listing, in pages, with the model.
func (h *history) list(rt *rapid.T) {
	r := h.do("GET", "?restype=container&comp=list&maxresults=3", "")
	if h.blobs == nil {
		r.want(rt, 404, "ContainerNotFound")
		return
	}
	var want, got []string
	for name, p := range h.blobs {
		var list []string
		for _, m := range p.been {
			list = append(list, m.id()+"|"+name+" "+m.String())
		}
		if p.is != nil {
			list = append(list, p.is.id()+"|"+name+" "+p.is.String()+"*")
		}
		sort.Strings(list)
		for _, s := range list {
			_, s, _ = strings.Cut(s, "|")
			want = append(want, s)
		}
	}
	sort.SliceStable(want, func(i, j int) bool { return strings.Fields(want[i])[0] < strings.Fields(want[j])[0] })
	for marker := ""; ; {
		r := h.do("GET",
			"?restype=container&comp=list&include=versions,snapshots,deleted,metadata,legalhold&maxresults=7&marker="+marker,
			"").want(rt, 200, "")
		for _, item := range strings.Split(r.body, "<Blob>")[1:] {
			s := fmt.Sprintf("%s %s@%s %s %s", between(item, "<Name>", "<"), between(item, "<Snapshot>", "<"),
				between(item, "<VersionId>", "<"), between(item, "<M>", "<"),
				between(item, "<Content-Length>", "<"))
			for _, mark := range [...][2]string{{"<Deleted>true", " deleted"}, {"<LegalHold>true", " held"},
				{"<IsCurrentVersion>true", "*"}} {
				if strings.Contains(item, mark[0]) {
					s += mark[1]
				}
			}
			got = append(got, s)
		}
		if marker = between(r.body, "<NextMarker>", "<"); marker == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("listing: %s", diff)
	}
}

// read compares all contents with the model, and restores every deleted container to do so.
func (h *history) read(rt *rapid.T) {
	for {
		h.list(rt)
		for name, p := range h.blobs {
			for _, m := range p.been {
				h.compare(rt, name+m.query(), m)
			}
			if p.is != nil {
				h.compare(rt, name, p.is)
			} else {
				h.do("GET", "/"+name, "").want(rt, 404, "BlobNotFound")
			}
		}
		if len(h.graves) == 0 {
			return
		}
		g := h.graves[0]
		h.graves = h.graves[1:]
		h.name += "r"
		h.do("PUT", "?restype=container&comp=undelete", "", "x-ms-deleted-container-name", strings.TrimRight(h.name, "r"),
			"x-ms-deleted-container-version", g.version).want(rt, 201, "")
		h.blobs = g.blobs
	}
}

func (h *history) compare(rt *rapid.T, at string, m *moment) {
	r := h.do("GET", "/"+at, "")
	if m.deleted {
		r.want(rt, 404, "BlobNotFound")
		return
	}
	if r.want(rt, 200, ""); r.body != m.content || r.header.Get("x-ms-meta-m") != m.metadata {
		rt.Fatalf("%s has %d bytes, want %d", at, len(r.body), len(m.content))
	}
}
