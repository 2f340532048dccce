package accountarchive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	lake "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Account has the clients of an account; those of services that it does not have are nil.
type Account struct {
	// Address tells accounts apart: an export or import is only continued with the account that it began with.
	Address string
	Tables  *aztables.ServiceClient
	Queues  *azqueue.ServiceClient
	Blobs   *azblob.Client
	// Lake is the dfs endpoint of the Blob service, for access control.
	Lake *lake.Client
}

// Selection says what of an account is exported.
type Selection struct {
	// Only has kinds ("table") and resources ("container/photos"); everything if it is empty.
	Only []string `json:"only,omitempty"`
	// Versions includes the previous versions of blobs.
	Versions bool `json:"versions,omitempty"`
	// Receive receives the messages of queues and gives them back, in place of peeking at them.
	Receive bool `json:"receive,omitempty"`
}

// String returns the selection as the options of lazuli export.
func (s Selection) String() string {
	var options []string
	for _, o := range s.Only {
		options = append(options, "--only "+o)
	}
	if s.Versions {
		options = append(options, "--versions")
	}
	if s.Receive {
		options = append(options, "--receive")
	}
	if options == nil {
		return "none"
	}
	return strings.Join(options, " ")
}

// Check reports a mistake in Only.
func (s Selection) Check() error {
	for _, o := range s.Only {
		kind, name, named := strings.Cut(o, "/")
		if _, ok := folders[kind]; !ok || named && (name == "" || strings.Contains(name, "/")) {
			return fmt.Errorf("%q is neither table, queue, container nor one of these with a name, such as container/photos", o)
		}
	}
	return nil
}

func (s Selection) kind(kind string) bool {
	return len(s.Only) == 0 || slices.ContainsFunc(s.Only,
		func(o string) bool { return o == kind || strings.HasPrefix(o, kind+"/") })
}

func (s Selection) has(kind, name string) bool {
	return len(s.Only) == 0 || slices.Contains(s.Only, kind) || slices.Contains(s.Only, kind+"/"+name)
}

// Options of an export or import.
type Options struct {
	// Progress is called with a line of text after each segment and each resource; nil for none.
	Progress func(line string)
	// Bytes is called with the bytes of the archive that were written or imported, and with all of them, 0 where that is
	// not known; nil for none.
	Bytes func(done, total int64)
	// Now is the time; nil is time.Now.
	Now func() time.Time
	// SegmentBytes is the size of a segment, apart from its last item; 0 is 64 MiB.
	SegmentBytes int64
}

func (o *Options) defaults() {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Bytes == nil {
		o.Bytes = func(int64, int64) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = segmentLimit
	}
}

type exporter struct {
	bytes int64 // that this call has written

	Options
	Selection
	account  Account
	dir      string
	manifest *Manifest
	// metadata is that of queues and containers, by kind and name, from the listings: in headers the case of names is
	// lost.
	metadata map[string]map[string]string
}

// Export writes what s selects of an account to the archive in dir, which it makes, or continues an export that was
// interrupted. An archive that is whole already is an error. Items that cannot be exported are in the manifest and do
// not end the export; see [Manifest.Missing].
func Export(ctx context.Context, a Account, dir string, s Selection, o Options) (*Manifest, error) {
	o.defaults()
	if err := s.Check(); err != nil {
		return nil, err
	}
	e := &exporter{Options: o, Selection: s, account: a, dir: dir, metadata: map[string]map[string]string{}}
	if err := e.open(); err != nil {
		return nil, err
	}
	// Tables before queues before containers, always: an export that goes on after an interruption finds its place by the
	// manifest, which is in this order.
	for _, kind := range []struct {
		name string
		list func(context.Context) ([]string, error)
		one  func(context.Context, *Resource) error
	}{
		{KindTable, e.tables, e.table},
		{KindQueue, e.queues, e.queue},
		{KindContainer, e.containers, e.container},
	} {
		if !s.kind(kind.name) {
			continue
		}
		names, err := kind.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", kind.name, err)
		}
		for _, name := range names {
			if !s.has(kind.name, name) {
				continue
			}
			if err := e.resource(ctx, kind.name, name, kind.one); err != nil {
				return nil, err
			}
		}
	}
	// A name that does not exist is an error at the end, when all that does exist has been written: a retry has only the
	// rest to do.
	for _, o := range s.Only {
		if kind, name, named := strings.Cut(o, "/"); named && e.manifest.find(kind, name) == nil {
			return nil, fmt.Errorf("the account has no %s %s", kind, name)
		}
	}
	// The last file that is written. Without it the archive counts as unfinished.
	return e.manifest, e.manifest.finish(dir, o.Now().UTC())
}

