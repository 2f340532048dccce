package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

const (
	// bucketTries is how often a request to a bucket is sent, with pauses of a second at most.
	bucketTries = 3
	// bucketTime bounds a request to a bucket, with its body, and bucketAnswer the wait for the answer to a request that
	// was sent. A reader of the tier waits shorter.
	bucketTime   = 10 * time.Minute
	bucketAnswer = time.Minute
	// renewalTime bounds a renewal of the lock, so that two that fail end before another process may take it.
	renewalTime = 5 * time.Second
	// maxBucketFile is the size in bytes of the largest file that is read as a whole, and maxBucketObject that of the
	// largest object that S3 takes in one request.
	maxBucketFile   = 1 << 30
	maxBucketObject = 5 << 30

	// probeName is the file with which a bucket is asked whether it looks at conditions.
	probeName = "probe"
	defaultS3 = "us-east-1"
	freeLock  = "free"
)

// ErrNoConditions means that a store replaces what was to be created once. It cannot be a place: two servers would
// both own it.
var ErrNoConditions = errors.New("the store ignores If-None-Match or If-Match on writes, so it cannot be a place")

// bucket is a prefix of a bucket of S3.
type bucket struct {
	client *minio.Core
	bucket string
	prefix string // "" or with a slash at its end
	text   string // the address with its query, which has no secrets

	// probed are the conditions that the store was found to look at.
	mu     sync.Mutex
	probed map[string]bool
}

// Bucket returns the place at s3://BUCKET/PREFIX. The query can have endpoint (the URL of the store; else
// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's) and region (else AWS_REGION or AWS_DEFAULT_REGION, else
// us-east-1). The keys are those of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, of the file that
// the AWS tools have, or of the machine's role. The bucket must exist.
func Bucket(text string) (Place, error) { return openBucket(text) }

func openBucket(text string) (*bucket, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" || u.Fragment != "" {
		return nil, errors.New("the address of a bucket is s3://BUCKET/PREFIX, with ?endpoint=URL&region=NAME if needed")
	}
	if u.User != nil {
		return nil, errors.New("the address of a bucket must not have keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the query of the address of a bucket does not parse")
	}
	// A name that is misspelt would send the data to another store.
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("the address of a bucket has endpoint and region in its query, not %q", name)
		}
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	// What the address says goes before the variables, so that one process can use two stores.
	region := cmp.Or(query.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), defaultS3)
	address := cmp.Or(query.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"),
		"https://s3."+region+".amazonaws.com")
	endpoint, err := url.Parse(address)
	if err != nil || endpoint.Host == "" || strings.Trim(endpoint.Path, "/") != "" || endpoint.RawQuery != "" ||
		endpoint.User != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, errors.New("the endpoint of a bucket is a URL such as https://s3.eu-central-1.amazonaws.com, " +
			"without a path")
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = bucketAnswer
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return nil, err
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: endpoint.Scheme == "https", Transport: transport, Region: region, MaxRetries: bucketTries})
	if err != nil {
		return nil, err
	}
	return &bucket{client: client, bucket: u.Host, prefix: prefix, text: text, probed: map[string]bool{}}, nil
}

func (b *bucket) String() string { return b.text }

func (b *bucket) address(name string) string { return "s3://" + b.bucket + "/" + b.prefix + name }

// fail returns err with the name of the file, for people.
func (b *bucket) fail(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", b.address(name), err)
}

// codeOf is the code of S3's answer; "" if there was none.
func codeOf(err error) string {
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return answer.Code
	}
	return ""
}

// refusedCondition reports whether a write was refused because of its condition: 412, or 404 of If-Match without a
// file.
func refusedCondition(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (answer.StatusCode == http.StatusPreconditionFailed || answer.Code == "NoSuchKey")
}

// put sends content in one request, so that the object appears as a whole and a condition is about all of it. Its
// SHA-256, which the store compares, is taken first: the content is read once more for it.
func (b *bucket) put(ctx context.Context, name string, content io.ReaderAt, size int64,
	condition func(*minio.PutObjectOptions)) (etag string, err error) {
	if size > maxBucketObject {
		return "", fmt.Errorf("%s: %d bytes are more than S3 takes", b.address(name), size)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, io.NewSectionReader(content, 0, size), size); err != nil {
		return "", b.fail(name, err)
	}
	o := minio.PutObjectOptions{DisableContentSha256: true, ContentType: "application/octet-stream"}
	if condition != nil {
		condition(&o)
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	// 409 means that another conditional write was under way: the outcome of the next try is certain.
	for try := 1; ; try++ {
		info, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, io.NewSectionReader(content, 0, size), size, "",
			hex.EncodeToString(sum.Sum(nil)), o)
		if codeOf(err) != "ConditionalRequestConflict" || try == bucketTries {
			return info.ETag, b.fail(name, err)
		}
		select {
		case <-time.After(time.Duration(try) * 100 * time.Millisecond):
		case <-ctx.Done():
			return "", b.fail(name, ctx.Err())
		}
	}
}

