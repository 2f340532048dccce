package frame

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

//go:embed templates static
var files embed.FS

// Services are those of the running server, which the pages call.
type Services interface {
	URL(service wire.Service, account string) string
	Transport() *inproc.Transport
}

// Site is what all pages have in common: the frame around a page, the checks of a change, and the clients of the
// services. The exported fields are set by its maker.
type Site struct {
	// Backend returns the services, or nil while they start.
	Backend func() Services
	// Accounts are the accounts that are served.
	Accounts *auth.Accounts
	// ReadOnly refuses every change.
	ReadOnly bool
	// Cluster says that there is a page of the cluster.
	Cluster bool
	// Version is the program's version, for people.
	Version string
	Now     func() time.Time
	Log     *slog.Logger

	mux   *http.ServeMux
	pages map[string]*template.Template
	token string // of changes
}

// New completes a site without pages, whose exported fields are set.
func New(s Site) *Site {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	s.token, s.pages, s.mux = hex.EncodeToString(secret), Parse(files), http.NewServeMux()
	static, err := fs.Sub(files, "static")
	// The folder is embedded: it is missing only if the program was built wrong.
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	s.mux.Handle("GET "+Prefix+"static/", http.StripPrefix(Prefix+"static/", http.FileServerFS(static)))
	// Everything else below the prefix is a page of the dashboard that does not exist; without this line it would reach
	// the mux's plain 404.
	s.mux.HandleFunc(Prefix, s.handle(func(http.ResponseWriter, *http.Request) error {
		return Problem{http.StatusNotFound, "There is no page at this address", "Begin at the home page."}
	}))
	return &s
}

// Templates adds the templates of pages, see [Parse].
func (d *Site) Templates(from fs.FS) { maps.Copy(d.pages, Parse(from)) }

// Route adds a page, which is read by GET and changed by POST to the same address; post may be nil. change has the
// checks for all of them: read-only, origin, token.
func (d *Site) Route(pattern string, get, post Handler) {
	d.mux.HandleFunc("GET "+Prefix+pattern, d.handle(get))
	if post != nil {
		d.mux.HandleFunc("POST "+Prefix+pattern, d.change(post))
	}
}

// contentPolicy allows what the dashboard's own files do, and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler serves all pages of the site.
func (d *Site) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // without a referrer, browsers send the Origin "null" with forms
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		d.mux.ServeHTTP(w, r)
	})
}

// Handler answers a request, or returns what went wrong.
type Handler func(w http.ResponseWriter, r *http.Request) error

// With makes a handler that needs a client of the account in the page's path.
func With[C any](open func(*http.Request) (*C, error), h func(http.ResponseWriter, *http.Request, *C) error) Handler {
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
func (d *Site) handle(h Handler) http.HandlerFunc {
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

func (d *Site) serving() error {
	if d.Backend() == nil {
		return Problem{http.StatusServiceUnavailable, "The services are starting", "Reload this page in a moment."}
	}
	return nil
}

// maxForm bounds a form without files.
const maxForm = 2 << 20

// change makes a handler for requests that change something: they carry the token.
func (d *Site) change(h Handler) http.HandlerFunc {
	return d.handle(func(w http.ResponseWriter, r *http.Request) error {
		if d.ReadOnly {
			return Problem{http.StatusForbidden, "The dashboard is read-only",
				"Start lazuli without --admin-ui read-only to allow changes."}
		}
		token := r.Header.Get("X-Csrf-Token") // of the script's uploads, whose body is the file
		form := token == ""
		if form {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			token = r.PostFormValue("csrf")
		}
		if subtle.ConstantTimeCompare([]byte(token), []byte(d.token)) != 1 {
			return Problem{http.StatusForbidden, "The form is out of date", "Go back, reload the page, and try again."}
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
	Fields   []Property
	Back     string
}

func (confirmPage) Template() string { return "confirm" }

// confirm asks whether a form that destroys something is meant, where the script has not done so.
func (d *Site) confirm(w http.ResponseWriter, r *http.Request, question string) error {
	var fields []Property
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, v := range r.PostForm[name] {
			fields = append(fields, Property{name, v})
		}
	}
	return d.Show(w, r, question, nil, confirmPage{Question: question, Fields: fields, Back: r.URL.RequestURI()})
}

// Model holds what a page shows besides what all pages do: the fields that its template names.
type Model interface {
	// Template returns the name of the page's template.
	Template() string
}

// Page holds what every template gets.
type Page struct {
	Title    string
	Here     string // the path of the page, for the navigation
	Account  string // the account that the page belongs to, "" for none
	Accounts []string
	More     bool // there are more accounts than Accounts
	Crumbs   []Crumb
	Token    string
	ReadOnly bool
	Cluster  bool // there is a page of the cluster
	Version  string
	Done     string // what the last change did
	Follow   string // "changes" or "always" for a page that keeps itself current; see app.js
	Data     Model
}

// follows names the pages that keep themselves current, by their templates. What functions do is not seen in the
// requests, nor what other nodes of a cluster do, so that their pages are always fetched again.
var follows = map[string]string{"home": "changes", "queues": "changes", "queue": "changes", "hubs": "changes",
	"hub": "changes", "instance": "changes", "functions": "always", "function": "always", "workers": "always",
	"worker": "always", "processes": "always", "events": "changes", "cluster": "always"}

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

// Show renders a page.
func (d *Site) Show(w http.ResponseWriter, r *http.Request, title string, crumbs []Crumb, data Model) error {
	return d.ShowStatus(w, r, http.StatusOK, title, crumbs, data)
}

// ShowStatus renders a page with a status of the response.
func (d *Site) ShowStatus(w http.ResponseWriter, r *http.Request, status int, title string, crumbs []Crumb,
	data Model) error {
	p := Page{Title: title, Here: r.URL.Path, Account: r.PathValue("account"), Crumbs: crumbs, Token: d.token,
		ReadOnly: d.ReadOnly, Cluster: d.Cluster,
		Version: d.Version, Done: done[r.URL.Query().Get("done")], Data: data}
	if r.Method == http.MethodGet {
		p.Follow = follows[data.Template()]
	}
	p.Accounts, p.More = d.ShownAccounts(p.Account)
	var out bytes.Buffer
	if err := d.pages[data.Template()].ExecuteTemplate(&out, "layout", p); err != nil {
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

// ShownAccounts are the first accounts and the current one, and whether there are more.
func (d *Site) ShownAccounts(current string) (names []string, more bool) {
	all := d.Accounts.Names()
	if len(all) <= maxAccounts {
		return all, false
	}
	names = slices.Clone(all[:maxAccounts])
	if slices.Contains(all[maxAccounts:], current) {
		names = append(names, current)
	}
	return names, true
}

// maxAccounts is the number of accounts that every page lists.
const maxAccounts = 20

// Part writes a template that the file of a page defines besides its content.
func (d *Site) Part(w io.Writer, page, name string, data any) error {
	return d.pages[page].ExecuteTemplate(w, name, data)
}