// begin writes the manifest of a new export.
func (e *exporter) begin() error {
	e.manifest = &Manifest{Format: formatName, Version: Version, Source: e.account.Address, Selection: e.Selection,
		Started: e.Now().UTC(), Resources: []*Resource{}}
	return e.manifest.save(e.dir)
}

// open reads the manifest of an interrupted export, or begins a new one.
func (e *exporter) open() error {
	m, err := load(e.dir, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(e.dir); err == nil && len(entries) > 0 {
			return fmt.Errorf("the folder %s has other files", e.dir)
		}
		if err := disk.MkdirAll(e.dir, 0o700); err != nil {
			return err
		}
		return e.begin()
	case err != nil:
		return err
	}
	if _, err := os.Stat(filepath.Join(e.dir, sumsName)); err == nil {
		return fmt.Errorf("%s has a whole archive already", e.dir)
	}
	if m.Source != e.account.Address {
		return fmt.Errorf("%s has an export of %s, not of %s", e.dir, m.Source, e.account.Address)
	}
	if fmt.Sprint(m.Selection) != fmt.Sprint(e.Selection) {
		if len(m.Resources) == 0 { // nothing was exported: the options were wrong
			return e.begin()
		}
		return fmt.Errorf("the export in %s was begun with other options: %s; give these, or export to another folder", e.dir,
			m.Selection)
	}
	e.manifest = m
	return nil
}

// resource exports one resource unless that was done. A resource that is deleted meanwhile is left out.
func (e *exporter) resource(ctx context.Context, kind, name string,
	export func(context.Context, *Resource) error) error {
	r := e.manifest.find(kind, name)
	// The resource is in the manifest before anything of it is written, so that its segments are found again after an
	// interruption.
	if r == nil {
		r = &Resource{Kind: kind, Name: name, Segments: []Segment{}}
		e.manifest.Resources = append(e.manifest.Resources, r)
	}
	if r.Complete {
		return nil
	}
	err := export(ctx, r)
	// An account in use changes during the export. What was deleted by now would not be in an export that began later,
	// either.
	if isGone(err) {
		e.Progress(fmt.Sprintf("%s %s was deleted meanwhile", kind, name))
		e.manifest.Resources = slices.DeleteFunc(e.manifest.Resources, func(o *Resource) bool { return o == r })
		return e.manifest.save(e.dir)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	// Saved at once: the place to continue from and the mark of completeness must not both be lost, or both be there.
	r.Next, r.Complete = nil, true
	if err := e.manifest.save(e.dir); err != nil {
		return err
	}
	items, bytes := r.total()
	e.Progress(fmt.Sprintf("%s %s: %s, %d bytes", kind, name, counted(items), bytes))
	return nil
}

// counted is a number of items in words.
func counted(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}

func (r *Resource) total() (items int, bytes int64) {
	for _, s := range r.Segments {
		items += s.Items
		bytes += s.Bytes
	}
	return items, bytes
}

// newSegmentWriter returns a writer of the segments of a resource.
func (e *exporter) newSegmentWriter(r *Resource, suffix string) *segmentWriter {
	w := newSegmentWriter(e.dir, r, suffix, e.SegmentBytes)
	w.wrote = func(n int64) {
		e.bytes += n
		e.Bytes(e.bytes, 0)
	}
	return w
}

// segment ends a segment and notes where the export continues.
func (e *exporter) segment(w *segmentWriter, next Position) error {
	if err := w.end(); err != nil {
		return err
	}
	w.resource.Next = &next
	if err := e.manifest.save(e.dir); err != nil {
		return err
	}
	items, bytes := w.resource.total()
	e.Progress(fmt.Sprintf("%s %s: %s, %d bytes so far", w.resource.Kind, w.resource.Name, counted(items), bytes))
	return nil
}

// isGone reports whether a resource does not exist.
func isGone(err error) bool {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return false
	}
	switch r.ErrorCode {
	case "TableNotFound", "ResourceNotFound", "QueueNotFound", "ContainerNotFound", "ContainerBeingDeleted",
		"QueueBeingDeleted", "TableBeingDeleted":
		return true
	}
	return false
}
