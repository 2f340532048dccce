package lazulitest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// Account is a storage account of a Lazuli, with what tests of workers do over and over. Its methods fail the test t
// that made it.
type Account struct {
	*workers.Storage
	// Name is the account's name.
	Name string

	t          testing.TB
	connection string
	app        *workers.App // the last one that Run started
}

// Account creates an account for the test: tests that share a server do not see each other's queues, tables and
// containers. Settings of its own are written as in an accounts file: "blob-versioning=true".
func (l *Lazuli) Account(t testing.TB, settings ...string) *Account {
	t.Helper()
	overrides, err := accountprops.ParseOverrides(settings)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // It never fails.
	key := base64.StdEncoding.EncodeToString(secret)
	parsed, err := auth.ParseKey(key)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	name := "test" + strings.ToLower(rand.Text()[:16])
	added := append(slices.Clone(l.made), auth.Account{Name: name, Keys: []auth.Key{parsed}, Overrides: overrides})
	if err := l.accounts.Replace(added...); err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	l.made = added
	return l.open(t, name, l.server.ConnectionStringOf(name, key))
}

// Default is the account devstoreaccount1, which all tests of one Lazuli share.
func (l *Lazuli) Default(t testing.TB) *Account {
	t.Helper()
	return l.open(t, auth.DevelopmentAccount, l.ConnectionString())
}

func (l *Lazuli) open(t testing.TB, name, connection string) *Account {
	t.Helper()
	storage, err := workers.OpenStorage(connection, workers.WithTransport(l.Client()))
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	return &Account{Storage: storage, Name: name, t: t, connection: connection}
}

// ConnectionString returns what the Azure SDKs connect with.
func (a *Account) ConnectionString() string { return a.connection }

// encode writes a message as handlers expect it: bytes and strings as they are, everything else as JSON.
func (a *Account) encode(body any) []byte {
	a.t.Helper()
	switch b := body.(type) {
	case []byte:
		return b
	case string:
		return []byte(b)
	}
	text, err := json.Marshal(body)
	if err != nil {
		a.t.Fatalf("lazulitest: the body: %v", err)
	}
	return text
}

// Put puts a message to a queue, and creates the queue if it is not there. Bytes and strings are sent as they are,
// everything else as JSON; all in base64, as workers expect it by default.
func (a *Account) Put(queue string, body any) {
	a.t.Helper()
	text := a.encode(body)
	client := a.Queues.NewQueueClient(queue)
	if err := queuetool.Put(a.t.Context(), client, text, queuetool.PutOptions{Create: true}); err != nil {
		a.t.Fatalf("lazulitest: put to %s: %v", queue, err)
	}
	if a.app != nil {
		a.app.Wake(queue) // On a clock that stands still nothing else would.
	}
}

// PutEntity inserts or replaces an entity, and creates the table if it does not exist. The entity is one that
// tables.CodecOf takes: a struct of package tables, a tables.Entity, a map with PartitionKey and RowKey, or JSON. The
// options are those of tables.New.
func (a *Account) PutEntity(table string, entity any, options ...tables.Option) {
	a.t.Helper()
	if err := tables.Put(a.t.Context(), a.Tables, table, entity, options...); err != nil {
		a.t.Fatalf("lazulitest: put an entity to %s: %v", table, err)
	}
}

// PutBlob writes a blob, and creates the container if it is not there.
func (a *Account) PutBlob(container, name, content string) {
	a.t.Helper()
	_, err := a.Blobs.UploadBuffer(a.t.Context(), container, name, []byte(content), nil)
	if hasCode(err, "ContainerNotFound") {
		if _, err := a.Blobs.CreateContainer(a.t.Context(), container, nil); err != nil {
			a.t.Fatalf("lazulitest: create the container %s: %v", container, err)
		}
		_, err = a.Blobs.UploadBuffer(a.t.Context(), container, name, []byte(content), nil)
	}
	if err != nil {
		a.t.Fatalf("lazulitest: put the blob %s/%s: %v", container, name, err)
	}
}

