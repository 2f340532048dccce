package shardmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

// The slot of a name is in the folders of users: a change of the hash would look for their data in another shard.
func TestSlotsNeverChange(t *testing.T) {
	t.Parallel()
	for name, want := range map[[2]string]int{
		{Blob, "devstoreaccount1"}: 2571, {Queue, "devstoreaccount1"}: 1380, {Table, "devstoreaccount1"}: 2120,
		{Blob, "shop"}: 2012,
	} {
		if got := Slot(name[0], name[1]); got != want {
			t.Errorf("%v: slot %d, want %d", name, got, want)
		}
	}
}

// Accounts with names in a sequence are spread evenly: the largest of 32 shards has at most 1.3 times the mean.
func TestAccountsAreSpread(t *testing.T) {
	t.Parallel()
	m, err := New(32)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, m.Shards())
	for i := range 10_000 {
		for _, service := range []string{Blob, Queue, Table} {
			counts[m.Of(service, fmt.Sprintf("account%05d", i))]++
		}
	}
	for shard, n := range counts {
		if mean := 30_000 / 32; n > mean*13/10 || n < mean*7/10 {
			t.Errorf("shard %d has %d accounts, the mean is %d", shard, n, mean)
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	m, err := New(4)
	if err != nil {
		t.Fatal(err)
	}
	home := m.Of(Queue, "shop")
	away := (home + 1) % 4
	next, err := m.With(Queue, "shop", away)
	if err != nil {
		t.Fatal(err)
	}
	if next.Of(Queue, "shop") != away || next.Revision() != 2 || m.Of(Queue, "shop") != home {
		t.Errorf("shard %d in revision %d, and %d before", next.Of(Queue, "shop"), next.Revision(), m.Of(Queue, "shop"))
	}
	if next.Of(Table, "shop") != m.Of(Table, "shop") || next.Of(Queue, "shop2") != m.Of(Queue, "shop2") {
		t.Error("another account was moved as well")
	}
	// A map that was stored and read is the same.
	text, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	var read Map
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Of(Queue, "shop") != away || read.Revision() != 2 || read.Shards() != 4 {
		t.Errorf("read from %s: shard %d, revision %d", text, read.Of(Queue, "shop"), read.Revision())
	}
	back, err := next.With(Queue, "shop", home)
	if err != nil || back.Of(Queue, "shop") != home || len(back.exceptions) != 0 {
		t.Errorf("back home: shard %d, exceptions %v, %v", back.Of(Queue, "shop"), back.exceptions, err)
	}
	if _, err := m.With(Queue, "shop", 4); !errors.Is(err, ErrInvalid) {
		t.Errorf("a shard that does not exist: %v", err)
	}
}

func TestInvalidMaps(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `{"shards":0,"revision":1}`, `{"shards":65,"revision":1}`, `{"shards":-1,"revision":1}`, `{"shards":4}`,
		`{"shards":4,"revision":1,"slots":{"4096":1}}`, `{"shards":4,"revision":1,"slots":{"-1":1}}`,
		`{"shards":4,"revision":1,"slots":{"1":4}}`, `{"shards":4,"revision":1,"slots":{"1":256}}`,
		`{"shards":4,"revision":1,"exceptions":{"blob/shop":4}}`, `{"shards":4,"revision":1,"exceptions":{"shop":1}}`,
		`{"shards":4,"revision":1,"exceptions":{"dfs/shop":1}}`, `{"shards":4,"revision":1,"exceptions":{"blob/a/b":1}}`,
	} {
		var m Map
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// The numbers of a shard do not reach those of the next one, and a JSON document has them exactly.
func TestNumbersOfShards(t *testing.T) {
	t.Parallel()
	if First(0) != 1 {
		t.Errorf("shard 0 begins with %d", First(0))
	}
	for shard := 1; shard <= Max; shard++ {
		if n := First(shard); n-First(shard-1) != 1<<45 || n >= 1<<53 {
			t.Errorf("shard %d begins with %d", shard, n)
		}
	}
}

// FuzzMap reads any text as a map: one that is taken gives every account one of its shards, and is the same after it
// was stored again.
func FuzzMap(f *testing.F) {
	f.Add(`{"shards":4,"revision":7,"slots":{"1":3},"exceptions":{"blob/shop":2}}`, "shop")
	f.Add(`{"shards":1,"revision":1}`, "devstoreaccount1")
	f.Fuzz(func(t *testing.T, text, account string) {
		var m, again Map
		if json.Unmarshal([]byte(text), &m) != nil {
			return
		}
		stored, err := json.Marshal(&m)
		if err == nil {
			err = json.Unmarshal(stored, &again)
		}
		if err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		for _, service := range []string{Blob, Queue, Table} {
			if shard := m.Of(service, account); shard < 0 || shard >= m.Shards() || shard != again.Of(service, account) {
				t.Errorf("%s of %q: shard %d of %d, %d when it is read again", service, account, shard, m.Shards(),
					again.Of(service, account))
			}
		}
	})
}
