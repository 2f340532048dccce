package dashboard

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// accountsPage holds the accounts that the page of all accounts lists.
type accountsPage struct {
	Names        []string
	Prefix, Next string
}

func (accountsPage) Template() string { return "accounts" }

// accounts lists the accounts.
func (d *dashboard) accounts(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var names []string
	next := ""
	for _, name := range d.Accounts.Names() {
		if name <= q.Get("after") || !strings.HasPrefix(name, q.Get("prefix")) {
			continue
		}
		if len(names) == frame.PageSize {
			next = names[frame.PageSize-1]
			break
		}
		names = append(names, name)
	}
	return d.Show(w, r, "Accounts", nil, accountsPage{Names: names, Prefix: q.Get("prefix"), Next: next})
}

// accountPage holds the connection string and the endpoints of an account.
type accountPage struct {
	Connection connection
	Endpoints  []frame.Crumb
}

func (accountPage) Template() string { return "account" }

// account is the page of one account.
func (d *dashboard) account(w http.ResponseWriter, r *http.Request) error {
	name, err := d.AccountOf(r)
	if err != nil {
		return err
	}
	b := d.options.Backend()
	data := accountPage{Connection: connectionOf(b, name)}
	for _, e := range []frame.Crumb{{Name: "Blob", URL: b.URL(wire.Blob, name)}, {Name: "Data Lake",
		URL: b.URL(wire.DataLake, name)},
		{Name: "Queue", URL: b.URL(wire.Queue, name)}, {Name: "Table", URL: b.URL(wire.Table, name)}} {
		if e.URL != "" {
			data.Endpoints = append(data.Endpoints, e)
		}
	}
	return d.Show(w, r, name, nil, data)
}

// connection describes how an SDK connects to an account. Key is whether the string has the account's key.
type connection struct {
	Account, String string
	Key             bool
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
