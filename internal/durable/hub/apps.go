package hub

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/messages"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// Apps with different functions can share a hub. Each app writes the names of its functions to a blob beside the
// leases, before it receives work:
//
//	default/app-<hash of the content>   {"Functions": ["activity reserve", "orchestration order"]}
//
// An app that receives work of a function which it does not have and another app has named moves the message to the
// queue <hub>-shared, together with the function's name; apps of a hub that has several receive from it what is theirs.
// The names stay when an app stops: its work waits for it. Work of a function that no app has named fails.

// appPrefix precedes the names of these blobs, behind LeaseFolder.
const appPrefix = "app-"

// maxFunctions bounds the content of such a blob, in bytes.
const maxFunctions = 1 << 20

// functionOf names a function across its kinds.
func functionOf(kind workkind.Kind, name string) string { return string(kind) + " " + name }

// Declare makes the backend that of an app with these functions.
func (b *Backend) Declare(functions map[workkind.Kind][]string) error {
	a := &apps{b: b, own: map[string]bool{}, several: make(chan struct{}), read: map[string]bool{},
		others: map[string]bool{}}
	var content struct{ Functions []string }
	for kind, names := range functions {
		for _, name := range names {
			content.Functions = append(content.Functions, functionOf(kind, name))
			a.own[functionOf(kind, name)] = true
		}
	}
	slices.Sort(content.Functions)
	var err error
	if a.content, err = json.Marshal(content); err != nil {
		return err
	}
	if len(a.content) > maxFunctions {
		return fmt.Errorf("durable: the names of the functions have %d bytes; %d are allowed", len(a.content), maxFunctions)
	}
	sum := sha256.Sum256(a.content)
	a.blob = fmt.Sprintf("%s%s%x", record.LeaseFolder, appPrefix, sum[:16])
	b.apps = a
	return nil
}

func (a *apps) container() *container.Client {
	return a.b.options.Storage.Blobs.ServiceClient().NewContainerClient(a.b.names.Leases())
}

// write writes the names of this app.
func (a *apps) write(ctx context.Context) error {
	_, err := a.container().NewBlockBlobClient(a.blob).UploadBuffer(ctx, a.content,
		&blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	if err != nil && !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("durable: write the names of the functions: %w", err)
	}
	return nil
}

// found notes a blob of the folder of leases.
func (a *apps) found(name string) {
	if !strings.HasPrefix(name, record.LeaseFolder+appPrefix) || name == a.blob {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.read) == 0 {
		close(a.several)
	}
	if _, known := a.read[name]; !known {
		a.read[name] = false
	}
}

// isOneOf reports whether another app is known.
func (a *apps) isOneOf() bool {
	select {
	case <-a.several:
		return true
	default:
		return false
	}
}

// Accepts implements workkind.Acceptor: the app takes what it has, and what no app has, which fails.
func (a *apps) Accepts(kind workkind.Kind, name, _ string) bool {
	if a.own[functionOf(kind, name)] {
		return true
	}
	other, err := a.elsewhere(kind, name)
	return err == nil && !other
}

// elsewhere reports whether another app has named a function.
func (a *apps) elsewhere(kind workkind.Kind, name string) (bool, error) {
	has := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.others[functionOf(kind, name)]
	}
	if has() {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(a.b.life, lease.ReleaseTimeout)
	defer cancel()
	err := a.refresh(ctx)
	if err != nil {
		a.b.log.Warn("cannot read which functions other apps have; trying again", "err", sdkerr.Short(err))
	}
	return has(), err
}

// refresh reads the names of apps that are not known yet.
func (a *apps) refresh(ctx context.Context) error {
	pager := a.container().NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Prefix: to.Ptr(record.LeaseFolder + appPrefix)})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, b := range page.Segment.BlobItems {
			a.found(*b.Name)
		}
	}
	// The lock is not held while blobs are read, so the names are copied first.
	a.mu.Lock()
	var unread []string
	for name, read := range a.read {
		if !read {
			unread = append(unread, name)
		}
	}
	a.mu.Unlock()
	for _, name := range unread {
		buffer := make([]byte, maxFunctions)
		n, err := a.container().NewBlockBlobClient(name).DownloadBuffer(ctx, buffer, nil)
		if err != nil {
			return err
		}
		var content struct{ Functions []string }
		if err := json.Unmarshal(buffer[:n], &content); err != nil {
			return fmt.Errorf("durable: the blob %s: %w", name, err)
		}
		a.mu.Lock()
		a.read[name] = true
		for _, f := range content.Functions {
			a.others[f] = true
		}
		a.mu.Unlock()
	}
	return nil
}

