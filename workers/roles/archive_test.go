// Package roles_test tests roles of this folder against a server: one package, so that one binary has it.
package roles_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// employee has a property of every type, with values that a careless copy would change.
const employee = `{"PartitionKey":"Sales","RowKey":"0001 Ü/é'quote","Name":"漢 \"x\"","Age":40,"Score":5.0,"Score@odata.type":"Edm.Double",
"Tiny":1e-300,"Tiny@odata.type":"Edm.Double","Infinite":"Infinity","Infinite@odata.type":"Edm.Double","Salary":"9007199254740993","Salary@odata.type":"Edm.Int64",
"Active":true,"Badge":"c9da6455-213d-42c9-9a79-3e9149a57833","Badge@odata.type":"Edm.Guid","Photo":"AQID/w==","Photo@odata.type":"Edm.Binary",
"Since":"2008-07-10T00:00:00.1234567Z","Since@odata.type":"Edm.DateTime"}`

// A slash is not legal in a key; the rest is.
var key = archive.Key{PartitionKey: "Sales", RowKey: "0001 Üé'quote"}

type setup struct {
	*testaccount.Account
	current, archive string
	role             *archive.Role
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	a := testaccount.Open(t)
	s := &setup{Account: a, current: a.Table("Current"), archive: a.Table("Archive")}
	target, err := archive.Table(a.Storage, s.archive)
	if err != nil {
		t.Fatal(err)
	}
	s.role = s.newRole(t, target)
	return s
}

func (s *setup) newRole(t *testing.T, target archive.Target) *archive.Role {
	t.Helper()
	role, err := archive.New(s.Storage, s.current, target)
	if err != nil {
		t.Fatal(err)
	}
	return role
}

func (s *setup) hire(t *testing.T) {
	t.Helper()
	body := strings.Replace(employee, "0001 Ü/é'quote", key.RowKey, 1)
	if _, err := s.Tables.NewClient(s.current).AddEntity(context.Background(), []byte(body), nil); err != nil {
		t.Fatal(err)
	}
}

