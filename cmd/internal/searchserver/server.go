// Package searchserver is the program lazuli-search: an index of the search-index role in a process of its own. The
// role is in the process that starts it; see package searchproc, which has the protocol.
package searchserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

// usage is the help for people who start the program.
const usage = `lazuli-search has the full-text index of the role search-index. lazuli starts it:

  lazuli serve --roles search-index --search-index-table TABLE --search-index-fields NAME:TYPE,...

It has to be beside the program lazuli or on the PATH, in the same version.
`

// hardEnd is the time after the end of the standard input at which the process ends with requests still open.
const hardEnd = 3 * time.Second

// Main runs the program and returns its exit code.
func Main() int {
	// The process that starts it gets these signals, too, and ends it when its last step is done.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if len(os.Args) > 1 {
		return say(os.Args[1:])
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var s searchproc.Settings
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
		time.Sleep(hardEnd)
		os.Exit(1)
	}()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	answer := json.NewEncoder(os.Stdout)
	if err := serve(s, log, answer, ended); err != nil {
		_ = answer.Encode(searchproc.Started{Error: err.Error(), Kind: kind(err)}) // Else the caller has ended.
		return 1
	}
	return 0
}

// say answers a person.
func say(args []string) int {
	switch args[0] {
	case "version", "--version":
		fmt.Printf("lazuli-search %s\n", buildinfo.Current())
		return 0
	case "help", "--help", "-h":
		fmt.Print(usage)
		return 0
	}
	fmt.Fprint(os.Stderr, usage)
	return 2
}

func kind(err error) string {
	switch {
	case errors.Is(err, searchindex.ErrFields):
		return searchproc.KindUsage
	case errors.Is(err, searchindex.ErrNoIndex):
		return searchproc.KindNoIndex
	case errors.Is(err, searchindex.ErrInUse):
		return searchproc.KindInUse
	}
	return ""
}

// serve serves an index until ended is closed.
func serve(s searchproc.Settings, log *slog.Logger, answer *json.Encoder, ended <-chan struct{}) (err error) {
	if own := buildinfo.Current().Version; s.Version != own {
		return fmt.Errorf("%s is of version %s and lazuli of %s: install the same", searchproc.Program, own, s.Version)
	}
	if s.Faults != "" {
		plan, err := fault.ParsePlan(s.Faults)
		if err != nil {
			return err
		}
		fault.Activate(plan)
	}
	x, err := open(s, log, ended)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: searchproc.Guard(s.Token, newHandler(x)), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if err := answer.Encode(searchproc.Started{Address: l.Addr().String()}); err != nil {
		return err
	}
	<-ended
	return nil
}

// open opens the index, and waits for its folder if another process still has it open.
func open(s searchproc.Settings, log *slog.Logger, ended <-chan struct{}) (*searchindex.Index, error) {
	storage, err := openStorage(s)
	if err != nil {
		return nil, err
	}
	c := searchindex.Config{Storage: storage, Table: s.Table, Folder: s.Folder, Log: log}
	if s.Fields != "" {
		if c.Fields, err = searchindex.ParseFields(s.Fields); err != nil {
			return nil, fmt.Errorf("search-index-fields: %w", err)
		}
	}
	for until := time.Now().Add(s.Wait); ; {
		var x *searchindex.Index
		if s.Fields == "" {
			x, err = searchindex.OpenFolder(s.Folder, storage)
		} else {
			x, err = searchindex.Open(c)
		}
		if !errors.Is(err, searchindex.ErrInUse) || time.Now().After(until) {
			return x, err
		}
		select {
		case <-ended:
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// openStorage returns the account of the table; nil if the settings have none.
func openStorage(s searchproc.Settings) (*workers.Storage, error) {
	if s.ConnectionString != "" {
		return workers.OpenStorage(s.ConnectionString)
	}
	if s.Tables == "" {
		return nil, nil
	}
	client, err := aztables.NewServiceClientWithNoCredential(s.Tables, &aztables.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: withToken(s.Token)},
			PerCallPolicies: []policy.Policy{emptykey.Policy()}}})
	if err != nil {
		return nil, err
	}
	return &workers.Storage{Tables: client}, nil
}

// withToken adds itself to requests, as searchproc's gate asks for it.
type withToken string

// RoundTrip implements http.RoundTripper.
func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// newHandler serves what package searchproc asks for.
func newHandler(x *searchindex.Index) http.Handler {
	mux := http.NewServeMux()
	follower := x.Follower()
	mux.HandleFunc("GET /progress", func(w http.ResponseWriter, r *http.Request) {
		p, err := follower.Progress(r.Context())
		reply(w, p, err)
	})
	mux.HandleFunc("POST /restart", with(func(ctx context.Context, p follow.Progress) (struct{}, error) {
		return struct{}{}, follower.Restart(ctx, p)
	}))
	mux.HandleFunc("POST /apply", with(func(ctx context.Context, s searchproc.Step) (struct{}, error) {
		changes := make([]workers.TableChange, len(s.Changes))
		for i, c := range s.Changes {
			changes[i] = workers.TableChange{Table: x.Table(), PartitionKey: c.PartitionKey, RowKey: c.RowKey, Entity: c.Entity}
		}
		return struct{}{}, follower.Apply(ctx, changes, s.Progress)
	}))
	mux.HandleFunc("POST /update", with(func(ctx context.Context, k tables.Key) (struct{}, error) {
		return struct{}{}, x.Update(ctx, k)
	}))
	mux.HandleFunc("POST /build", func(w http.ResponseWriter, r *http.Request) {
		reply(w, struct{}{}, x.Build(r.Context()))
	})
	mux.HandleFunc("POST /repair", func(w http.ResponseWriter, r *http.Request) {
		n, err := x.Repair(r.Context())
		reply(w, searchproc.Repaired{Documents: n}, err)
	})
	mux.Handle("/", searchindex.NewHandler(x))
	return mux
}

// with reads the body of a request.
func with[In, Out any](do func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			reply(w, nil, err)
			return
		}
		out, err := do(r.Context(), in)
		reply(w, out, err)
	}
}

func reply(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		v = searchproc.Failure{Error: err.Error(), Restarted: errors.Is(err, follow.ErrRestarted)}
	}
	_ = json.NewEncoder(w).Encode(v) // The client has gone.
}