// share moves messages of a function that another app has to the shared queue, in their order. It is false if that is
// not possible now.
func (a *apps) share(ctx context.Context, kind workkind.Kind, name, version string, list []*inflight.Received) bool {
	if other, err := a.elsewhere(kind, name); err != nil || !other {
		return false
	}
	b := a.b
	var texts []messages.New
	for _, r := range list {
		// r itself stays without the function: it is parked if this fails.
		m := *r.Message
		m.Function = &record.Function{Kind: kind, Name: name, Version: version}
		text, err := b.payloads.Encode(ctx, &m)
		if err != nil {
			return false
		}
		texts = append(texts, messages.New{Text: text})
	}
	_, err := b.shared.PutAll(ctx, texts)
	if record.IsNotFound(err) && a.makeQueue(ctx) == nil {
		_, err = b.shared.PutAll(ctx, texts)
	}
	if err != nil {
		b.log.Warn("cannot give work to another app; trying again", "function", name, "err", sdkerr.Short(err))
		return false
	}
	for _, r := range list {
		b.deleteLater(r, func() {})
	}
	return true
}

func (a *apps) makeQueue(ctx context.Context) error {
	_, err := a.b.shared.Client.Create(ctx, nil)
	if err != nil && !record.IsConflict(err) {
		return fmt.Errorf("durable: create a queue: %w", err)
	}
	return nil
}

// Pauses of an app that has received what is another app's from the shared queue: that one is to receive it.
const (
	yieldFirst = 50 * time.Millisecond // doubled each time
	yieldLast  = 2 * time.Second
	// yieldMost is the number of times that a message is shown again at once.
	yieldMost = 4
)

// receiveShared receives from the shared queue until the end of the run, once there are several apps.
func (a *apps) receiveShared(r *run) {
	ctx := r.ctx
	select {
	case <-a.several:
	case <-ctx.Done():
		return
	}
	b, pause := a.b, time.Duration(0)
	p := &poller{b: b, q: b.shared}
	for made := false; ctx.Err() == nil; {
		if b.sessions.Total() >= b.options.MaxBuffered {
			sleep(ctx, systemClock{}, 5*time.Millisecond)
			continue
		}
		if !made {
			if err := a.makeQueue(ctx); err != nil {
				b.log.Warn("cannot make the queue of work for other apps; trying again", "err", sdkerr.Short(err))
				sleep(ctx, systemClock{}, time.Second)
				continue
			}
			made = true
		}
		refused := 0
		p.poll(ctx, receiveMost, func(list []*inflight.Received) { refused = a.takeShared(ctx, r, list) })
		if pause = min(max(2*pause, yieldFirst), yieldLast); refused == 0 {
			pause = 0
		}
		sleep(ctx, systemClock{}, pause)
	}
}

// takeShared handles messages of the shared queue, and returns how many are not this app's.
func (a *apps) takeShared(ctx context.Context, in *run, list []*inflight.Received) (refused int) {
	b := a.b
	var activities []*activity
	for _, r := range list {
		f := r.Function
		switch {
		case f == nil:
			b.setAside(ctx, r)
		case !a.own[functionOf(f.Kind, f.Name)]:
			if refused++; r.Attempts <= yieldMost {
				b.giveBack([]*inflight.Received{r})
			} else {
				b.hideParked(ctx, f.Kind, f.Name, f.Version, r)
			}
		case f.Kind == workkind.Activity:
			activities = append(activities, b.activities.accept(ctx, []*inflight.Received{r})...)
		default:
			b.receiveControl(ctx, in, record.PartitionOf(r.Instance, len(b.control)), []*inflight.Received{r})
		}
	}
	b.activities.hand(ctx, activities, in.activities, 1)
	return refused
}
