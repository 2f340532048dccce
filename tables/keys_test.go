package tables_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/tables"
)

func TestInt64KeySortsAsNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if cmp.Compare(tables.Int64Key(a), tables.Int64Key(b)) != cmp.Compare(a, b) {
			t.Fatalf("%d, %d: %s, %s", a, b, tables.Int64Key(a), tables.Int64Key(b))
		}
		if got, err := tables.ParseInt64Key(tables.Int64Key(a)); got != a || err != nil {
			t.Fatal(got, err)
		}
	})
}

func TestInvertedTicksSortTheLatestFirst(t *testing.T) {
	t.Parallel()
	draw := func(t *rapid.T, name string) time.Time {
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, name),
			100*rapid.Int64Range(0, 9999999).Draw(t, name+" ticks")).UTC()
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		x, err1 := tables.InvertedTicks(a)
		y, err2 := tables.InvertedTicks(b)
		if err1 != nil || err2 != nil || cmp.Compare(x, y) != -a.Compare(b) {
			t.Fatalf("%v, %v: %s, %s, %v, %v", a, b, x, y, err1, err2)
		}
		if got, err := tables.ParseInvertedTicks(x); !got.Equal(a) || err != nil {
			t.Fatal(got, err)
		}
	})
	// As .NET computes it: string.Format("{0:D19}", DateTime.MaxValue.Ticks - new DateTime(2026, 11, 22, 0, 0, 0,
	// DateTimeKind.Utc).Ticks).
	if got, err := tables.InvertedTicks(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)); got != "2516069951999999999" ||
		err != nil {
		t.Error(got, err)
	}
	if _, err := tables.InvertedTicks(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
		t.Error("the year 10000 has a key")
	}
}

func TestOtherKeys(t *testing.T) {
	t.Parallel()
	if s, err := tables.ZeroPad(42, 6); s != "000042" || err != nil {
		t.Error(s, err)
	}
	if _, err := tables.ZeroPad(1000, 3); err == nil {
		t.Error("1000 has three digits")
	}
	at := time.Date(2026, 2, 28, 23, 30, 0, 0, time.FixedZone("", -3600))
	if got := tables.DateKey(at) + " " + tables.TimeKey(at); got != "2026-03-01 2026-03-01T00:30:00.0000000Z" {
		t.Error(got)
	}
	names, err := tables.PeriodNames("Logins", tables.Monthly, at, at.AddDate(0, 2, 0))
	if !slices.Equal(names, []string{"Logins202603", "Logins202604"}) &&
		!slices.Equal(names, []string{"Logins202603", "Logins202604", "Logins202605"}) || err != nil {
		t.Error(names, err)
	}
	from, to, ok := tables.ParsePeriodName("Logins", tables.Daily, "logins20260301")
	if !ok || from.Format(time.DateOnly) != "2026-03-01" || to.Format(time.DateOnly) != "2026-03-02" {
		t.Error(from, to, ok)
	}
	for _, name := range []string{"Logins", "Logins2026030", "Other020260301", "Logins20261301"} {
		if _, _, ok := tables.ParsePeriodName("Logins", tables.Daily, name); ok {
			t.Errorf("%s is of the series", name)
		}
	}
}

// Keys are spread over all partitions, evenly enough, and always to the same one.
func TestHashPrefix(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for i := range 16000 {
		p := tables.HashPrefix(tables.Int64Key(int64(i)), 16)
		if p != tables.HashPrefix(tables.Int64Key(int64(i)), 16) {
			t.Fatal("another prefix for the same key")
		}
		counts[p]++
	}
	all := tables.HashPrefixes(16)
	if len(all) != 16 || all[0] != "00" || all[15] != "15" || !slices.IsSorted(all) {
		t.Errorf("prefixes %v", all)
	}
	for _, p := range all {
		if counts[p] < 800 || counts[p] > 1200 {
			t.Errorf("prefix %s has %d of 16000 keys", p, counts[p])
		}
	}
}