// Run starts an app, and stops it when the test ends.
func (a *Account) Run(app *workers.App) {
	a.t.Helper()
	if err := app.Start(context.Background()); err != nil {
		a.t.Fatalf("lazulitest: start the app: %v", err)
	}
	a.app = app
	a.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := app.Stop(ctx); err != nil {
			a.t.Errorf("lazulitest: stop the app: %v", err)
		}
	})
}

// drainTimeout bounds Drain. It is far longer than a busy machine needs: only a test that fails takes so long.
const drainTimeout = 3 * time.Minute

// Drain waits until the app that Run has started has nothing left that it could do now; see workers.App.WaitIdle. With
// a [Clock], advance it for what is to happen later: a retry with a delay, a timer.
func (a *Account) Drain() {
	a.t.Helper()
	if a.app == nil {
		a.t.Fatalf("lazulitest: Drain without Run")
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), drainTimeout)
	defer cancel()
	if err := a.app.WaitIdle(ctx); err != nil {
		a.t.Fatalf("lazulitest: drain: %v; functions: %+v", err, a.app.Stats())
	}
}

// Messages returns the decoded bodies of a queue's messages, hidden ones included, up to 1,000, in the order in which
// they become visible. A queue that does not exist has none.
func (a *Account) Messages(queue string) []string {
	a.t.Helper()
	list, err := queuetool.PeekAll(a.t.Context(), a.Queues.NewQueueClient(queue), 1000)
	if err != nil && !hasCode(err, "QueueNotFound") {
		a.t.Fatalf("lazulitest: look into %s: %v", queue, err)
	}
	bodies := []string{}
	for _, m := range list {
		bodies = append(bodies, m.Body)
	}
	return bodies
}

// RequireEnqueued fails the test unless the queue has a message with the body. What is not a string or bytes is
// compared as JSON, in which a message may have more properties than want.
func (a *Account) RequireEnqueued(queue string, want any) {
	a.t.Helper()
	bodies := a.Messages(queue)
	_, text := want.(string)
	_, raw := want.([]byte)
	wanted := a.encode(want)
	for _, body := range bodies {
		if body == string(wanted) || !text && !raw && covers([]byte(body), wanted) {
			return
		}
	}
	a.t.Fatalf("lazulitest: queue %s has no message %s; it has %q", queue, wanted, bodies)
}

// RequireEmpty fails the test unless the queue has no messages, not even hidden ones.
func (a *Account) RequireEmpty(queue string) {
	a.t.Helper()
	if bodies := a.Messages(queue); len(bodies) > 0 {
		a.t.Fatalf("lazulitest: queue %s is not empty; it has %q", queue, bodies)
	}
}

// RequireEntity fails the test unless the table has the entity, with the properties of want: a value that PutEntity
// takes, whose keys are not compared. The entity may have more properties; numbers compare by value, whatever their
// types. A nil want asks only that the entity exists. The options are those of tables.New, so that encrypted properties
// are compared.
func (a *Account) RequireEntity(table, partitionKey, rowKey string, want any, options ...tables.Option) {
	a.t.Helper()
	got, err := entityio.Get(a.t.Context(), a.Tables.NewClient(table), partitionKey, rowKey)
	if err != nil {
		a.t.Fatalf("lazulitest: entity %s (%q, %q): %v", table, partitionKey, rowKey, err)
	}
	if want == nil {
		return
	}
	if err := lacks(a.t.Context(), table, got.JSON, want, options); err != nil {
		a.t.Fatalf("lazulitest: entity %s (%q, %q) is %s: %v", table, partitionKey, rowKey, got.JSON, err)
	}
}

// lacks returns an error if the stored entity does not have the properties of want.
func lacks(ctx context.Context, table string, stored []byte, want any, options []tables.Option) error {
	codec, want, err := tables.CodecOf(want, table, options...)
	if err != nil {
		return err
	}
	wanted, err := codec.ToEntity(want)
	if err != nil {
		return err
	}
	value := reflect.New(codec.Type())
	if err := codec.Unmarshal(ctx, stored, value.Interface()); err != nil {
		return err
	}
	got, err := codec.ToEntity(value.Interface())
	if err != nil {
		return err
	}
	for name, w := range wanted.Properties {
		if g, ok := got.Properties[name]; !ok || !sameValue(g, w) {
			return fmt.Errorf("%s is %v, want %v", name, g, w)
		}
	}
	return nil
}

