package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// Backend is the running server. A [server.Server] implements it.
type Backend interface {
	// URL is an account's endpoint of a service.
	URL(service wire.Service, account string) string
	// Path returns the data folder.
	Path() string
	// Ready returns nil while the services serve.
	Ready() error
	// Transport carries requests to the services.
	Transport() *inproc.Transport
	// Faults are the fault rules; nil where they are not allowed.
	Faults() *faultrule.Set
	// Events delivers the events of accounts; nil where they are not allowed.
	Events() *events.Manager

	Reset(ctx context.Context, scope server.Scope) (map[wire.Service]int, error)
	Save(ctx context.Context, name string, replace bool) error
	Restore(ctx context.Context, name string) error
	Snapshots() ([]datadir.Snapshot, error)
	RemoveSnapshot(name string) error
}

// Clock is a clock that can be set forward; see the admin listener's.
type Clock interface {
	Offset() time.Duration
	Change(text string) error
}

// Options configure the dashboard. Backend, Accounts and Requests are required.
type Options struct {
	// Backend returns the server, or nil while it starts.
	Backend func() Backend
	// Accounts are the accounts that are served.
	Accounts *auth.Accounts
	// Requests are the latest requests.
	Requests *Requests
	// Workers answers what the workers of this process do, as the admin listener's /workers; nil without workers.
	Workers http.Handler
	// WorkersAccount is the account whose queues the workers read.
	WorkersAccount string
	// Workflows returns the HTTP management API of a task hub, or nil if the account has no such hub; a nil function is a
	// server without it.
	Workflows func(ctx context.Context, account, hub string) (http.Handler, error)
	// FunctionHosts are the addresses, host:port, of the function apps whose functions are shown and run.
	FunctionHosts []string
	// State allows resets, snapshots and the seed.
	State bool
	// Seed creates the resources of the seed that do not exist; nil is no seed.
	Seed func(context.Context) error
	// ReadOnly refuses every change.
	ReadOnly bool
	// Clock is the test clock; nil is a server on the system's clock.
	Clock Clock
	// InMemory says that nothing is kept.
	InMemory bool
	// Version is the program's version, for people.
	Version string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
}

// Prefix is the place where the pages are: "/ui/".
const Prefix = "/ui/"

//go:embed templates static
var files embed.FS

// dashboard serves the pages.
type dashboard struct {
	Options
	pages   map[string]*template.Template
	token   string // of changes
	started time.Time
}