// once and match are the conditions of writes.
func once(o *minio.PutObjectOptions) { o.SetMatchETagExcept("*") }

func match(etag string) func(*minio.PutObjectOptions) {
	return func(o *minio.PutObjectOptions) { o.SetMatchETag(etag) }
}

// probe asks the store, once for each condition, whether it refuses a write because of it: the file is there after the
// first write, so the second one must fail. An answer that is no refusal is not remembered.
func (b *bucket) probe(ctx context.Context, header string, condition func(*minio.PutObjectOptions)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probed[header] {
		return nil
	}
	text := strings.NewReader("whether writes look at conditions\n")
	if _, err := b.put(ctx, probeName, text, text.Size(), nil); err != nil {
		return err
	}
	_, err := b.put(ctx, probeName, text, text.Size(), condition)
	switch {
	case err == nil:
		return fmt.Errorf("%s (%s): %w", b.text, header, ErrNoConditions)
	case codeOf(err) == "NotImplemented":
		return fmt.Errorf("%s (%s): %w: %w", b.text, header, ErrNoConditions, err)
	case !refusedCondition(err):
		return err
	}
	b.probed[header] = true
	return nil
}

// create writes an object that must not exist, after the store has shown that it looks.
func (b *bucket) create(ctx context.Context, name string, content io.ReaderAt, size int64) (exists bool, err error) {
	if err := b.probe(ctx, "If-None-Match", once); err != nil {
		return false, err
	}
	_, err = b.put(ctx, name, content, size, once)
	if refusedCondition(err) {
		return true, nil
	}
	return false, err
}

// read returns a file of at most maxBucketFile bytes, with what the answer says of it.
func (b *bucket) read(ctx context.Context, name string) ([]byte, minio.ObjectInfo, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	body, info, header, err := b.client.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	// A bucket that is gone is no proof that its files are: a standby's fence must not take it for that.
	if codeOf(err) == "NoSuchKey" {
		return nil, info, nil, b.fail(name, ErrAbsent)
	}
	if err != nil {
		return nil, info, nil, b.fail(name, err)
	}
	defer body.Close()
	if info.Size > maxBucketFile {
		return nil, info, nil, fmt.Errorf("%s: %w: it has %d bytes", b.address(name), ErrDamaged, info.Size)
	}
	content, err := io.ReadAll(io.LimitReader(body, maxBucketFile+1))
	if err == nil && int64(len(content)) != info.Size {
		err = io.ErrUnexpectedEOF
	}
	return content, info, header, b.fail(name, err)
}

func (b *bucket) Get(ctx context.Context, name string) ([]byte, error) {
	content, _, _, err := b.read(ctx, name)
	return content, err
}

func (b *bucket) Put(ctx context.Context, name string, content []byte) error {
	_, err := b.put(ctx, name, bytes.NewReader(content), int64(len(content)), nil)
	return err
}

func (b *bucket) Create(ctx context.Context, name string, content []byte) error {
	exists, err := b.create(ctx, name, bytes.NewReader(content), int64(len(content)))
	if exists {
		err = b.fail(name, ErrExists)
	}
	return err
}

// list calls fn with the files, without the lock and the probe.
func (b *bucket) list(ctx context.Context, prefix string, fn func(string, int64) error) error {
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix,
		Recursive: true}) {
		if o.Err != nil {
			return b.fail(prefix, o.Err)
		}
		name := strings.TrimPrefix(o.Key, b.prefix)
		if name == lockName || name == probeName || name == "" || strings.HasSuffix(name, "/") {
			continue // consoles make objects for folders
		}
		if err := fn(name, o.Size); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (b *bucket) List(ctx context.Context, prefix string, fn func(string) error) error {
	return b.list(ctx, prefix, func(name string, _ int64) error { return fn(name) })
}

func (b *bucket) Exists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true,
		MaxKeys: 1}) {
		if codeOf(o.Err) == "NoSuchBucket" {
			return false, nil
		}
		return o.Err == nil, b.fail("", o.Err)
	}
	return false, ctx.Err()
}

// ErrNoBucket means that a bucket does not exist. It is not made: the name may be a mistake, and how its data is kept
// is the choice of the one who makes it.
var ErrNoBucket = errors.New("the bucket does not exist: make it, or correct its name")

// lookTime bounds the look at a bucket when a server starts.
const lookTime = 5 * time.Second

