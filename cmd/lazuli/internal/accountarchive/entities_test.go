package accountarchive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// entity has a field of every type of the Table service, and every tag of package tables.
type entity struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	Text                 string
	Flag                 bool
	Small                int32
	Most, Least          int64
	Count                int
	Unsigned             uint64
	Whole, Half          float64
	None, Up, Down       float64
	At                   time.Time
	ID                   uuid.UUID
	Content              []byte
	Maybe                *int64
	Absent               *string
	Tags                 map[string]int `table:",json"`
	Mail                 string         `table:"Renamed"`
	Local                string         `table:"-"`
	Secret               string         `table:",encrypt"`
	Salary               float64        `table:",encrypt"`
}

func full(row string) entity {
	most := int64(math.MaxInt64)
	return entity{
		PartitionKey: "it's", RowKey: row, Text: "Grüße \"x\" 🙂", Flag: true, Small: math.MinInt32, Most: math.MaxInt64,
		Least: math.MinInt64, Count: 1 << 53,
		Unsigned: math.MaxInt64, Whole: 5, Half: 0.1, None: math.NaN(), Up: math.Inf(1), Down: math.Inf(-1),
		At: time.Date(2026, 11, 22, 10, 5, 0, 1234567*100, time.UTC),
		ID: uuid.MustParse("c9da6455-213d-42c9-9a79-3e9149a57833"), Content: []byte{0, 255, '/'}, Maybe: &most,
		Tags: map[string]int{"a": 1}, Mail: "ada@example.org",
		Local: "not stored", Secret: "the secret", Salary: 98765.25,
	}
}

// stored compares what is stored; the ETag is checked apart.
var stored = cmp.Options{cmpopts.EquateNaNs(), cmpopts.IgnoreFields(entity{}, "ETag", "Local")}

// seam is an account in which the writers write, and the readers read.
type seam struct {
	*lazulitest.Account
	account    accountarchive.Account
	encryption tables.Option
	keys       tables.Encryption
}

func newSeam(t *testing.T) *seam {
	t.Helper()
	l := lazulitest.Start(t)
	a := l.Default(t)
	key := must(tables.NewAESKey("key", make([]byte, 32)))(t)
	s := &seam{Account: a, keys: tables.Encryption{Key: key}}
	s.encryption = tables.WithEncryption(s.keys)
	s.account = accountarchive.Account{Address: l.BlobURL(), Tables: a.Tables, Queues: a.Queues, Blobs: a.Blobs}
	return s
}

func (s *seam) table(t *testing.T, name string) *tables.Table[entity] {
	t.Helper()
	return must(tables.New[entity](s.Tables, name, s.encryption, tables.CreateIfMissing()))(t)
}

// entityWriters are all ways by which an entity gets into a table. Each writes it under the table's name.
var entityWriters = map[string]func(t *testing.T, s *seam, table string, e entity) error{
	"typed": func(t *testing.T, s *seam, table string, e entity) error {
		return s.table(t, table).Insert(t.Context(), &e)
	},
	"transaction": func(t *testing.T, s *seam, table string, e entity) error {
		tx := s.table(t, table).Begin()
		tx.InsertOrReplace(&e)
		return tx.Submit(t.Context())
	},
	"update": func(t *testing.T, s *seam, table string, e entity) error {
		first := full(e.RowKey)
		first.Text, first.Secret = "before", "before"
		typed := s.table(t, table)
		if err := typed.Insert(t.Context(), &first); err != nil {
			return err
		}
		return typed.Update(t.Context(), tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey},
			func(to *entity) error { *to = e; return nil })
	},
	"Upsert": func(t *testing.T, s *seam, table string, e entity) error {
		return s.Upsert(t.Context(), table, e, s.encryption)
	},
	"PutEntity": func(t *testing.T, s *seam, table string, e entity) error {
		s.PutEntity(table, &e, s.encryption)
		return nil
	},
	"raw SDK": func(t *testing.T, s *seam, table string, e entity) error {
		body, _, err := must(tables.NewCodec(reflect.TypeFor[entity](), table, s.encryption))(t).Marshal(t.Context(), e)
		if err == nil {
			_, err = s.Tables.CreateTable(t.Context(), table, nil)
		}
		if err == nil {
			_, err = s.Tables.NewClient(table).AddEntity(t.Context(), body, nil)
		}
		return err
	},
	"import": func(t *testing.T, s *seam, table string, e entity) error {
		from := newSeam(t)
		if err := from.table(t, table).Insert(t.Context(), &e); err != nil {
			return err
		}
		dir := export(t, from.account, accountarchive.Selection{})
		_, err := accountarchive.Import(ctx, s.account, dir, accountarchive.ImportOptions{})
		return err
	},
	"archive role": func(t *testing.T, s *seam, table string, e entity) error {
		if err := s.table(t, table).Create(t.Context()); err != nil {
			return err
		}
		if err := s.table(t, table+"Current").Insert(t.Context(), &e); err != nil {
			return err
		}
		role := must(archive.New(s.Storage, table+"Current", must(archive.Table(s.Storage, table))(t),
			archive.WithEncryption(s.keys)))(t)
		return role.Archive(t.Context(), archive.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey})
	},
}

