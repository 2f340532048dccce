package table

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The contract of a Store, as its comments state it: boundaries of keys, conditions, and what a failure leaves.

var contractNow = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

func insertion(partition, row string) *Mutation {
	return &Mutation{Change: Insert, Partition: []byte(partition), Row: []byte(row), Record: entity.NewRecord(0, 0)}
}

// listed returns the names that ListTables visits, at most n.
func listed(t *testing.T, s *Store, account, from string, n int) string {
	t.Helper()
	var names []string
	check.OK(t, s.ListTables(account, from, func(table Table) bool {
		if len(names) == n {
			return false
		}
		names = append(names, table.Name)
		return true
	}))
	return strings.Join(names, " ")
}

func TestContractOfTables(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	for _, name := range []string{"Bees", "ants", "Cats"} {
		check.OK(t, s.CreateTable("acc", name, contractNow))
	}
	check.OK(t, s.CreateTable("acc2", "ants", contractNow))
	check.OK(t, s.CreateTable("ac", "zebras", contractNow))
	if err := s.CreateTable("acc", "ANTS", contractNow); !errors.Is(err, ErrTableExists) {
		t.Errorf("a name in another case: %v", err)
	}
	for _, c := range []struct {
		from string
		n    int
		want string
	}{
		{"", 9, "ants Bees Cats"}, {"", 0, ""}, {"", 1, "ants"}, {"ants", 9, "ants Bees Cats"},
		{"ants\x00", 9, "Bees Cats"}, {"b", 9, "Bees Cats"}, {"bees", 1, "Bees"}, {"cats", 9, "Cats"}, {"catsa", 9, ""},
	} {
		if got := listed(t, s, "acc", c.from, c.n); got != c.want {
			t.Errorf("up to %d tables from %q: %q, want %q", c.n, c.from, got, c.want)
		}
	}
	check.OK(t, s.SetPolicies("acc", "BEES", []byte(`[{"id":"x"}]`)))
	bees := check.Must(s.GetTable("acc", "bEEs"))(t)
	if bees.Name != "Bees" || string(bees.Policies) != `[{"id":"x"}]` || bees.Created < 1 {
		t.Errorf("the table is %+v", bees)
	}
	check.OK(t, s.SetPolicies("acc", "Bees", nil))
	if again := check.Must(s.GetTable("acc", "Bees"))(t); again.Policies != nil || again.Created != bees.Created ||
		again.id != bees.id {
		t.Errorf("without policies the table is %+v, before it was %+v", again, bees)
	}

	// Another table of the name has nothing of the deleted one, also for readers that had its id.
	check.Must(s.Write("acc", "ants", insertion("p", "r"), contractNow))(t)
	found := func(account, table string) bool {
		err := s.ViewEntity(account, table, []byte("p"), []byte("r"), func(entity.Record) {})
		if err != nil && !errors.Is(err, ErrEntityNotFound) {
			t.Error(err)
		}
		return err == nil
	}
	if !found("acc", "Ants") || found("acc2", "ants") {
		t.Error("an entity is not in its table, or in that of another account")
	}
	check.OK(t, s.DeleteTable("acc", "Ants"))
	if err := s.DeleteTable("acc", "Ants"); !errors.Is(err, ErrTableNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	check.OK(t, s.CreateTable("acc", "Ants", contractNow))
	if found("acc", "ants") {
		t.Error("a new table has the entity of the deleted one")
	}
	if got := listed(t, s, "acc2", "", 9) + " " + listed(t, s, "ac", "", 9); got != "ants zebras" {
		t.Errorf("other accounts have %q", got)
	}
}

// Each operation on a table that is not there says so, and changes nothing.
func TestOperationsOnATableThatIsMissing(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	check.OK(t, s.CreateTable("other", "missing", contractNow))
	scan := func() error {
		_, err := s.Scan("acc", "missing", Query{}, &visitor{})
		return err
	}
	write := func() error { _, err := s.Write("acc", "missing", insertion("p", "r"), contractNow); return err }
	changes := func() error { _, err := s.Changes("acc", "missing", "", contractNow, true); return err }
	get := func() error { _, err := s.GetTable("acc", "missing"); return err }
	for name, do := range map[string]func() error{"scan": scan, "write": write, "get": get,
		"delete":   func() error { return s.DeleteTable("acc", "missing") },
		"policies": func() error { return s.SetPolicies("acc", "missing", nil) },
		"view": func() error {
			return s.ViewEntity("acc", "missing", []byte("p"), []byte("r"), func(entity.Record) { t.Error("there is one") })
		},
		"changes": changes,
	} {
		if err := do(); !errors.Is(err, ErrTableNotFound) {
			t.Errorf("%s: %v, want ErrTableNotFound", name, err)
		}
	}
	_, err := s.WriteAll("acc", "missing", []*Mutation{insertion("p", "r")}, contractNow)
	var which *MutationError
	if !errors.As(err, &which) || which.Index != 0 || !errors.Is(err, ErrTableNotFound) {
		t.Errorf("write all: %v", err)
	}
	if got := listed(t, s, "acc", "", 9); got != "" {
		t.Errorf("there are tables now: %q", got)
	}
}

// Reset deletes the tables with a prefix, of one account, and says how many; only an empty prefix takes the properties.
func TestReset(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	set := func(account, value string) {
		check.OK(t, s.ChangeServiceProperties(account, func([]byte) ([]byte, error) { return []byte(value), nil }))
	}
	for _, name := range []string{"Test1", "tEST2", "tes", "zoo"} {
		check.OK(t, s.CreateTable("acc", name, contractNow))
	}
	check.OK(t, s.CreateTable("acc2", "Test1", contractNow))
	set("acc", "own")
	set("acc2", "other")
	check.Must(s.Write("acc", "test1", insertion("p", "r"), contractNow))(t)
	view := func(table string) error {
		return s.ViewEntity("acc", table, []byte("p"), []byte("r"), func(entity.Record) {})
	}
	check.OK(t, view("test1")) // from here on its id is known
	properties := func() string {
		var all []string
		check.OK(t, s.EachServiceProperties(func(account string, value []byte) error {
			all = append(all, account+"="+string(value))
			return nil
		}))
		return strings.Join(all, " ")
	}
	for _, step := range []struct {
		account, prefix   string
		deleted           int
		left, propertiesA string
	}{
		{"acc", "TEST", 2, "tes zoo", "acc=own acc2=other"}, {"acc", "test", 0, "tes zoo", "acc=own acc2=other"},
		{"nothing", "", 0, "tes zoo", "acc=own acc2=other"}, {"acc", "", 2, "", "acc2=other"},
	} {
		n := check.Must(s.Reset(step.account, step.prefix))(t)
		if left := listed(t, s, "acc", "", 9); n != step.deleted || left != step.left || properties() != step.propertiesA {
			t.Errorf("reset of %q in %s: %d tables, left are %q, with the properties %q; want %+v", step.prefix, step.account, n,
				left, properties(), step)
		}
	}
	if err := view("test1"); !errors.Is(err, ErrTableNotFound) {
		t.Errorf("an entity of a table that was reset: %v", err)
	}
	if got := listed(t, s, "acc2", "", 9); got != "Test1" {
		t.Errorf("another account has %q", got)
	}
}

// A change of properties sees those before, and replaces nothing if it fails.
func TestServiceProperties(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	refused := errors.New("refused")
	for _, step := range []struct {
		old, value string
		err        error
	}{{"", "first", nil}, {"first", "second", refused}, {"first", "third", nil}, {"third", "", nil}} {
		err := s.ChangeServiceProperties("acc", func(old []byte) ([]byte, error) {
			if string(old) != step.old {
				t.Errorf("the change sees %q, want %q", old, step.old)
			}
			return []byte(step.value), step.err
		})
		if !errors.Is(err, step.err) {
			t.Errorf("%v, want %v", err, step.err)
		}
	}
	if err := s.EachServiceProperties(func(string, []byte) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("an error of the caller: %v", err)
	}
}

// The mutations of a call have one time, and their records come in their order; with one that fails, none is done.
func TestWriteAllIsOneChange(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	check.OK(t, s.CreateTable("acc", "t", contractNow))
	list := func() []*Mutation {
		first := insertion("p", "1")
		first.Record = first.Record.Append("A", entity.Int32Value(1))
		return []*Mutation{first, insertion("p", "2")}
	}
	records := check.Must(s.WriteAll("acc", "t", list(), contractNow))(t)
	if len(records) != 2 || records[0].Timestamp() != records[1].Timestamp() || len(records[0]) <= len(records[1]) {
		t.Errorf("the records are %x", records)
	}
	_, err := s.WriteAll("acc", "t", []*Mutation{insertion("p", "3"), insertion("p", "2")}, contractNow)
	var which *MutationError
	if !errors.As(err, &which) || which.Index != 1 || !errors.Is(err, ErrEntityExists) {
		t.Errorf("the second mutation fails: %v", err)
	}
	if err := s.ViewEntity("acc", "t", []byte("p"), []byte("3"), func(entity.Record) {}); !errors.Is(err,
		ErrEntityNotFound) {
		t.Errorf("the first of two mutations was done: %v", err)
	}
	// Times ascend, whatever the clock says.
	last := records[0].Timestamp()
	for _, ahead := range []time.Duration{0, -time.Hour, time.Nanosecond} {
		r := check.Must(s.Write("acc", "t", insertion("p", fmt.Sprint(ahead)), contractNow.Add(ahead)))(t)
		if r.Timestamp() <= last {
			t.Errorf("with a clock of %v, a write at %d follows one at %d", ahead, r.Timestamp(), last)
		}
		last = r.Timestamp()
	}
}

// visitor notes what it visits, and ends a scan before the entity after the last.
type visitor struct {
	max    int // 0 for all
	begun  int
	visits []string
}

func (v *visitor) Begin(filter.Plan) { v.begun, v.visits = v.begun+1, nil }

func (v *visitor) Visit(e *filter.Entity) bool {
	if v.max > 0 && len(v.visits) == v.max {
		return false
	}
	v.visits = append(v.visits, string(e.PartitionKey)+"/"+string(e.RowKey))
	return true
}

func TestContractOfScan(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tables.db"))
	numberTables(t, s.db)
	for _, name := range []string{"before", "t", "behind"} { // with ids one after the other
		check.OK(t, s.CreateTable("acc", name, contractNow))
		for _, key := range []string{"/", "/b", "a/", "a/b", "a/b\x00", "a/bb", "ab/", "b/a"} {
			partition, row, _ := strings.Cut(key, "/")
			check.Must(s.Write("acc", name, insertion(partition, row), contractNow))(t)
		}
	}
	all := []string{"/", "/b", "a/", "a/b", "a/b\x00", "a/bb", "ab/", "b/a"}
	b := "b"
	for _, c := range []struct {
		filter string
		scope  *Scope
		from   *Position
		max    int
		want   []string
		next   *Position
	}{
		{"", nil, nil, 0, all, nil},
		{"", nil, nil, 8, all, nil},
		{"", nil, nil, 7, all[:7], &Position{"b", "a"}},
		{"", nil, nil, 1, all[:1], &Position{"", "b"}},
		{"", nil, &Position{"", ""}, 0, all, nil},
		{"", nil, &Position{"a", "b"}, 0, all[3:], nil},
		{"", nil, &Position{"a", "ba"}, 0, all[5:], nil},
		{"", nil, &Position{"b", "a"}, 0, all[7:], nil},
		{"", nil, &Position{"b", "aa"}, 0, nil, nil},
		{"PartitionKey eq 'a'", nil, nil, 0, all[2:6], nil},
		{"PartitionKey eq 'a'", nil, &Position{"a", "b"}, 2, all[3:5], &Position{"a", "bb"}},
		{"PartitionKey eq 'a' and RowKey eq 'b'", nil, nil, 0, all[3:4], nil},
		{"PartitionKey eq 'a' and RowKey eq 'b'", nil, &Position{"a", "b"}, 0, all[3:4], nil},
		{"PartitionKey eq 'a' and RowKey eq 'b'", nil, &Position{"a", "bb"}, 0, nil, nil},
		{"PartitionKey eq 'a' and RowKey eq 'c'", nil, nil, 0, nil, nil},
		{"", &Scope{Start: &Bound{Partition: "a"}}, nil, 0, all[2:], nil},
		{"", &Scope{Start: &Bound{"a", &b}}, nil, 0, all[3:], nil},
		{"", &Scope{End: &Bound{"a", &b}}, nil, 0, all[:4], nil},
		{"", &Scope{End: &Bound{Partition: "a"}}, nil, 0, all[:6], nil},
		{"", &Scope{Start: &Bound{"a", &b}, End: &Bound{"a", &b}}, nil, 0, all[3:4], nil},
		{"", &Scope{Start: &Bound{Partition: "c"}}, nil, 0, nil, nil},
		{"PartitionKey eq 'a' and RowKey eq 'b'", &Scope{Start: &Bound{Partition: "b"}}, nil, 0, nil, nil},
	} {
		q := Query{Scope: c.scope, From: c.from, Filter: check.Must(filter.Parse(c.filter))(t)}
		v := visitor{max: c.max}
		next, err := s.Scan("acc", "t", q, &v)
		check.OK(t, err)
		samePosition := (next == nil) == (c.next == nil) && (next == nil || *next == *c.next)
		if !slices.Equal(v.visits, c.want) || !samePosition || v.begun != 1 {
			t.Errorf("filter %q, scope %+v, from %v, at most %d: %q, then %v; want %q, then %v", c.filter, c.scope, c.from, c.max,
				v.visits, next, c.want, c.next)
		}
		for _, key := range all {
			partition, row, _ := strings.Cut(key, "/")
			if c.filter == "" && c.from == nil && c.max == 0 &&
				c.scope.Includes([]byte(partition), []byte(row)) != slices.Contains(c.want, key) {
				t.Errorf("scope %+v and %q: Includes says another thing", c.scope, key)
			}
		}
	}
}

// After Close nothing is accepted, and nothing is answered from memory.
func TestAClosedStore(t *testing.T) {
	t.Parallel()
	s := check.Must(Open(filepath.Join(t.TempDir(), "tables.db"), store.Options{Relaxed: true}, Follower{}, nil))(t)
	check.OK(t, s.CreateTable("acc", "t", contractNow))
	check.Must(s.Write("acc", "t", insertion("p", "r"), contractNow))(t)
	check.OK(t, s.ViewEntity("acc", "t", []byte("p"), []byte("r"), func(entity.Record) {}))
	check.OK(t, s.Close())
	check.OK(t, s.Close())
	for name, err := range map[string]error{
		"create": s.CreateTable("acc", "u", contractNow),
		"delete": s.DeleteTable("acc", "t"),
		"view":   s.ViewEntity("acc", "t", []byte("p"), []byte("r"), func(entity.Record) {}),
		"list":   s.ListTables("acc", "", func(Table) bool { return true }),
		"properties": s.ChangeServiceProperties("acc",
			func([]byte) ([]byte, error) { return []byte("x"), nil }),
	} {
		if err == nil {
			t.Errorf("%s: a closed store accepts it", name)
		}
	}
	for name, do := range map[string]func() error{
		"write": func() error { _, err := s.Write("acc", "t", insertion("p", "s"), contractNow); return err },
		"all": func() error {
			_, err := s.WriteAll("acc", "t", []*Mutation{insertion("p", "s")}, contractNow)
			return err
		},
		"get":     func() error { _, err := s.GetTable("acc", "t"); return err },
		"reset":   func() error { _, err := s.Reset("acc", ""); return err },
		"changes": func() error { _, err := s.Changes("acc", "t", "", contractNow, true); return err },
		"scan":    func() error { _, err := s.Scan("acc", "t", Query{}, &visitor{}); return err },
	} {
		if do() == nil {
			t.Errorf("%s: a closed store accepts it", name)
		}
	}
}