// sameValue compares properties: numbers by value, so that an Int32 can be an Int64 too.
func sameValue(got, want any) bool {
	g, isNumber := number(got)
	if w, ok := number(want); ok && isNumber {
		return g.Cmp(w) == 0
	}
	switch w := want.(type) {
	case float64: // NaN or infinite
		g, ok := got.(float64)
		return ok && (g == w || math.IsNaN(g) && math.IsNaN(w))
	case time.Time:
		g, ok := got.(time.Time)
		return ok && g.Equal(w)
	}
	return reflect.DeepEqual(got, want)
}

// number returns a finite number, exactly.
func number(v any) (*big.Float, bool) {
	switch v := v.(type) {
	case int32:
		return big.NewFloat(float64(v)), true
	case int64:
		return new(big.Float).SetInt64(v), true
	case float64:
		if !math.IsNaN(v) {
			return big.NewFloat(v), !math.IsInf(v, 0)
		}
	}
	return nil, false
}

// RequireNoEntity fails the test if the table has the entity.
func (a *Account) RequireNoEntity(table, partitionKey, rowKey string) {
	a.t.Helper()
	got, err := entityio.Get(a.t.Context(), a.Tables.NewClient(table), partitionKey, rowKey)
	switch {
	case err == nil:
		a.t.Fatalf("lazulitest: entity %s (%q, %q) is there: %s", table, partitionKey, rowKey, got.JSON)
	case !hasCode(err, "ResourceNotFound") && !hasCode(err, "TableNotFound"):
		a.t.Fatalf("lazulitest: entity %s (%q, %q): %v", table, partitionKey, rowKey, err)
	}
}

// RequireBlob fails the test unless the blob is there with the content.
func (a *Account) RequireBlob(container, name, content string) {
	a.t.Helper()
	buffer := make([]byte, len(content)+1)
	properties, err := a.Blobs.ServiceClient().NewContainerClient(container).NewBlobClient(name).GetProperties(
		a.t.Context(), nil)
	if err != nil {
		a.t.Fatalf("lazulitest: blob %s/%s: %v", container, name, err)
	}
	n := *properties.ContentLength
	if n == int64(len(content)) && n > 0 {
		_, err = a.Blobs.DownloadBuffer(a.t.Context(), container, name, buffer, nil)
	}
	if err != nil || n != int64(len(content)) || string(buffer[:n]) != content {
		a.t.Fatalf("lazulitest: blob %s/%s has %d bytes that are not %q: %v", container, name, n, content, err)
	}
}

// covers reports whether got, as JSON, has everything that want has: objects may have more properties.
func covers(got, want []byte) bool {
	g, ok := decode(got)
	w, ok2 := decode(want)
	return ok && ok2 && coversValue(g, w)
}

func decode(text []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // An Int64 must not lose digits.
	err := d.Decode(&v)
	return v, err == nil
}

func coversValue(got, want any) bool {
	object, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(got, want) || fmt.Sprint(got) == fmt.Sprint(want) // An Int64 travels as text.
	}
	has, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range object {
		if g, ok := has[name]; !ok || !coversValue(g, value) {
			return false
		}
	}
	return true
}

func hasCode(err error, code string) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == code
}

// Faults puts a fault plan in force until the test ends: "workers/before-delete-message=error@1" fails the first
// deletion of a message; see the workers' documentation for the points and actions. Faults concern the whole process,
// where apps of other tests would pass the points too: Faults panics in a test that is parallel. The returned function
// says how often a point was passed.
func Faults(t testing.TB, plan string) (hits func(point string) int) {
	t.Helper()
	t.Setenv(fault.EnvVar, os.Getenv(fault.EnvVar)) // changes nothing, but panics in a parallel test
	p, err := fault.ParsePlan(plan)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	t.Cleanup(fault.Activate(p))
	return func(point string) int { return p.Hits(fault.Name(point)) }
}
