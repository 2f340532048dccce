// Package hostrow keeps what processes with workers say of themselves: rows of a table of the account that they use.
// A process writes its row again and again, its heartbeat, and reads which of its functions are to be paused.
//
//	PartitionKey  the app, workers.Config.HostID
//	RowKey        p-ID        a process
//	              x-FUNCTION  the function is to be paused in all processes of the app
//
// The age of a row is that between its Timestamp and the service's Date, so that the clocks of processes and readers do
// not matter.
package hostrow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Table is the name of the table.
const Table = "lazuliworkers"

// The times of a heartbeat.
const (
	// Every is the usual interval of heartbeats.
	Every = 10 * time.Second
	// missed is the number of heartbeats that a process may miss before it counts as gone.
	missed = 3
	// Forgotten is the age of a heartbeat at which a process is not shown any more, and its row is removed.
	Forgotten = time.Hour
)

// Function is a function of a process.
type Function struct {
	Name    string `json:"name"`
	Trigger string `json:"trigger"`
	// Source is what it listens to: queues, with ", " between them, a path, a table, a schedule.
	Source string `json:"source,omitempty"`
	// Paused is whether it is paused in the process, for whatever reason; ByAccount that a row of the account is one.
	Paused    bool `json:"paused,omitempty"`
	ByAccount bool `json:"byAccount,omitempty"`
	// Fixed functions cannot be paused.
	Fixed     bool  `json:"fixed,omitempty"`
	InFlight  int64 `json:"inFlight"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Poisoned  int64 `json:"poisoned,omitempty"`
}

// Process is what a process says of itself.
type Process struct {
	App      string        `json:"app"`
	ID       string        `json:"id"`
	About    string        `json:"about"` // the program and its version
	Machine  string        `json:"machine"`
	PID      int           `json:"pid"`
	Started  time.Time     `json:"started"`
	Every    time.Duration `json:"-"` // interval of its heartbeats
	Stopping bool          `json:"stopping,omitempty"`
	// Functions are as many as a row holds; More is the number of the others.
	Functions []Function `json:"functions"`
	More      int        `json:"more,omitempty"`
	// Beat is when the row was written, by the service's clock.
	Beat time.Time `json:"heartbeat"`
}

// Gone reports whether a process has missed too many heartbeats.
func (p Process) Gone(now time.Time) bool { return now.Sub(p.Beat) > missed*p.Every+p.Every/2 }

// Pause is a function that is to be paused in all processes of an app.
type Pause struct {
	App      string    `json:"app"`
	Function string    `json:"function"`
	Since    time.Time `json:"since"`
}

// List is what an account's table has.
type List struct {
	Processes []Process
	Pauses    []Pause
	// Now is the service's time.
	Now time.Time
	// More says that the table has more rows than are read.
	More bool
}

// maxRows bounds the rows that List reads.
const maxRows = 2000

// Store is the table of an account, which is created with the first heartbeat or pause.
type Store struct {
	service *aztables.ServiceClient
	client  *aztables.Client
}

// Open opens the table.
func Open(service *aztables.ServiceClient) Store { return Store{service, service.NewClient(Table)} }

// The kinds of rows, by the beginning of the RowKey.
const (
	processKey = "p-"
	pauseKey   = "x-"
)

// row is an entity of either kind.
type row struct {
	PartitionKey, RowKey string
	Timestamp            time.Time `json:",omitzero"`
	// Text has a Process or a Pause without what the keys and the Timestamp say.
	Text  string
	Every int32 `json:",omitempty"` // milliseconds
}

// maxText is the longest text of a row, in bytes: a property holds 64 KiB of UTF-16.
const maxText = 30 << 10

func pauseRow(function string) string {
	// A key has none of / \ # ? and no control characters, and what is left needs no escape in an address.
	return pauseKey + strings.NewReplacer("%", "=", "+", "=20").Replace(url.QueryEscape(function))
}

// Beat writes the row of a process.
func (s Store) Beat(ctx context.Context, p Process) error {
	r := row{PartitionKey: p.App, RowKey: processKey + p.ID, Every: int32(p.Every.Milliseconds())}
	for {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if r.Text = string(text); len(text) <= maxText || len(p.Functions) == 0 {
			return s.write(ctx, r)
		}
		keep := len(p.Functions) * 3 / 4
		p.More += len(p.Functions) - keep
		p.Functions = p.Functions[:keep]
	}
}

// Leave removes the row of a process that stops.
func (s Store) Leave(ctx context.Context, p Process) error {
	return s.remove(ctx, p.App, processKey+p.ID)
}

// maxKey is the length of a key: 1 KiB of UTF-16.
const maxKey = 512

// ErrName means that a function of that name cannot be paused.
var ErrName = errors.New("the name of an app or function is not one that can be paused")

// Pause writes that a function is to be paused.
func (s Store) Pause(ctx context.Context, app, function string, now time.Time) error {
	if app == "" || function == "" || len(app) > maxKey || len(pauseRow(function)) > maxKey ||
		strings.ContainsAny(app, "/\\#?%") {
		return fmt.Errorf("%w: %q of %q", ErrName, function, app)
	}
	text, err := json.Marshal(Pause{Function: function, Since: now})
	if err != nil {
		return err
	}
	return s.write(ctx, row{PartitionKey: app, RowKey: pauseRow(function), Text: string(text)})
}

// Resume removes what Pause has written. It does nothing if the function is not to be paused.
func (s Store) Resume(ctx context.Context, app, function string) error {
	return s.remove(ctx, app, pauseRow(function))
}

func (s Store) write(ctx context.Context, r row) error {
	entity, err := json.Marshal(r)
	if err != nil {
		return err
	}
	replace := &aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}
	_, err = s.client.UpsertEntity(ctx, entity, replace)
	if !missing(err) {
		return err
	}
	if _, err := s.service.CreateTable(ctx, Table, nil); err != nil && !hasCode(err, aztables.TableAlreadyExists) {
		return err
	}
	_, err = s.client.UpsertEntity(ctx, entity, replace)
	return err
}

func (s Store) remove(ctx context.Context, pk, rk string) error {
	_, err := s.client.DeleteEntity(ctx, pk, rk, nil)
	if missing(err) {
		return nil
	}
	return err
}

func missing(err error) bool {
	return hasCode(err, aztables.TableNotFound, aztables.ResourceNotFound, aztables.EntityNotFound)
}

func hasCode(err error, codes ...aztables.TableErrorCode) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && slices.Contains(codes, aztables.TableErrorCode(r.ErrorCode))
}

// Paused returns the functions of an app that are to be paused.
func (s Store) Paused(ctx context.Context, app string) (map[string]bool, error) {
	list, err := s.query(ctx, "PartitionKey eq '"+strings.ReplaceAll(app, "'", "''")+"' and RowKey ge '"+pauseKey+
		"' and RowKey lt 'x.'")
	paused := make(map[string]bool)
	for _, p := range list.Pauses {
		paused[p.Function] = true
	}
	return paused, err
}

// List returns the processes whose last heartbeat is not too old, and all pauses, by app; processes that were started
// later come first.
func (s Store) List(ctx context.Context) (List, error) {
	list, err := s.query(ctx, "")
	list.Processes = slices.DeleteFunc(list.Processes, func(p Process) bool { return list.Now.Sub(p.Beat) > Forgotten })
	slices.SortStableFunc(list.Processes, func(a, b Process) int {
		if n := strings.Compare(a.App, b.App); n != 0 {
			return n
		}
		return b.Started.Compare(a.Started)
	})
	return list, err
}

// Sweep removes the rows of processes that are forgotten.
func (s Store) Sweep(ctx context.Context) error {
	list, err := s.query(ctx, "RowKey ge '"+processKey+"' and RowKey lt 'p.'")
	for _, p := range list.Processes {
		if err == nil && list.Now.Sub(p.Beat) > Forgotten {
			err = s.Leave(ctx, p)
		}
	}
	return err
}

// query reads rows. A missing table has none. A row that cannot be read is one of a newer version, and is left out.
func (s Store) query(ctx context.Context, filter string) (list List, err error) {
	var answer *http.Response
	o := &aztables.ListEntitiesOptions{Format: to.Ptr(aztables.MetadataFormatNone)}
	if filter != "" {
		o.Filter = &filter
	}
	pages := s.client.NewListEntitiesPager(o)
	for rows := 0; pages.More(); {
		got, err := pages.NextPage(policy.WithCaptureResponse(ctx, &answer))
		if missing(err) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if list.Now, err = http.ParseTime(answer.Header.Get("Date")); err != nil {
			list.Now = time.Now()
		}
		for _, text := range got.Entities {
			list.add(text)
		}
		if rows += len(got.Entities); rows >= maxRows && pages.More() {
			list.More = true
			break
		}
	}
	return list, nil
}

func (l *List) add(text []byte) {
	var r row
	if json.Unmarshal(text, &r) != nil {
		return
	}
	switch {
	case strings.HasPrefix(r.RowKey, processKey):
		var p Process
		if json.Unmarshal([]byte(r.Text), &p) != nil {
			return
		}
		p.App, p.ID, p.Beat = r.PartitionKey, r.RowKey[len(processKey):], r.Timestamp
		p.Every = max(time.Duration(r.Every)*time.Millisecond, time.Second)
		l.Processes = append(l.Processes, p)
	case strings.HasPrefix(r.RowKey, pauseKey):
		var p Pause
		if json.Unmarshal([]byte(r.Text), &p) != nil || p.Function == "" {
			return
		}
		p.App = r.PartitionKey
		l.Pauses = append(l.Pauses, p)
	}
}

// Find reports whether an app has a function, in a process or as one that is to be paused, and whether it is fixed: all
// processes with it say that it cannot be paused.
func (l List) Find(app, function string) (known, fixed bool) {
	pausable := false
	for _, p := range l.Processes {
		for _, f := range p.Functions {
			if p.App == app && f.Name == function {
				known, pausable = true, pausable || !f.Fixed
			}
		}
	}
	fixed = known && !pausable
	return known || slices.ContainsFunc(l.Pauses, func(p Pause) bool {
		return p.App == app && p.Function == function
	}), fixed
}

// State returns the state of a function in a process, as people read it: "runs" and "paused", with "pausing" and
// "resuming" until the process has done what the rows say, "stopping" and "gone".
func (l List) State(p Process, f Function) string {
	wanted := slices.ContainsFunc(l.Pauses, func(q Pause) bool { return q.App == p.App && q.Function == f.Name })
	switch {
	case p.Gone(l.Now):
		return "gone"
	case p.Stopping:
		return "stopping"
	case f.Fixed:
		return "runs"
	case wanted && !f.ByAccount:
		return "pausing"
	case !wanted && f.ByAccount:
		return "resuming"
	case f.Paused:
		return "paused"
	}
	return "runs"
}
