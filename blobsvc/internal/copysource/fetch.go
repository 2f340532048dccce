package copysource

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

const (
	// remoteTimeout is the time limit for a source's response, and for each next remoteUnit of its content, unless the
	// configuration sets another time.
	remoteTimeout = 30 * time.Second
	// remoteUnit is the number of bytes of a source's content that must arrive within that time; fewer suffice at its end.
	// It sets the minimum rate of a source to 2 KiB/s: a slower one could occupy a request or a copy's slot without a
	// limit.
	remoteUnit = 64 << 10
	// remoteVersion is the version in requests to a source whose token requires one.
	remoteVersion = "2021-12-02"
)

// Fetcher reads copy sources outside this process. Its methods are safe for concurrent use.
type Fetcher struct {
	// Egress decides which hosts are allowed.
	Egress *egress.Policy
	// Timeout is the time limit for a source's answer, and for each next 64 KiB of its content.
	Timeout time.Duration
	Log     *slog.Logger
	// Shards serves the blobs of all shards of this server, of which only a part are in the state; nil without shards.
	Shards http.Handler
	web    *http.Client
}

// inShard begins the URL of a source that another shard of this server has. No client can write it: the URL that a
// client sends begins with the name of a protocol.
const inShard = "shard:"

// InShard is the URL of a source that another shard of this server has.
func InShard(address string) string { return inShard + address }

// NewFetcher returns a fetcher. Timeout 0 is 30 seconds.
func NewFetcher(policy *egress.Policy, timeout time.Duration, log *slog.Logger) *Fetcher {
	timeout = cmp.Or(timeout, remoteTimeout)
	return &Fetcher{Egress: policy, Timeout: timeout, Log: log, web: policy.Client(timeout)}
}

// Close closes idle connections.
func (f *Fetcher) Close() { f.web.CloseIdleConnections() }

// Source is a copy source outside this process.
type Source struct {
	URL string
	// Token is the Authorization header that the source wants, Intent its x-ms-file-request-intent; "" for none.
	Token, Intent string
	// Tags is a condition on the tags of the source, and Key the key of its content. They are for sources in this server.
	Tags string
	Key  *encryption.CustomerKey
	// If must hold for the source.
	If state.Conditions
}

// Get asks for a range of a source, which must still have the entity tag unless that is "". The caller closes what it
// returns. It fails with a [*SourceError] for conditions of src that do not hold, and otherwise with the code
// CannotVerifyCopySource.
func (f *Fetcher) Get(ctx context.Context, src *Source, rng state.Range, etag string) (b state.SourceContent,
	err error) {
	header := http.Header{}
	if rng != state.WholeBlob {
		header.Set("Range", rangeHeader(rng))
	}
	if etag != "" {
		header.Set("If-Match", etag)
	}
	if src.Token != "" {
		header.Set("Authorization", src.Token)
		header.Set("X-Ms-Version", remoteVersion)
	}
	if src.Intent != "" {
		header.Set("X-Ms-File-Request-Intent", src.Intent)
	}
	// What only a source in this server is asked for: the services of others may not know it.
	if src.Tags != "" {
		header.Set("X-Ms-If-Tags", src.Tags)
		header.Set("X-Ms-Version", remoteVersion)
	}
	if src.Key != nil {
		header.Set("X-Ms-Encryption-Key", base64.StdEncoding.EncodeToString(src.Key.Key))
		header.Set("X-Ms-Encryption-Key-Sha256", base64.StdEncoding.EncodeToString([]byte(src.Key.SHA256)))
		header.Set("X-Ms-Encryption-Algorithm", "AES256")
		header.Set("X-Ms-Version", remoteVersion)
	}
	resp, err := f.ask(ctx, src.URL, header)
	if err != nil {
		return b, err
	}
	// The tags are the only condition that is sent. Those of src.If are checked below, on the answer.
	if src.Tags != "" && resp.StatusCode == http.StatusPreconditionFailed {
		_ = resp.Body.Close()
		return b, &state.SourceError{Err: state.ErrTagCondition}
	}
	b = state.SourceContent{ReadCloser: resp.Body, ETag: resp.Header.Get("ETag")}
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
	if err = readHead(&b, resp, rng); err == nil {
		if err = src.If.Check(strings.Trim(strings.TrimPrefix(b.ETag, "W/"), `"`), modified); err != nil {
			err = &state.SourceError{Err: err}
		}
	}
	if err != nil {
		_ = b.Close()
	}
	return b, err
}

// ask sends one request to a source. The caller closes the response's body. Reading it fails if the source stalls.
func (f *Fetcher) ask(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	var resp *http.Response
	var err error
	if at, ok := strings.CutPrefix(address, inShard); ok {
		resp, err = f.askShard(ctx, at, header)
	} else {
		resp, err = f.Egress.Fetch(ctx, f.web, address, header)
	}
	if err != nil {
		cancel()
		if errors.Is(err, egress.ErrRefused) {
			return nil, errSourceRefused
		}
		// log it for the operator; the client must not learn it, see egress.ErrNotPublic
		if errors.Is(err, egress.ErrNotPublic) {
			f.Log.Info("a copy source was refused: the name of its host leads to a private address", "service", "blob", "source",
				hostOf(address))
		}
		return nil, errTimeout
	}
	resp.Body = newStallTimeoutReader(resp.Body, f.Timeout, cancel)
	return resp, nil
}

