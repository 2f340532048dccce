package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// oddFunctions have names that cannot be keys as they are.
var oddFunctions = []string{"ship", "a/b\\c#d?e", "o'brien", "100% größe", "a+b c", "a=20b", strings.Repeat("ß", 80)}

func TestPauses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := hostrow.Open(lazulitest.Start(t).Account(t).Storage.Tables)
	if paused, err := store.Paused(ctx, "shop"); err != nil || len(paused) != 0 {
		t.Fatalf("without the table: %v, %v", paused, err)
	}
	check.OK(t, store.Resume(ctx, "shop", "ship"))
	want := map[string]bool{}
	for _, f := range oddFunctions {
		check.OK(t, store.Pause(ctx, "shop", f, time.Now()))
		check.OK(t, store.Pause(ctx, "shop", f, time.Now()))
		want[f] = true
	}
	check.OK(t, store.Pause(ctx, "shop-2", "other", time.Now()))
	if paused, err := store.Paused(ctx, "shop"); err != nil || !reflect.DeepEqual(paused, want) {
		t.Errorf("paused are %v, %v", paused, err)
	}
	for _, f := range oddFunctions {
		check.OK(t, store.Resume(ctx, "shop", f))
	}
	list, err := store.List(ctx)
	if err != nil || len(list.Pauses) != 1 || list.Pauses[0].App != "shop-2" || list.Pauses[0].Function != "other" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, names := range [][2]string{{"", "f"}, {"a", ""}, {"a/b", "f"}, {"a", strings.Repeat("x", 600)}} {
		if err := store.Pause(ctx, names[0], names[1], time.Now()); !errors.Is(err, hostrow.ErrName) {
			t.Errorf("%.20q: %v", names, err)
		}
	}
}

// A process shows while it runs, confirms a pause, and leaves nothing behind.
func TestReporter(t *testing.T) {
	t.Parallel()
	store := hostrow.Open(lazulitest.Start(t).Account(t).Storage.Tables)
	check.OK(t, store.Pause(t.Context(), "shop", "ship", time.Now()))
	tick, waits := make(chan time.Time), make(chan struct{})
	functions := []hostrow.Function{{Name: "ship", Trigger: "queueTrigger", Source: "orders"}, {Name: "bill"}}
	r := &hostrow.Reporter{Store: store, Log: slog.New(slog.DiscardHandler),
		Process:  hostrow.Process{App: "shop", ID: "1", Machine: "here", PID: 7, Started: time.Now(), Every: hostrow.Every},
		Snapshot: func() ([]hostrow.Function, bool) { return slices.Clone(functions), false },
		Apply: func(paused map[string]bool) {
			for i := range functions {
				functions[i].Paused = paused[functions[i].Name]
			}
		},
		Timer: func(time.Duration) (<-chan time.Time, func()) { waits <- struct{}{}; return tick, func() {} }}
	r.Begin(t.Context())
	if !functions[0].Paused || functions[1].Paused {
		t.Error("a function that is paused before the start begins")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	seen := func() hostrow.Process {
		t.Helper()
		list, err := store.List(t.Context())
		check.OK(t, err)
		if len(list.Processes) != 1 {
			t.Fatalf("%d processes", len(list.Processes))
		}
		return list.Processes[0]
	}
	<-waits
	p := seen()
	if p.Machine != "here" || p.PID != 7 || p.Every != hostrow.Every || !p.Functions[0].Paused || p.Functions[1].Paused {
		t.Errorf("%+v", p)
	}
	list, err := store.List(t.Context())
	check.OK(t, err)
	if p.Gone(list.Now) || p.Gone(list.Now.Add(30*time.Second)) || !p.Gone(list.Now.Add(40*time.Second)) {
		t.Error("a process is gone after three heartbeats and a half")
	}
	// A change is confirmed at the next look, which is between two heartbeats.
	check.OK(t, store.Resume(t.Context(), "shop", "ship"))
	check.OK(t, store.Pause(t.Context(), "shop", "bill", time.Now()))
	tick <- time.Time{}
	<-waits
	if p := seen(); p.Functions[0].Paused || !p.Functions[1].Paused {
		t.Errorf("not confirmed: %+v", p)
	}
	cancel()
	<-ended
	list, err = store.List(t.Context())
	if err != nil || len(list.Processes) != 0 || len(list.Pauses) != 1 {
		t.Errorf("after the end: %+v, %v", list, err)
	}
}

// More functions than a row holds are counted; a row of a newer version does no harm.
func TestHostRowsAreBounded(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	store := hostrow.Open(a.Storage.Tables)
	p := hostrow.Process{App: "shop", ID: "1", Every: time.Second}
	for range 1000 {
		p.Functions = append(p.Functions, hostrow.Function{Name: strings.Repeat("ß", 50), Source: "orders"})
	}
	check.OK(t, store.Beat(t.Context(), p))
	for _, text := range []string{"", "no JSON", `{"functions": 7}`} {
		entity, err := json.Marshal(map[string]string{"PartitionKey": "new", "RowKey": "p-" + text, "Text": text})
		check.OK(t, err)
		_, err = a.Storage.Tables.NewClient(hostrow.Table).AddEntity(t.Context(), entity, nil)
		check.OK(t, err)
	}
	list, err := store.List(t.Context())
	check.OK(t, err)
	if len(list.Processes) != 1 || len(list.Processes[0].Functions) < 100 ||
		len(list.Processes[0].Functions)+list.Processes[0].More != 1000 {
		t.Errorf("%d processes", len(list.Processes))
	}
}

// A function is fixed if no process can pause it. One that is paused and has no process is known.
func TestFindFixed(t *testing.T) {
	t.Parallel()
	list := hostrow.List{Pauses: []hostrow.Pause{{App: "shop", Function: "old"}}, Processes: []hostrow.Process{
		{App: "shop", Functions: []hostrow.Function{{Name: "flow", Fixed: true}, {Name: "new", Fixed: true},
			{Name: "ship"}}},
		{App: "shop", Functions: []hostrow.Function{{Name: "new"}}}}}
	for _, c := range []struct {
		app, function string
		known, fixed  bool
	}{{"shop", "flow", true, true}, {"shop", "new", true, false}, {"shop", "ship", true, false},
		{"shop", "old", true, false},
		{"shop", "none", false, false}, {"other", "ship", false, false}} {
		if known, fixed := list.Find(c.app, c.function); known != c.known || fixed != c.fixed {
			t.Errorf("%s of %s: %v, %v", c.function, c.app, known, fixed)
		}
	}
}
