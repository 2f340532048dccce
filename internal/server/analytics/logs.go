package analytics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

const (
	// LogsContainer is the container of the logs. The first log creates it.
	LogsContainer = "$logs"
	// maxBuffered bounds the lines of one account's service that wait to be written, in bytes. Lines beyond it are
	// dropped.
	maxBuffered = 8 << 20
	// flushAt is the size at which a buffer is written without waiting for the next turn.
	flushAt = 1 << 20
)

// page has the lines of one service and hour that wait to be written.
type page struct {
	lines       bytes.Buffer
	version     string
	kinds       kind
	first, last time.Time
}

type logKey struct {
	account string
	service wire.Service
	hour    string
}

// log adds the request's line to its page.
func (a *Analytics) log(p *properties.Properties, r *wire.Request, o frontend.Outcome) {
	k := kindOf(r)
	if l := p.Logging; !logged(o) || k == reads && !l.Read || k == writes && !l.Write || k == deletes && !l.Delete {
		return
	}
	version := p.Logging.Version
	if version != "2.0" {
		version = "1.0"
	}
	ended := r.Now.Add(o.Duration)
	line := appendLine(make([]byte, 0, 768), version, r, o)
	a.mu.Lock()
	defer a.mu.Unlock()
	// A line belongs to the blob of the hour in which the request ended, as on Azure.
	key := logKey{r.Account, r.Service, hourOf(ended)}
	pg := a.pages[key]
	if pg == nil {
		pg = &page{version: version, first: r.Now}
		a.pages[key] = pg
	}
	// Lost lines are counted and reported. Requests must not wait for the log, and memory is bounded.
	if pg.lines.Len()+len(line) > maxBuffered {
		a.lost++
		return
	}
	pg.lines.Write(line)
	pg.kinds |= k
	if r.Now.Before(pg.first) {
		pg.first = r.Now
	}
	if r.Now.After(pg.last) {
		pg.last = r.Now
	}
	if pg.lines.Len() >= flushAt {
		// The writer may be busy with the page already; a second wake-up adds nothing.
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// logBlob is a page that is to be written as a new blob.
type logBlob struct {
	key logKey
	*page
	tried string // name of a write whose outcome is unknown, or ""
}

// flushLogs writes each page as a new blob. When the blobs are not available, the next flush tries again what is left.
func (a *Analytics) flushLogs(ctx context.Context) error {
	a.mu.Lock()
	pages, lost := a.pages, a.lost
	a.pages, a.lost = make(map[logKey]*page), 0
	a.mu.Unlock()
	for key, pg := range pages {
		a.logs = append(a.logs, &logBlob{key: key, page: pg})
	}
	list := a.logs
	a.logs = nil
	var errs []error
	for i, next := range list {
		err := a.writeLog(ctx, next)
		if err != nil {
			errs = append(errs, fmt.Errorf("write the %s log of %s: %w", next.key.service, next.key.account, err))
		}
		if unavailable(err) {
			a.logs = append(append(a.logs, list[i+1:]...), next)
			break
		}
	}
	if lost += a.dropLogs(); lost > 0 {
		errs = append(errs, fmt.Errorf("%d log lines came faster than they could be written and are lost", lost))
	}
	return errors.Join(errs...)
}

// dropLogs drops pages until those that wait are not too long together. It returns the number of their lines.
func (a *Analytics) dropLogs() (lines int) {
	length := 0
	for _, l := range a.logs {
		length += l.lines.Len()
	}
	for ; length > maxBuffered; a.logs = a.logs[1:] {
		length -= a.logs[0].lines.Len()
		lines += bytes.Count(a.logs[0].lines.Bytes(), []byte("\n"))
	}
	return lines
}

// writeLog writes a page as a new blob. If it is called again after a write whose outcome is unknown, it looks for that
// first.
func (a *Analytics) writeLog(ctx context.Context, l *logBlob) error {
	client, err := a.blobs(l.key.account)
	if err != nil {
		return err
	}
	prefix := l.key.service.String() + "/" + l.key.hour + "/"
	name := l.tried
	for range nameConflicts {
		if name == "" {
			counter, err := a.nextCounter(ctx, client, l.key, prefix)
			if err != nil {
				return err
			}
			name = fmt.Sprintf("%s%06d.log", prefix, counter)
		}
		err = l.upload(ctx, client, name)
		if bloberror.HasCode(err, bloberror.BlobAlreadyExists) && name == l.tried {
			if same, err := l.is(ctx, client, name); same || err != nil {
				return err
			}
		}
		if !bloberror.HasCode(err, bloberror.BlobAlreadyExists) {
			if unknownOutcome(err) {
				l.tried = name
			}
			return err
		}
		delete(a.counters, l.key) // another node of a cluster has taken the name
		name, l.tried = "", ""
	}
	return err
}

// upload writes a page as a blob that must not exist.
func (l *logBlob) upload(ctx context.Context, client *azblob.Client, name string) error {
	options := &blockblob.UploadBufferOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(
			azcore.ETagAny)}},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/plain")},
		Metadata: map[string]*string{
			"LogType":    to.Ptr(logType(l.kinds)),
			"LogVersion": to.Ptr(l.version),
			"StartTime":  to.Ptr(l.first.UTC().Format("2006-01-02T15:04:05Z")),
			"EndTime":    to.Ptr(l.last.UTC().Format("2006-01-02T15:04:05Z")),
		},
	}
	_, err := client.UploadBuffer(ctx, LogsContainer, name, l.lines.Bytes(), options)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err = client.CreateContainer(ctx, LogsContainer, nil); err == nil ||
			bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			_, err = client.UploadBuffer(ctx, LogsContainer, name, l.lines.Bytes(), options)
		}
	}
	return err
}