// askShard is ask for a source in another shard of this server, which checks its caller as it checks a client.
func (f *Fetcher) askShard(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil || f.Shards == nil { // a folder with shards was opened as one without
		return nil, egress.ErrRefused
	}
	r.Header = header
	if r.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	inside := inproc.Transport{Handlers: map[string]http.Handler{r.URL.Host: f.Shards}}
	return inside.RoundTrip(r)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// readHead reads the headers of a source's response: those that say which bytes arrive, and the properties that it
// names: type, length, headers, metadata, sequence number.
func readHead(b *state.SourceContent, resp *http.Response, rng state.Range) (err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		b.Length, b.Blob.Length = resp.ContentLength, resp.ContentLength
	case http.StatusPartialContent:
		_, total, _ := strings.Cut(resp.Header.Get("Content-Range"), "/")
		if b.Blob.Length, err = strconv.ParseInt(total, 10, 64); err != nil {
			return errSourceLength
		}
		b.Length = resp.ContentLength
	default:
		return sourceStatus(resp)
	}
	if b.Length < 0 || b.Blob.Length < 0 {
		return errSourceLength
	}
	if resp.StatusCode == http.StatusOK && rng != state.WholeBlob { // the source does not support ranges
		off, n, err := rng.Within(b.Blob.Length)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, b, off); err != nil {
			return errTimeout
		}
		b.Length = n
	}
	h := resp.Header
	b.Blob.Kind, _ = record.ParseKind(h.Get("X-Ms-Blob-Type"))
	if b.Blob.Kind == 0 {
		b.Blob.Kind = record.BlockBlob
	}
	b.Blob.Sequence, _ = strconv.ParseInt(h.Get("X-Ms-Blob-Sequence-Number"), 10, 64)
	b.Blob.Headers = record.Headers{ContentType: h.Get("Content-Type"), Encoding: h.Get("Content-Encoding"),
		Language: h.Get("Content-Language"), CacheControl: h.Get("Cache-Control"), Disposition: h.Get("Content-Disposition")}
	b.Blob.Headers.DispositionSet = b.Blob.Headers.Disposition != ""
	md5 := h.Get("X-Ms-Blob-Content-Md5")
	if md5 == "" && resp.StatusCode == http.StatusOK {
		md5 = h.Get("Content-Md5")
	}
	if sum, err := base64.StdEncoding.DecodeString(md5); err == nil && len(sum) == 16 {
		b.Blob.Headers.MD5 = string(sum)
	}
	r := wire.Request{HTTP: &http.Request{Header: h}}
	list, err := r.Metadata()
	for _, m := range list {
		b.Blob.Metadata = append(b.Blob.Metadata, record.Meta(m))
	}
	return err
}

// rangeHeader formats a range for the Range header.
func rangeHeader(r state.Range) string {
	text := "bytes=" + strconv.FormatInt(r.Start, 10) + "-"
	if r.End != state.OpenEnd {
		text += strconv.FormatInt(r.End, 10)
	}
	return text
}

// sourceStatus maps a source's error status to the error to respond with. It has the source's status, as in Azure.
func sourceStatus(resp *http.Response) error {
	code, status := resp.Header.Get("X-Ms-Error-Code"), resp.StatusCode
	message := "The copy source answered " + resp.Status + "."
	if code != "" {
		message = "The copy source answered " + resp.Status + " (" + code + ")."
	}
	if status < 400 && status != http.StatusNotModified { // a redirect, or another unusable status
		status = http.StatusBadRequest
	}
	e := sourceError(status, message).
		WithHeader("x-ms-copy-source-status-code", strconv.Itoa(resp.StatusCode))
	if code != "" {
		e = e.WithHeader("x-ms-copy-source-error-code", code)
	}
	return e
}

func sourceError(status int, message string) *wire.Error {
	return &wire.Error{Status: status, Code: "CannotVerifyCopySource", Message: message}
}

var (
	// errTimeout: the source cannot be reached, or stopped halfway.
	errTimeout = sourceError(http.StatusInternalServerError, "Could not verify the copy source within the specified time.")
	// errSourceChanged: the source has changed since the copy began.
	errSourceChanged = &wire.Error{Status: http.StatusPreconditionFailed, Code: "ConditionNotMet",
		Message: "The copy source changed while it was copied."}
	// errSourceRefused: the configuration does not allow the source's host.
	errSourceRefused = sourceError(http.StatusForbidden,
		"This server may not read copy sources at this host. Its operator can allow it with --allow-copy-source.")
	// errSourceLength: the source's response has no length.
	errSourceLength = sourceError(http.StatusBadRequest, "The copy source does not tell its length.")
)