// contentPolicy allows what the dashboard's own files do, and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// New makes the dashboard's handler for the paths below [Prefix].
func New(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	d := &dashboard{Options: o, pages: parsePages(), token: hex.EncodeToString(secret), started: time.Now()}
	mux := http.NewServeMux()
	d.routes(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // without a referrer, browsers send the Origin "null" with forms
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func (d *dashboard) routes(mux *http.ServeMux) {
	static, err := fs.Sub(files, "static")
	// The folder is embedded: it is missing only if the program was built wrong.
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	mux.Handle("GET "+Prefix+"static/", http.StripPrefix(Prefix+"static/", http.FileServerFS(static)))
	// A page is read by GET and changed by POST to the same address. change has the checks for all of them: read-only,
	// origin, token.
	pages := func(pattern string, get, post handler) {
		mux.HandleFunc("GET "+Prefix+pattern, d.handle(get))
		if post != nil {
			mux.HandleFunc("POST "+Prefix+pattern, d.change(post))
		}
	}
	pages("{$}", d.home, nil)
	pages("accounts", d.accounts, nil)
	pages("accounts/{account}", d.account, nil)
	pages("accounts/{account}/sas", d.sas, d.makeSAS)
	pages("accounts/{account}/search", d.search, nil)
	// with gives the handler the client of the account in the path, or answers 404 if there is no such account.
	pages("accounts/{account}/workers", with(d.tableClient, d.processes), with(d.tableClient, d.changeProcesses))
	pages("accounts/{account}/containers", with(d.blobClient, d.containers), with(d.blobClient, d.changeContainers))
	pages("accounts/{account}/containers/{container}", with(d.blobClient, d.container),
		with(d.blobClient, d.changeContainer))
	pages("accounts/{account}/containers/{container}/size", with(d.blobClient, d.containerSize), nil)
	pages("accounts/{account}/containers/{container}/upload", d.uploadForm, with(d.blobClient, d.upload))
	pages("accounts/{account}/paths/{container}", with(d.lakeClient, d.paths), with(d.lakeClient, d.changePaths))
	pages("accounts/{account}/blob/{container}", d.blob, d.changeBlob)
	pages("accounts/{account}/content/{container}", d.content, nil)
	pages("accounts/{account}/queues", with(d.queueClient, d.queues), with(d.queueClient, d.changeQueues))
	pages("accounts/{account}/queues/{queue}", with(d.queueClient, d.queue), with(d.queueClient, d.changeQueue))
	pages("accounts/{account}/queues/{queue}/jobs", with(d.tableClient, d.jobs), with(d.tableClient, d.cancelJobs))
	pages("accounts/{account}/schedules", with(d.tableClient, d.queueSchedules),
		with(d.tableClient, d.changeQueueSchedules))
	pages("accounts/{account}/tables", with(d.tableClient, d.tables), with(d.tableClient, d.changeTables))
	pages("accounts/{account}/tables/{table}", with(d.tableClient, d.table), with(d.tableClient, d.changeTable))
	pages("accounts/{account}/tables/{table}/size", with(d.tableClient, d.tableSize), nil)
	pages("accounts/{account}/tables/{table}/entity", with(d.tableClient, d.entity), with(d.tableClient, d.changeEntity))
	pages("accounts/{account}/tables/{table}/plan", with(d.tableClient, d.plan), nil)
	pages("accounts/{account}/tables/{table}/partitions", with(d.tableClient, d.partitions), nil)
	pages("accounts/{account}/workflows", with(d.blobClient, d.hubs), nil)
	pages("accounts/{account}/workflows/{hub}", d.hub, d.changeHub)
	pages("accounts/{account}/workflows/{hub}/entities", d.durableEntities, d.signalDurableEntity)
	pages("accounts/{account}/workflows/{hub}/entity", d.durableEntity, d.signalDurableEntity)
	pages("accounts/{account}/workflows/{hub}/schedules", d.schedules, nil)
	pages("accounts/{account}/workflows/{hub}/instance", d.instance, d.changeInstance)
	pages("events", d.events, d.changeEvents)
	pages("workers", d.workers, d.changeWorkers)
	pages("workers/{function}", d.worker, nil)
	pages("functions", d.functions, nil)
	pages("functions/{app}/{function}", d.function, d.runFunction)
	pages("functions/{app}/{function}/{id}", d.functionInvocation, nil)
	pages("trace", d.trace, nil)
	pages("trace.json", d.traceJSON, nil)
	pages("live", d.live, nil)
	pages("requests", d.requests, nil)
	pages("requests.csv", d.requestsCSV, nil)
	pages("requests/live", d.liveRequests, nil)
	pages("requests/{id}", d.request, nil)
	pages("control", d.control, d.changeControl)
	// Everything else below the prefix is a page of the dashboard that does not exist; without this line it would reach
	// the mux's plain 404.
	mux.HandleFunc(Prefix, d.handle(func(http.ResponseWriter, *http.Request) error {
		return problem{http.StatusNotFound, "There is no page at this address", "Begin at the home page."}
	}))
}

// handler answers a request, or returns what went wrong.
type handler func(w http.ResponseWriter, r *http.Request) error

// with makes a handler that needs a client of the account in the page's path.
func with[C any](open func(*http.Request) (*C, error), h func(http.ResponseWriter, *http.Request, *C) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		client, err := open(r)
		if err != nil {
			return err
		}
		return h(w, r, client)
	}
}

// beganKey is the key of the time at which a page's request arrived, in the request's context.
type beganKey struct{}

// handle makes a handler that shows its error as a page.
func (d *dashboard) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(wire.WithSystem(context.WithValue(r.Context(), beganKey{}, time.Now())))
		if err := d.serving(); err != nil {
			d.fail(w, r, err)
			return
		}
		if err := h(w, r); err != nil {
			d.fail(w, r, err)
		}
	}
}

func (d *dashboard) serving() error {
	if d.Backend() == nil {
		return problem{http.StatusServiceUnavailable, "The services are starting", "Reload this page in a moment."}
	}
	return nil
}

// maxForm bounds a form without files.
const maxForm = 2 << 20

// change makes a handler for requests that change something: they carry the token.
func (d *dashboard) change(h handler) http.HandlerFunc {
	return d.handle(func(w http.ResponseWriter, r *http.Request) error {
		if d.ReadOnly {
			return problem{http.StatusForbidden, "The dashboard is read-only",
				"Start lazuli without --admin-ui read-only to allow changes."}
		}
		token := r.Header.Get("X-Csrf-Token") // of the script's uploads, whose body is the file
		form := token == ""
		if form {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			token = r.PostFormValue("csrf")
		}
		if subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) != 1 {
			return problem{http.StatusForbidden, "The form is out of date", "Go back, reload the page, and try again."}
		}
		if question := r.PostForm.Get("ask"); form && question != "" && r.PostFormValue("confirmed") == "" {
			return d.confirm(w, r, question)
		}
		return h(w, r)
	})
}