// entityReaders are all ways by which a program gets an entity of a table.
var entityReaders = map[string]func(t *testing.T, s *seam, table string, k tables.Key) (entity, error){
	"typed": func(t *testing.T, s *seam, table string, k tables.Key) (entity, error) {
		return s.table(t, table).Get(t.Context(), k)
	},
	"query": func(t *testing.T, s *seam, table string, k tables.Key) (entity, error) {
		return s.table(t, table).Query(tables.PartitionKey.Eq(k.PartitionKey)).First(t.Context())
	},
	"raw SDK": func(t *testing.T, s *seam, table string, k tables.Key) (e entity, err error) {
		got, err := entityio.Get(t.Context(), s.Tables.NewClient(table), k.PartitionKey, k.RowKey)
		if err == nil {
			err = must(tables.NewCodec(reflect.TypeFor[entity](), table, s.encryption))(t).Unmarshal(t.Context(), got.JSON, &e)
		}
		return e, err
	},
	"archived to a container": func(t *testing.T, s *seam, table string, k tables.Key) (e entity, err error) {
		target := must(archive.Container(s.Storage, strings.ToLower(table)))(t)
		must(s.Blobs.CreateContainer(t.Context(), strings.ToLower(table), nil))(t)
		copied := s.copied(t, table, k)
		if err := must(archive.New(s.Storage, copied, target, archive.WithEncryption(s.keys)))(t).Archive(t.Context(),
			archive.Key(k)); err != nil {
			return e, err
		}
		for pager := s.Blobs.NewListBlobsFlatPager(strings.ToLower(table), nil); pager.More(); {
			for _, b := range must(pager.NextPage(t.Context()))(t).Segment.BlobItems {
				content := make([]byte, *b.Properties.ContentLength)
				must(s.Blobs.DownloadBuffer(t.Context(), strings.ToLower(table), *b.Name, content, nil))(t)
				err = must(tables.NewCodec(reflect.TypeFor[entity](), copied, s.encryption))(t).Unmarshal(t.Context(), content, &e)
			}
		}
		e.ETag = "none" // A blob has none of the entity.
		return e, err
	},
}