// is reports whether a blob has the lines of a page. Lines have numbers of requests, so that no other page has the
// same.
func (l *logBlob) is(ctx context.Context, client *azblob.Client, name string) (bool, error) {
	answer, err := client.DownloadStream(ctx, LogsContainer, name, nil)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	stored, err := io.ReadAll(io.LimitReader(answer.Body, int64(l.lines.Len())+1))
	return bytes.Equal(stored, l.lines.Bytes()), err
}

// nameConflicts is the number of times that the name of a new log blob may be taken by other nodes.
const nameConflicts = 100

// nextCounter returns the number of the next log blob of a service's hour, after those of earlier processes. Flushes of
// one process do not overlap.
func (a *Analytics) nextCounter(ctx context.Context, client *azblob.Client, key logKey, prefix string) (int, error) {
	if c, ok := a.counters[key]; ok {
		a.counters[key] = c + 1
		return c, nil
	}
	next := 0
	pager := client.NewListBlobsFlatPager(LogsContainer, &container.ListBlobsFlatOptions{Prefix: &prefix})
	for pager.More() {
		answer, err := pager.NextPage(ctx)
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			break
		}
		if err != nil {
			return 0, err
		}
		for _, item := range answer.Segment.BlobItems {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(*item.Name, prefix), ".log"))
			if err == nil && n >= next {
				next = n + 1
			}
		}
	}
	for old := range a.counters { // remove those of earlier hours
		if old.account == key.account && old.service == key.service && old.hour < key.hour {
			delete(a.counters, old)
		}
	}
	a.counters[key] = next + 1
	return next, nil
}

// expireLogs deletes log blobs of an account's service whose hour ended more than days ago.
func (a *Analytics) expireLogs(ctx context.Context, account string, svc wire.Service, days int) error {
	client, err := a.blobs(account)
	if err != nil {
		return err
	}
	before := svc.String() + "/" + hourOf(a.now().AddDate(0, 0, -days)) + "/"
	prefix := svc.String() + "/"
	pager := client.NewListBlobsFlatPager(LogsContainer, &container.ListBlobsFlatOptions{Prefix: &prefix})
	for pager.More() {
		answer, err := pager.NextPage(ctx)
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, item := range answer.Segment.BlobItems {
			if *item.Name >= before { // names are ordered by time
				return nil
			}
			if _, err := client.DeleteBlob(ctx, LogsContainer, *item.Name, nil); err != nil &&
				!bloberror.HasCode(err, bloberror.BlobNotFound) {
				return err
			}
		}
	}
	return nil
}

// blobs returns a client for an account's blobs that needs no credential.
func (a *Analytics) blobs(account string) (*azblob.Client, error) {
	return azblob.NewClientWithNoCredential(a.url(wire.Blob, account), &azblob.ClientOptions{ClientOptions: a.options})
}