// CheckBucket returns [ErrNoBucket] if text is the address of a bucket that does not exist. A store that does not
// answer, or refuses, may do better later, and is no error.
func CheckBucket(ctx context.Context, text string) error {
	if !strings.HasPrefix(text, "s3://") {
		return nil
	}
	b, err := openBucket(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix, MaxKeys: 1}) {
		if codeOf(o.Err) == "NoSuchBucket" {
			return b.fail("", ErrNoBucket)
		}
		return nil
	}
	return nil
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTime)
	defer cancel()
	err := b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{})
	if codeOf(err) == "NoSuchKey" {
		return nil
	}
	return b.fail(name, err)
}

// Lock writes the file "lock" on the condition that it does not exist, is free, or was not renewed for a minute by the
// store's own clock; each renewal, and the release, replaces the version before it and nothing else.
func (b *bucket) Lock(ctx context.Context) (context.Context, func() error, error) {
	other := match(strings.Repeat("0", 32)) // the ETag of nothing
	if err := errors.Join(b.probe(ctx, "If-None-Match", once), b.probe(ctx, "If-Match", other)); err != nil {
		return nil, nil, err
	}
	condition := once
	held, info, header, err := b.read(ctx, lockName)
	switch {
	case errors.Is(err, ErrAbsent):
	case err != nil:
		return nil, nil, err
	default:
		now, err := http.ParseTime(header.Get("Date"))
		if string(held) != freeLock && (err != nil || now.Sub(info.LastModified) <= leaseTime) {
			return nil, nil, fmt.Errorf("%s: %w; if it died, wait a minute", b.text, ErrLocked)
		}
		condition = match(info.ETag)
	}
	l := &bucketLock{b: b, holder: rand.Text()}
	if err := l.write(ctx, condition, l.holder); err != nil {
		if refusedCondition(err) {
			err = fmt.Errorf("%s: %w; if it died, wait a minute", b.text, ErrLocked)
		}
		return nil, nil, err
	}
	locked, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.renew(locked, cancel)
	}()
	return locked, func() error {
		cancel(nil)
		<-ended
		// The lock is released also if ctx has ended. Otherwise the next backup would wait for its end.
		err := l.write(context.WithoutCancel(ctx), match(l.etag), freeLock)
		if refusedCondition(err) {
			err = nil // another process has taken it
		}
		return err
	}, nil
}

// bucketLock is a lock that this process has.
type bucketLock struct {
	b            *bucket
	holder, etag string
	renewals     int
}

// write replaces the version of the lock that condition names. A write whose answer was lost is found by its content.
func (l *bucketLock) write(ctx context.Context, condition func(*minio.PutObjectOptions), text string) error {
	etag, err := l.b.put(ctx, lockName, strings.NewReader(text), int64(len(text)), condition)
	if refusedCondition(err) && text != freeLock {
		if now, info, _, readErr := l.b.read(ctx, lockName); readErr == nil && string(now) == text {
			etag, err = info.ETag, nil
		}
	}
	if err == nil {
		l.etag = etag
	}
	return err
}

// renew writes the lock again until ctx ends. One renewal that fails is no loss yet, as with a lease; one that finds
// another version is.
func (l *bucketLock) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaseRenewal):
		}
		l.renewals++
		at := time.Now()
		trying, done := context.WithTimeout(ctx, renewalTime)
		err := l.write(trying, match(l.etag), fmt.Sprint(l.holder, " ", l.renewals))
		done()
		if err == nil {
			last = at
		} else if refusedCondition(err) || time.Since(last) > leaseTime-2*leaseRenewal {
			cancel(fmt.Errorf("%s: the lock was lost: %w", l.b.text, err))
			return
		}
	}
}

// bucketObjects are objects in a bucket.
type bucketObjects struct{ *bucket }

// Create looks first, so that content that is there is not sent again.
func (b bucketObjects) Create(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	if _, err := b.client.StatObject(ctx, b.bucket.bucket, b.prefix+name, minio.StatObjectOptions{}); err == nil {
		return tier.ErrExists
	}
	exists, err := b.create(ctx, name, content, size)
	if exists {
		err = tier.ErrExists
	}
	return err
}

// Range implements [tier.Objects].
func (b bucketObjects) Range(ctx context.Context, name string, off int64, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(off, off+int64(len(p))-1); err != nil {
		return err
	}
	body, info, header, err := b.client.GetObject(ctx, b.bucket.bucket, b.prefix+name, o)
	switch {
	case codeOf(err) == "NoSuchKey":
		return b.fail(name, tier.ErrAbsent)
	case codeOf(err) == "InvalidRange":
		return io.ErrUnexpectedEOF
	case err != nil:
		return b.fail(name, err)
	}
	defer body.Close()
	if !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", off)) {
		return b.fail(name, errors.New("the store does not answer with the range that was asked for"))
	}
	if err = readRange(body, p, info.Size); err != nil && err != io.ErrUnexpectedEOF {
		err = b.fail(name, err)
	}
	return err
}

// List implements [tier.Objects].
func (b bucketObjects) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return b.list(ctx, prefix, fn)
}
