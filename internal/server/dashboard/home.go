package dashboard

import (
	"net/http"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// homePage holds what the home page shows.
type homePage struct {
	Health      string // why the services do not serve everything
	Rates       Rates
	Chart       string // the points of a line of 300 by 60 units
	Memory      int64
	Up          string
	Folder      string
	InMemory    bool
	Free, Size  int64 // of the disk, -1 where it is not known
	Connections []connection
	Failures    []*Request
	Contents    []contents
}

func (homePage) template() string { return "home" }

// connection describes how an SDK connects to an account. Key is whether the string has the account's key.
type connection struct {
	Account, String string
	Key             bool
}

// home shows whether the server is well, and what to do next.
func (d *dashboard) home(w http.ResponseWriter, r *http.Request) error {
	b := d.Backend()
	data := homePage{Rates: d.Requests.Rates(), Up: short(time.Since(d.started)), Folder: b.Path(), InMemory: d.InMemory,
		Free:     -1,
		Failures: d.Requests.Latest(RequestFilter{Failed: true}, 5, 0)}
	if err := b.Ready(); err != nil {
		data.Health = err.Error()
	}
	data.Chart = points(data.Rates)
	data.Memory = memory()
	if !d.InMemory {
		data.Free, data.Size = diskSize(data.Folder)
	}
	names, _ := d.shownAccounts("")
	for _, name := range names {
		data.Connections = append(data.Connections, connectionOf(b, name))
	}
	for _, name := range names[:min(len(names), countedAccounts)] {
		of := r.Clone(r.Context())
		of.SetPathValue("account", name)
		if c, err := d.contents(of); err == nil {
			data.Contents = append(data.Contents, c)
		}
	}
	return d.show(w, r, "Home", nil, data)
}

// points are the coordinates of the line of requests per second.
func points(r Rates) string {
	var out strings.Builder
	top := max(r.Most, 1)
	for i, n := range r.Seconds {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(strconv.Itoa(i) + "," + strconv.Itoa(58-n*56/top))
	}
	return out.String()
}

// memory returns the bytes that the process has from the operating system.
func memory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// connectionOf returns what SDKs connect with. Only the development account's key, which is public, is shown.
func connectionOf(b Backend, account string) connection {
	key, public := "KEY", account == auth.DevelopmentAccount
	if public {
		key = auth.DevelopmentKey
	}
	text := connstr.Settings{Account: account, Key: connstr.NewSecret(key), BlobEndpoint: b.URL(wire.Blob, account),
		QueueEndpoint: b.URL(wire.Queue, account), TableEndpoint: b.URL(wire.Table, account),
		DFSEndpoint: b.URL(wire.DataLake, account)}.Reveal()
	return connection{account, text, public}
}

// maxAccounts is the number of accounts that every page lists.
const maxAccounts = 20

// shownAccounts are the first accounts and the current one, and whether there are more.
func (d *dashboard) shownAccounts(current string) (names []string, more bool) {
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

// accountsPage holds the accounts that the page of all accounts lists.
type accountsPage struct {
	Names        []string
	Prefix, Next string
}

func (accountsPage) template() string { return "accounts" }

// accounts lists the accounts.
func (d *dashboard) accounts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var names []string
	next := ""
	for _, name := range d.Accounts.Names() {
		if name <= q.Get("after") || !strings.HasPrefix(name, q.Get("prefix")) {
			continue
		}
		if len(names) == pageSize {
			next = names[pageSize-1]
			break
		}
		names = append(names, name)
	}
	return d.show(w, r, "Accounts", nil, accountsPage{Names: names, Prefix: q.Get("prefix"), Next: next})
}

// accountPage holds the connection string and the endpoints of an account.
type accountPage struct {
	Connection connection
	Endpoints  []crumb
}

func (accountPage) template() string { return "account" }

// account is the page of one account.
func (d *dashboard) account(w http.ResponseWriter, r *http.Request) error {
	name, err := d.accountOf(r)
	if err != nil {
		return err
	}
	b := d.Backend()
	data := accountPage{Connection: connectionOf(b, name)}
	for _, e := range []crumb{{"Blob", b.URL(wire.Blob, name)}, {"Data Lake", b.URL(wire.DataLake, name)},
		{"Queue", b.URL(wire.Queue, name)}, {"Table", b.URL(wire.Table, name)}} {
		if e.URL != "" {
			data.Endpoints = append(data.Endpoints, e)
		}
	}
	return d.show(w, r, name, nil, data)
}

// sasPage is the form of a shared access signature, and what was made of it.
type sasPage struct {
	Service, Resource, Hours string
	Letters                  []letter
	URL                      string
}

func (sasPage) template() string { return "sas" }

// letter is a permission.
type letter struct {
	Letter, Name string
	On           bool
}

// permissions are the permissions that the form offers, by service.
var permissions = map[string][]letter{
	"blob": {{"r", "read", false}, {"a", "add", false}, {"c", "create", false}, {"w", "write", false},
		{"d", "delete", false}, {"l", "list", false}, {"t", "tags", false}},
	"queue": {{"r", "read", false}, {"a", "add", false}, {"u", "update", false}, {"p", "process", false}},
	"table": {{"r", "query", false}, {"a", "add", false}, {"u", "update", false}, {"d", "delete", false}},
}

// sas is the form that makes a shared access signature for ?service= and ?resource=.
func (d *dashboard) sas(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	return d.showSAS(w, r, sasPage{Service: q.Get("service"), Resource: q.Get("resource"), Hours: "1"}, "r")
}

func (d *dashboard) showSAS(w http.ResponseWriter, r *http.Request, data sasPage, permitted string) error {
	account, err := d.accountOf(r)
	if err != nil {
		return err
	}
	if permissions[data.Service] == nil || data.Resource == "" {
		return problem{http.StatusBadRequest, "A signature is for a container, blob, queue or table",
			"Open its page, and choose SAS there."}
	}
	for _, l := range permissions[data.Service] {
		l.On = strings.Contains(permitted, l.Letter)
		data.Letters = append(data.Letters, l)
	}
	return d.show(w, r, "SAS for "+data.Resource, crumbsOf(account), data)
}

// maxHours bounds the life of a signature that the form makes.
const maxHours = 24 * 365

// makeSAS makes the signature of the form. It needs the account's key, which stays here.
func (d *dashboard) makeSAS(w http.ResponseWriter, r *http.Request) error {
	data := sasPage{Service: r.PostFormValue("service"), Resource: r.PostFormValue("resource"),
		Hours: r.PostFormValue("hours")}
	// The order of the checkboxes is the order that Azure wants of the letters.
	permitted := strings.Join(r.PostForm["permission"], "")
	account, err := d.accountOf(r)
	if err != nil {
		return err
	}
	hours, err := strconv.ParseFloat(data.Hours, 64)
	// Written so that NaN is refused, too.
	if err != nil || !(hours > 0 && hours <= maxHours) {
		return problem{http.StatusBadRequest, "The life of a signature is a number of hours", "It may be up to a year, 8760."}
	}
	if permitted == "" {
		return problem{http.StatusBadRequest, "The signature permits nothing", "Choose a permission."}
	}
	// The key is used here and never sent to the page; the browser gets the signature alone.
	keys := d.Accounts.Get(account).Keys
	if len(keys) == 0 {
		return problem{http.StatusConflict, "The account has no key to sign with", ""}
	}
	svc := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[data.Service]
	token := auth.Token{VersionText: auth.SASVersion, Permissions: permitted,
		Expiry: d.Now().Add(time.Duration(hours * float64(time.Hour))).UTC().Format("2006-01-02T15:04:05Z")}
	query, err := token.Sign(account, keys[0], svc, data.Resource)
	if err != nil {
		return problem{http.StatusBadRequest, err.Error(), ""}
	}
	data.URL = d.Backend().URL(svc, account) + "/" + escapePath(data.Resource) + "?" + query
	return d.showSAS(w, r, data, permitted)
}
