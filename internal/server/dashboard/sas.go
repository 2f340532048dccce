package dashboard

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// sasPage is the form of a shared access signature, and what was made of it.
type sasPage struct {
	Service, Resource, Hours string
	Letters                  []letter
	URL                      string
}

func (sasPage) Template() string { return "sas" }

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
	account, err := d.AccountOf(r)
	if err != nil {
		return err
	}
	if permissions[data.Service] == nil || data.Resource == "" {
		return frame.NewProblem(http.StatusBadRequest, "A signature is for a container, blob, queue or table",
			"Open its page, and choose SAS there.")
	}
	for _, l := range permissions[data.Service] {
		l.On = strings.Contains(permitted, l.Letter)
		data.Letters = append(data.Letters, l)
	}
	return d.Show(w, r, "SAS for "+data.Resource, frame.CrumbsOf(account), data)
}

// maxHours bounds the life of a signature that the form makes.
const maxHours = 24 * 365

// makeSAS makes the signature of the form. It needs the account's key, which stays here.
func (d *dashboard) makeSAS(w http.ResponseWriter, r *http.Request) error {
	data := sasPage{Service: r.PostFormValue("service"), Resource: r.PostFormValue("resource"),
		Hours: r.PostFormValue("hours")}
	// The order of the checkboxes is the order that Azure wants of the letters.
	permitted := strings.Join(r.PostForm["permission"], "")
	account, err := d.AccountOf(r)
	if err != nil {
		return err
	}
	hours, err := strconv.ParseFloat(data.Hours, 64)
	// Written so that NaN is refused, too.
	if err != nil || !(hours > 0 && hours <= maxHours) {
		return frame.NewProblem(http.StatusBadRequest, "The life of a signature is a number of hours",
			"It may be up to a year, 8760.")
	}
	if permitted == "" {
		return frame.NewProblem(http.StatusBadRequest, "The signature permits nothing", "Choose a permission.")
	}
	// The key is used here and never sent to the page; the browser gets the signature alone.
	keys := d.Accounts.Get(account).Keys
	if len(keys) == 0 {
		return frame.NewProblem(http.StatusConflict, "The account has no key to sign with", "")
	}
	svc := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[data.Service]
	token := auth.Token{VersionText: auth.SASVersion, Permissions: permitted,
		Expiry: d.Now().Add(time.Duration(hours * float64(time.Hour))).UTC().Format("2006-01-02T15:04:05Z")}
	query, err := token.Sign(account, keys[0], svc, data.Resource)
	if err != nil {
		return frame.NewProblem(http.StatusBadRequest, err.Error(), "")
	}
	data.URL = d.options.Backend().URL(svc, account) + "/" + frame.EscapePath(data.Resource) + "?" + query
	return d.showSAS(w, r, data, permitted)
}
