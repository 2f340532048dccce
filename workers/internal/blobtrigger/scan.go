package blobtrigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// receiptTag is the metadata name of a receipt's ETag.
const receiptTag = "blobetag"

// scanner finds blobs for which no message was put. It puts the message first and the receipt second: if it stops
// in between, it puts the message again, so that no blob is lost.
type scanner struct {
	blobs    *azblob.Client
	pattern  blobpath.Pattern
	function string
	receipts string // prefix of receipt names in HostContainer, before the blob's name
	put      func(context.Context, message) error

	log    *slog.Logger
	absent bool // the last scan found no container

	// notified has the ETags for which messages were put, by blob name, as of the last scan and the changes after it.
	notified map[string]string
	// position is the position in the service's change feed after that; empty if it has none.
	position string
	// reached is the position up to which messages were put, for other goroutines; nil before the first scan has finished.
	reached atomic.Pointer[string]
}

// maxScanFailures is the number of failed blobs after which a scan ends.
const maxScanFailures = 10

// scan compares every blob with its receipt.
func (s *scanner) scan(ctx context.Context) error {
	known, err := s.known(ctx)
	if err != nil {
		return fmt.Errorf("list the receipts: %w", err)
	}
	notified := make(map[string]string, len(known))
	var failures []error
	var answer *http.Response
	// An empty position requests a full listing, and the position of the changes after it.
	first := policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), queues.FeedHeader("", 0))
	s.position = ""
	pager := s.blobs.NewListBlobsFlatPager(s.pattern.Container,
		&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(s.pattern.Prefix)})
	for ask := first; pager.More(); ask = ctx {
		page, err := pager.NextPage(ask)
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			if !s.absent {
				s.log.Warn("the container does not exist; waiting for it", "container", s.pattern.Container)
			}
			s.absent = true
			break
		}
		if err != nil {
			return fmt.Errorf("list container %s: %w", s.pattern.Container, err)
		}
		s.absent = false
		for _, item := range page.Segment.BlobItems {
			name, etag, ok := s.match(item)
			if !ok {
				continue
			}
			if known[name] != etag {
				if err := s.notify(ctx, item, etag); err != nil {
					failures = append(failures, fmt.Errorf("blob %s/%s: %w", s.pattern.Container, name, err))
				}
				// An error of one blob must not stop the scan; many errors mean that storage fails.
				if len(failures) == maxScanFailures || ctx.Err() != nil {
					return errors.Join(failures...)
				}
			}
			notified[name] = etag
			delete(known, name)
		}
	}
	if err := errors.Join(errors.Join(failures...), s.forget(ctx, known)); err != nil {
		return err
	}
	s.notified = notified
	if answer != nil {
		s.position = answer.Header.Get(longpoll.PositionHeader)
	}
	reached := s.position
	s.reached.Store(&reached)
	return nil
}

// match returns the name and ETag of a listed blob if it triggers the function.
func (s *scanner) match(item *container.BlobItem) (name, etag string, ok bool) {
	name = ptr.Value(item.Name)
	if !s.matches(name) || item.Properties == nil || item.Properties.ETag == nil {
		return "", "", false
	}
	return name, string(*item.Properties.ETag), true
}

func (s *scanner) matches(name string) bool {
	_, ok := s.pattern.Match(name)
	return ok
}

// follow waits at most most for changes and puts their messages. It sets an empty position if a scan is needed.
func (s *scanner) follow(ctx context.Context, most time.Duration) error {
	page, err := s.changes(ctx, s.position, min(most, queues.LongWait))
	if err != nil || !page.known {
		s.position = ""
		return err
	}
	for _, item := range page.items {
		name, etag, ok := s.match(item)
		if !ok || s.notified[name] == etag {
			continue
		}
		if err := s.notify(ctx, item, etag); err != nil {
			s.position = ""
			return fmt.Errorf("blob %s/%s: %w", s.pattern.Container, name, err)
		}
		s.notified[name] = etag
	}
	s.position = page.position
	s.reached.Store(&page.position)
	return nil
}

// changedBlobs is a page of the change feed.
type changedBlobs struct {
	items    []*container.BlobItem
	position string
	known    bool // false: the service does not know the requested position; a scan is needed
}

// changes returns the changes after a position, for which it waits at most most.
func (s *scanner) changes(ctx context.Context, position string, most time.Duration) (changedBlobs, error) {
	var answer *http.Response
	ask := policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), queues.FeedHeader(position, most))
	page, err := s.blobs.NewListBlobsFlatPager(s.pattern.Container,
		&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(s.pattern.Prefix)}).NextPage(ask)
	if err != nil || answer.Header.Get(longpoll.FeedHeader) != longpoll.FeedChanges {
		return changedBlobs{}, err
	}
	return changedBlobs{page.Segment.BlobItems, answer.Header.Get(longpoll.PositionHeader), true}, nil
}

// known returns the ETags of receipts by blob name.
func (s *scanner) known(ctx context.Context) (map[string]string, error) {
	known := map[string]string{}
	pager := s.blobs.NewListBlobsFlatPager(locks.HostContainer, &azblob.ListBlobsFlatOptions{
		Prefix: to.Ptr(s.receipts + s.pattern.Prefix), Include: container.ListBlobsInclude{Metadata: true},
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			return known, nil
		}
		if err != nil {
			return nil, err
		}
		for _, item := range page.Segment.BlobItems {
			for name, etag := range item.Metadata {
				if strings.EqualFold(name, receiptTag) { // Headers are canonicalised on their way.
					// Receipts of blobs that do not match belong to a function of the same name with another path.
					if blob := ptr.Value(item.Name)[len(s.receipts):]; s.matches(blob) {
						known[blob] = ptr.Value(etag)
					}
				}
			}
		}
	}
	return known, nil
}

func (s *scanner) notify(ctx context.Context, item *container.BlobItem, etag string) error {
	m := message{Type: "BlobTrigger", FunctionId: s.function, ContainerName: s.pattern.Container,
		BlobName: ptr.Value(item.Name), ETag: quoted(etag)}
	if t := item.Properties.BlobType; t != nil {
		m.BlobType = string(*t)
	}
	if err := fault.Point(pointBeforeNotify); err != nil {
		return err
	}
	if err := s.put(ctx, m); err != nil {
		return fmt.Errorf("put a message: %w", err)
	}
	if err := fault.Point(pointAfterNotify); err != nil {
		return err
	}
	receipt := locks.New(s.blobs)
	err := receipt.WithContainer(ctx, func() error {
		_, err := receipt.Blob(s.receipts+m.BlobName).UploadBuffer(ctx, nil,
			&blockblob.UploadBufferOptions{Metadata: map[string]*string{receiptTag: to.Ptr(etag)}})
		return err
	})
	if err != nil {
		return fmt.Errorf("put a receipt: %w", err)
	}
	return fault.Point(pointAfterReceipt)
}

// forget deletes the receipts of deleted blobs.
func (s *scanner) forget(ctx context.Context, gone map[string]string) error {
	for name := range gone {
		if _, err := locks.New(s.blobs).Blob(s.receipts+name).Delete(ctx, nil); err != nil && !locks.IsMissing(err) {
			return fmt.Errorf("remove the receipt of %s: %w", name, err)
		}
	}
	return nil
}

// quoted returns an ETag in quotes, as in headers; listings have no quotes.
func quoted(etag string) string {
	if len(etag) > 0 && etag[0] != '"' {
		return `"` + etag + `"`
	}
	return etag
}