// confirmPage holds the form that a person confirms.
type confirmPage struct {
	Question string
	Fields   []property
	Back     string
}

func (confirmPage) template() string { return "confirm" }

// confirm asks whether a form that destroys something is meant, where the script has not done so.
func (d *dashboard) confirm(w http.ResponseWriter, r *http.Request, question string) error {
	var fields []property
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, v := range r.PostForm[name] {
			fields = append(fields, property{name, v})
		}
	}
	return d.show(w, r, question, nil, confirmPage{Question: question, Fields: fields, Back: r.URL.RequestURI()})
}

// model holds what a page shows besides what all pages do: the fields that its template names.
type model interface {
	// template returns the name of the page's template.
	template() string
}

// page holds what every template gets.
type page struct {
	Title    string
	Here     string // the path of the page, for the navigation
	Account  string // the account that the page belongs to, "" for none
	Accounts []string
	More     bool // there are more accounts than Accounts
	Crumbs   []crumb
	Token    string
	ReadOnly bool
	Version  string
	Done     string // what the last change did
	Follow   string // "changes" or "always" for a page that keeps itself current; see app.js
	Data     model
}

// follows names the pages that keep themselves current, by their templates. What functions do is not seen in the
// requests, so that their pages are always fetched again.
var follows = map[string]string{"home": "changes", "queues": "changes", "queue": "changes", "hubs": "changes",
	"hub": "changes", "instance": "changes", "functions": "always", "function": "always", "workers": "always",
	"worker": "always", "processes": "always", "events": "changes"}

// crumb is a step of the path to a page.
type crumb struct{ Name, URL string }

// done are the messages that a page shows after a change, by the code in the URL.
var done = map[string]string{
	"created": "Created.", "deleted": "Deleted.", "saved": "Saved.", "uploaded": "Uploaded.", "restored": "Restored.",
	"renamed": "Renamed.", "broken": "The lease is broken.",
	"put": "The message was put.", "requeued": "Messages were requeued.", "purged": "Messages were deleted.",
	"paused": "Paused.", "resumed": "Resumed.",
	"pausing":   "It pauses when its processes have read that, within some seconds.",
	"resuming":  "It goes on when its processes have read that, within some seconds.",
	"cancelled": "Cancelled. Jobs that run are cancelled by their worker within some seconds.",
	"reset":     "Everything in scope was deleted.", "seeded": "The seed was applied.", "removed": "Removed.",
	"added":   "The rule was added.",
	"invoked": "The function ran; its invocation is the first one below.",
	"clock":   "The clock was set forward.", "subscribed": "Subscribed.",
	"flushed": "Every event so far was delivered, dead-lettered or dropped.",
	"started": "The workflow was started.", "sent": "Sent. It takes effect when a process that runs the hub receives it.",
}

// show renders a page.
func (d *dashboard) show(w http.ResponseWriter, r *http.Request, title string, crumbs []crumb, data model) error {
	return d.showStatus(w, r, http.StatusOK, title, crumbs, data)
}

func (d *dashboard) showStatus(w http.ResponseWriter, r *http.Request, status int, title string, crumbs []crumb,
	data model) error {
	p := page{Title: title, Here: r.URL.Path, Account: r.PathValue("account"), Crumbs: crumbs, Token: d.token,
		ReadOnly: d.ReadOnly,
		Version:  d.Version, Done: done[r.URL.Query().Get("done")], Data: data}
	if r.Method == http.MethodGet {
		p.Follow = follows[data.template()]
	}
	p.Accounts, p.More = d.shownAccounts(p.Account)
	var out bytes.Buffer
	if err := d.pages[data.template()].ExecuteTemplate(&out, "layout", p); err != nil {
		return err
	}
	if began, ok := r.Context().Value(beganKey{}).(time.Time); ok {
		took := float64(time.Since(began).Microseconds()) / 1000 // milliseconds
		w.Header().Set("Server-Timing", "page;dur="+strconv.FormatFloat(took, 'f', 2, 64))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // fails if the browser has gone
	return nil
}

// back redirects to a page of the dashboard after a change, unless that ended with an error.
func back(w http.ResponseWriter, r *http.Request, err error, path, done string) error {
	if err != nil {
		return err
	}
	if done != "" {
		path += "?done=" + done
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}