// copied copies an entity to another table, for a reader that removes it.
func (s *seam) copied(t *testing.T, table string, k tables.Key) string {
	t.Helper()
	e := must(s.table(t, table).Get(t.Context(), k))(t)
	if err := s.table(t, table+"Copy").InsertOrReplace(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	return table + "Copy"
}

// Whatever writes an entity, each reader gets it, every type and tag intact, with its ETag; nothing that is to be
// encrypted is stored in plain text.
func TestEveryWriterAndReader(t *testing.T) {
	t.Parallel()
	s := newSeam(t)
	app := workers.New(workers.Config{Storage: s.Storage, Logger: slog.New(slog.DiscardHandler)})
	type change struct {
		trigger, table string
		e, before      entity
	}
	changes := make(chan change, 1000)
	name := func(writer string) string { return "By" + strings.ReplaceAll(writer, " ", "") }
	for writer := range entityWriters {
		for trigger, options := range map[string][]workers.TableOption{"shared": nil, "inorder": {workers.InOrder()}} {
			workers.Table(app, name(writer)+trigger, func(ctx context.Context, c *workers.Change[entity]) error {
				changes <- change{trigger, c.Raw.Table, c.Entity, c.Before}
				return nil
			}, append(options, workers.WithTable(name(writer)), workers.WithEntities(s.encryption))...)
		}
	}
	s.Run(app)
	want := full("r'1")
	key := tables.Key{PartitionKey: want.PartitionKey, RowKey: want.RowKey}
	for writer, write := range entityWriters {
		if err := write(t, s, name(writer), want); err != nil {
			t.Fatalf("%s: %v", writer, err)
		}
		if raw := must(entityio.Get(ctx, s.Tables.NewClient(name(writer)), key.PartitionKey, key.RowKey))(
			t); strings.Contains(string(raw.JSON), "secret") ||
			strings.Contains(string(raw.JSON), "98765") || strings.Contains(string(raw.JSON), "Local") {
			t.Errorf("%s stores %s", writer, raw.JSON)
		}
		for reader, read := range entityReaders {
			got, err := read(t, s, name(writer), key)
			if d := cmp.Diff(want, got, stored); err != nil || d != "" || got.ETag == "" {
				t.Errorf("%s, read by %s: %v, ETag %q\n%s", writer, reader, err, got.ETag, d)
			}
		}
		s.RequireEntity(name(writer), key.PartitionKey, key.RowKey, want, s.encryption)
	}
	s.Drain()
	close(changes)
	seen := map[string]bool{}
	for c := range changes {
		if c.before.Text == "" && c.e.Text == "before" {
			continue // The first of the two changes of the writer "update".
		}
		seen[c.trigger+" "+c.table] = true
		if d := cmp.Diff(want, c.e, stored); d != "" || c.e.ETag == "" {
			t.Errorf("%s of %s: ETag %q\n%s", c.trigger, c.table, c.e.ETag, d)
		}
		if c.before.Text != "" && (c.before.Secret != "before" || c.before.Most != want.Most) {
			t.Errorf("%s of %s: before %+v", c.trigger, c.table, c.before)
		}
	}
	if len(seen) != 2*len(entityWriters) {
		t.Errorf("%d changes: %v; %+v", len(seen), seen, app.Stats())
	}
}

// A replacement of what a trigger passes fails if the entity was changed since.
func TestReplaceAfterATriggerIsConditional(t *testing.T) {
	t.Parallel()
	s := newSeam(t)
	table := s.table(t, "Conditional")
	results := make(chan error, 2)
	app := workers.New(workers.Config{Storage: s.Storage, Logger: slog.New(slog.DiscardHandler)})
	workers.Table(app, "conditional", func(ctx context.Context, c *workers.Change[entity]) error {
		if c.Entity.Text != "first" {
			return nil
		}
		later := c.Entity
		later.Text = "second"
		if err := table.Replace(ctx, &later); err != nil {
			return err
		}
		results <- table.Replace(ctx, &c.Entity)
		return nil
	}, workers.WithTable("Conditional"), workers.WithEntities(s.encryption))
	s.Run(app)
	if err := table.Insert(t.Context(), &entity{PartitionKey: "p", RowKey: "r", Text: "first"}); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if err := <-results; err == nil || !strings.Contains(err.Error(), "412") {
		t.Error(err)
	}
}

// Without a key nothing that is to be encrypted is written or handled.
func TestNoKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSeam(t)
	if err := s.Upsert(t.Context(), "Plain", full("r")); err == nil ||
		!strings.Contains(err.Error(), tables.ErrNoKey.Error()) {
		t.Error(err)
	}
	s.RequireNoEntity("Plain", "it's", "r")
	app := workers.New(workers.Config{Storage: s.Storage, Logger: slog.New(slog.DiscardHandler)})
	workers.Table(app, "plain", func(ctx context.Context, c *workers.Change[entity]) error { return nil })
	if err := app.Start(t.Context()); err == nil || !strings.Contains(err.Error(), tables.ErrNoKey.Error()) {
		t.Error(err)
	}
}

// What the SDK's own types write is read by the typed client, and the other way round.
func TestTypesOfTheSDK(t *testing.T) {
	t.Parallel()
	s := newSeam(t)
	type plain struct {
		PartitionKey, RowKey string
		Text                 string
		Flag                 bool
		Small                int32
		Most                 int64
		Half                 float64
		At                   time.Time
		ID                   uuid.UUID
		Content              []byte
	}
	f := full("r")
	want := plain{"p", "r", f.Text, f.Flag, f.Small, f.Most, f.Half, f.At, f.ID, f.Content}
	edm := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: "p", RowKey: "r"},
		Properties: map[string]any{"Text": f.Text, "Flag": f.Flag, "Small": f.Small,
			"Most": aztables.EDMInt64(f.Most), "Half": f.Half, "At": aztables.EDMDateTime(f.At),
			"ID": aztables.EDMGUID(f.ID.String()), "Content": aztables.EDMBinary(f.Content)}}
	body := must(json.Marshal(edm))(t)
	must(s.Tables.CreateTable(ctx, "Sdk", nil))(t)
	must(s.Tables.NewClient("Sdk").AddEntity(ctx, body, nil))(t)
	if err := s.Upsert(ctx, "SdkUpsert", edm); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Sdk", "SdkUpsert"} {
		typed := must(tables.New[plain](s.Tables, name))(t)
		if d := cmp.Diff(want, must(typed.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "r"}))(t)); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
		var got aztables.EDMEntity
		if err := json.Unmarshal(must(s.Tables.NewClient(name).GetEntity(ctx, "p", "r", nil))(t).Value, &got); err != nil {
			t.Fatal(err)
		}
		for property, value := range edm.Properties {
			if fmt.Sprint(got.Properties[property]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v", name, property, got.Properties[property], value)
			}
		}
	}
}