// stored returns an entity's raw JSON without what the service adds, or nil if it is not there.
func (s *setup) stored(t *testing.T, table string) map[string]string {
	t.Helper()
	var raw *http.Response
	_, err := s.Tables.NewClient(table).GetEntity(policy.WithCaptureResponse(context.Background(), &raw), key.PartitionKey,
		key.RowKey, nil)
	if err != nil {
		if raw != nil && raw.StatusCode == http.StatusNotFound {
			return nil
		}
		t.Fatal(err)
	}
	body, err := runtime.Payload(raw)
	if err != nil {
		t.Fatal(err)
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(body, &properties); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for name, value := range properties {
		if !strings.HasPrefix(name, "odata.") && !strings.HasPrefix(name, "Timestamp") {
			texts[name] = string(value)
		}
	}
	return texts
}

func TestArchiveKeepsEveryType(t *testing.T) {
	s := newSetup(t)
	s.hire(t)
	before := s.stored(t, s.current)
	if before["Score"] != "5.0" || before["Salary@odata.type"] != `"Edm.Int64"` {
		t.Fatalf("the entity is not what this test needs: %v", before)
	}
	if err := s.role.Archive(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.stored(t, s.archive)); diff != "" {
		t.Errorf("archived want(-) got(+):\n%s", diff)
	}
	if left := s.stored(t, s.current); left != nil {
		t.Errorf("still in Current: %v", left)
	}
	// Again, as a message delivered twice would have it.
	if err := s.role.Archive(t.Context(), key); err != nil {
		t.Errorf("second time: %v", err)
	}
	if s.stored(t, s.archive) == nil {
		t.Error("the second time took it from the archive")
	}
}

// An empty key is a valid one, in the table and in the archive.
func TestArchiveWithEmptyKeys(t *testing.T) {
	s := newSetup(t)
	for _, k := range []archive.Key{{PartitionKey: "", RowKey: "r"}, {PartitionKey: "p", RowKey: ""}, {}} {
		body, err := json.Marshal(map[string]any{"PartitionKey": k.PartitionKey, "RowKey": k.RowKey, "Name": "Ada"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Tables.NewClient(s.current).AddEntity(t.Context(), body, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // The second time it replaces the copy.
			if err := s.role.Archive(t.Context(), k); err != nil {
				t.Fatalf("%+v: %v", k, err)
			}
			if left := s.count(t, s.current); left != 0 {
				t.Errorf("%+v: %d entities are left", k, left)
			}
			if _, err := s.Tables.NewClient(s.current).AddEntity(t.Context(), body, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.role.Archive(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if archived := s.count(t, s.archive); archived != 3 {
		t.Errorf("%d entities are archived, want 3", archived)
	}
}

// A client without the policy is refused, rather than taken for one that found nothing.
func TestArchiveWithAnEmptyKeyNeedsItsPolicy(t *testing.T) {
	s := newSetup(t)
	plain, err := aztables.NewServiceClientFromConnectionString(s.ConnectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	storage := *s.Storage
	storage.Tables = plain
	role, err := archive.New(&storage, s.current, archive.Folder(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := role.Archive(t.Context(), archive.Key{RowKey: "r"}); err == nil ||
		!strings.Contains(err.Error(), "empty PartitionKey") {
		t.Errorf("got %v", err)
	}
}

func (s *setup) count(t *testing.T, table string) (n int) {
	t.Helper()
	for pager := s.Tables.NewClient(table).NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Entities)
	}
	return n
}

func TestKeysNeedBothMembers(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"PartitionKey":"p","RowKey":"r"}`: true, `{"PartitionKey":"","RowKey":""}`: true,
		`{"bogus":1}`: false, `{"PartitionKey":"p"}`: false, `{"PartitionKey":null,"RowKey":"r"}`: false, `[]`: false,
		`null`: false,
	} {
		var k archive.Key
		if err := json.Unmarshal([]byte(text), &k); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestArchiveReplacesOlderCopy(t *testing.T) {
	s := newSetup(t)
	old, _ := json.Marshal(map[string]any{"PartitionKey": key.PartitionKey, "RowKey": key.RowKey, "OnlyInOldCopy": 1})
	if _, err := s.Tables.NewClient(s.archive).AddEntity(t.Context(), old, nil); err != nil {
		t.Fatal(err)
	}
	s.hire(t)
	want := s.stored(t, s.current)
	if err := s.role.Archive(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.stored(t, s.archive)); diff != "" {
		t.Errorf("archived want(-) got(+):\n%s", diff)
	}
}

// At every point an attempt fails once; the next one must bring the entity to the archive.
func TestFailureAtEveryPoint(t *testing.T) {
	s := newSetup(t)
	for _, point := range archive.Points()[:4] {
		s.hire(t)
		want := s.stored(t, s.current)
		off := fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1, Do: fault.Fail(fault.ErrInjected)}))
		if err := s.role.Archive(t.Context(), key); !errors.Is(err, fault.ErrInjected) {
			t.Errorf("%s: first attempt: %v", point, err)
		}
		if s.stored(t, s.current) == nil && s.stored(t, s.archive) == nil {
			t.Errorf("%s: the entity is nowhere", point)
		}
		if err := s.role.Archive(t.Context(), key); err != nil {
			t.Errorf("%s: second attempt: %v", point, err)
		}
		off()
		if s.stored(t, s.current) != nil {
			t.Errorf("%s: still in Current", point)
		}
		if diff := cmp.Diff(want, s.stored(t, s.archive)); diff != "" {
			t.Errorf("%s: archived want(-) got(+):\n%s", point, diff)
		}
	}
}

func TestPointsAreDeclared(t *testing.T) {
	for _, p := range archive.Points() {
		if !slices.Contains(fault.Points(), fault.Name(p)) {
			t.Errorf("%s is listed but not declared", p)
		}
	}
	for _, p := range fault.Points() {
		if strings.HasPrefix(string(p), "archive/") && !slices.Contains(archive.Points(), string(p)) {
			t.Errorf("%s is declared but not listed", p)
		}
	}
}

// A change between copy and delete must neither be lost nor end up half in each table.
func TestChangeDuringArchive(t *testing.T) {
	s := newSetup(t)
	s.hire(t)
	promote := func(fault.Name) error {
		change, _ := json.Marshal(map[string]any{"PartitionKey": key.PartitionKey, "RowKey": key.RowKey, "Title": "Director"})
		_, err := s.Tables.NewClient(s.current).UpsertEntity(t.Context(), change,
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeMerge})
		return err
	}
	defer fault.Activate(fault.NewPlan(fault.Rule{Point: "archive/after-copy", On: 1, Do: promote}))()
	if err := s.role.Archive(t.Context(), key); !errors.Is(err, archive.ErrChanged) {
		t.Fatalf("got %v, want %v", err, archive.ErrChanged)
	}
	if got := s.stored(t, s.current)["Title"]; got != `"Director"` {
		t.Fatalf("the change is gone from Current: %v", got)
	}
	if err := s.role.Archive(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := s.stored(t, s.archive)["Title"]; got != `"Director"` || s.stored(t, s.current) != nil {
		t.Errorf("archived with title %v, want the change", got)
	}
}

// A handler that sleeps through its lease and wakes when another one is done may do nothing harmful.
func TestLateHandler(t *testing.T) {
	for _, point := range archive.Points()[:4] {
		s := newSetup(t)
		s.hire(t)
		want := s.stored(t, s.current)
		other := func(fault.Name) error { return s.role.Archive(t.Context(), key) }
		off := fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1, Do: other}))
		if err := s.role.Archive(t.Context(), key); err != nil {
			t.Errorf("%s: %v", point, err)
		}
		off()
		if s.stored(t, s.current) != nil {
			t.Errorf("%s: still, or again, in Current", point)
		}
		if diff := cmp.Diff(want, s.stored(t, s.archive)); diff != "" {
			t.Errorf("%s: archived want(-) got(+):\n%s", point, diff)
		}
	}
}

func TestMissingTablesAreFailures(t *testing.T) {
	s := newSetup(t)
	s.hire(t)
	nowhere, err := archive.Table(s.Storage, "Nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.newRole(t, nowhere).Archive(t.Context(), key); err == nil {
		t.Error("archiving to a table that does not exist succeeded")
	}
	if s.stored(t, s.current) == nil {
		t.Error("the entity is lost")
	}
	lost, err := archive.New(s.Storage, "Nowhere", nowhere)
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Archive(t.Context(), key); err == nil {
		t.Error("archiving from a table that does not exist succeeded: a mistake in a setting would empty the queue")
	}
}

func TestContainerTarget(t *testing.T) {
	s := newSetup(t)
	container := s.Container("archive")
	target, err := archive.Container(s.Storage, container)
	if err != nil {
		t.Fatal(err)
	}
	s.hire(t)
	if err := s.newRole(t, target).Archive(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	got, err := s.Blobs.DownloadStream(t.Context(), container, "=Sales/=0001+%C3%9C%C3%A9%27quote.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantEmployee(t, body)
	if *got.ContentType != "application/json" || s.stored(t, s.current) != nil {
		t.Errorf("content type %s, in Current: %v", *got.ContentType, s.stored(t, s.current))
	}
}

func TestFolderTarget(t *testing.T) {
	s := newSetup(t)
	s.hire(t)
	folder := t.TempDir()
	for range 2 { // The second time replaces.
		if err := archive.Folder(folder).Put(t.Context(), archive.Entity{Key: key, JSON: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.newRole(t, archive.Folder(folder)).Archive(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(folder, "=Sales", "=0001+%C3%9C%C3%A9%27quote.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantEmployee(t, body)
	var files []string
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v: want one", files, err)
	}
	if err := archive.Folder(folder).Put(t.Context(),
		archive.Entity{Key: archive.Key{PartitionKey: "..", RowKey: ""}, JSON: []byte("{}")}); err != nil {
		t.Errorf("keys that look like folders: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "=..", "=.json")); err != nil {
		t.Error(err)
	}
}

// A link in the folder does not lead the role out of it.
func TestFolderTargetStaysInItsFolder(t *testing.T) {
	t.Parallel()
	folder, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(folder, "=Sales")); err != nil {
		t.Fatal(err)
	}
	if err := archive.Folder(folder).Put(t.Context(), archive.Entity{Key: key, JSON: []byte("{}")}); err == nil {
		t.Error("an entity was written through the link")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Error(files, err)
	}
}

// Entities with the longest keys of a table have places of their own in both targets, though names there are shorter.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	container := s.Container("archive")
	blobs, err := archive.Container(s.Storage, container)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	long := strings.Repeat("ü", 511)
	keys := []archive.Key{
		{PartitionKey: strings.Repeat("a", 254), RowKey: strings.Repeat("b", 249)}, // the longest that are not cut
		{PartitionKey: strings.Repeat("a", 255), RowKey: strings.Repeat("b", 250)},
		{PartitionKey: long + "1", RowKey: long + "1"}, {PartitionKey: long + "1", RowKey: long + "2"},
		{PartitionKey: long + "2", RowKey: long + "1"},
	}
	for _, key := range keys {
		for _, target := range []archive.Target{archive.Folder(folder), blobs} {
			if err := target.Put(t.Context(), archive.Entity{Key: key, JSON: []byte("{}")}); err != nil {
				t.Errorf("%.10s, %.10s to %T: %v", key.PartitionKey, key.RowKey, target, err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil || len(files) != len(keys) {
		t.Errorf("%d files, %v, want %d", len(files), err, len(keys))
	}
	page, err := s.Blobs.NewListBlobsFlatPager(container, nil).NextPage(t.Context())
	if err != nil || len(page.Segment.BlobItems) != len(keys) {
		t.Errorf("blobs %v, %v, want %d", page.Segment, err, len(keys))
	}
	if _, err := os.Stat(filepath.Join(folder, "="+strings.Repeat("a", 254),
		"="+strings.Repeat("b", 249)+".json")); err != nil {
		t.Error(err)
	}
}

func wantEmployee(t *testing.T, body []byte) {
	t.Helper()
	var got, want map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.Replace(employee, "0001 Ü/é'quote", key.RowKey, 1)), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archived want(-) got(+):\n%s", diff)
	}
}

// Through the queue, with messages of one's own type.
func TestRegisterOwnType(t *testing.T) {
	s := newSetup(t)
	s.hire(t)
	queue := s.Queue("leavers")
	type leaver struct{ Department, Number string }
	app := workers.New(workers.Config{ConnectionString: s.ConnectionString, Logger: slog.New(slog.DiscardHandler)})
	archive.Register(app, "leavers", s.role, func(l leaver) (archive.Key, error) {
		if l.Department == "" {
			return archive.Key{}, errors.New("no department")
		}
		return archive.Key{PartitionKey: l.Department, RowKey: l.Number}, nil
	}, workers.WithQueueName(queue))
	for _, l := range []leaver{{"Sales", key.RowKey}, {"", "x"}} {
		body, _ := json.Marshal(l)
		if _, err := s.Queues.NewQueueClient(queue).EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString(body),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, func() bool {
		stats := app.Stats()[0]
		return stats.Succeeded == 1 && stats.Poisoned == 1 && stats.InFlight == 0
	}, "one message is handled, one is poisoned")
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if s.stored(t, s.archive) == nil || s.stored(t, s.current) != nil {
		t.Error("the entity was not moved")
	}
}

func ExampleRole() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		panic(err)
	}
	target, err := archive.Table(storage, "Archive")
	if err != nil {
		panic(err)
	}
	role, err := archive.New(storage, "Current", target)
	if err != nil {
		panic(err)
	}
	app := workers.New(workers.Config{Storage: storage})
	role.Register(app, "archive") // listens to the queue "archive"
	fmt.Println(app.Stats()[0].Name)
	// Output: archive
}
