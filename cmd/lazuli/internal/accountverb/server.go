package accountverb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
)

// accountPlace is the file or the running server whose accounts a verb reads or changes.
type accountPlace struct {
	file   string
	server bool
	ask    target.AdminCaller // relative to /admin/accounts
}

// serverAccounts are the accounts of a running server.
type serverAccounts struct {
	cmd *cobra.Command
	ask target.AdminCaller
}

func (p *accountPlace) of(cmd *cobra.Command) serverAccounts { return serverAccounts{cmd, p.ask} }

// accountRequest sends what is in body, nil for nothing, and decodes the response.
func accountRequest[T any](s serverAccounts, method, path string, body any) (answer T, err error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, err
		}
		content = bytes.NewReader(text)
	}
	text, err := s.ask(s.cmd, method, path, content)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &answer)
	}
	return answer, err
}

func accountPath(name string) string { return "/" + url.PathEscape(name) }

// list lists all accounts, a page after another.
func (s serverAccounts) list(out *console.List) error {
	for after := ""; ; {
		page, err := accountRequest[admin.AccountPage](s, http.MethodGet, "?after="+url.QueryEscape(after), nil)
		for _, a := range page.Accounts {
			text := ""
			for i, f := range a.Fingerprints {
				text += fmt.Sprintf("key%d=%s  ", i+1, f)
			}
			state := a.State
			if a.Source == accounts.FromConfiguration {
				state = a.Source
			}
			err = errors.Join(err, out.Add(a, a.Name, state, text+settingsText(a.Settings)+a.Problem))
		}
		if after = page.Next; err != nil || after == "" {
			return out.End(err)
		}
	}
}

// settingsText is the text of settings, as in an accounts file.
func settingsText(settings accounts.Settings) (text string) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text += name + "=" + settings[name] + " "
	}
	return text
}

// add adds an account with the given keys, or two random ones without any.
func (s serverAccounts) add(name string, keys []string, hierarchical bool) error {
	wanted := admin.NewAccount{Name: name, Keys: keys}
	if hierarchical {
		wanted.Settings = accounts.Settings{"hierarchical-namespace": "true"}
	}
	_, err := accountRequest[accounts.Account](s, http.MethodPost, "", wanted)
	return err
}

// rotate replaces a key, and returns the fingerprint of the new one.
func (s serverAccounts) rotate(name string, key int) (fingerprint string, err error) {
	a, err := accountRequest[accounts.Account](s, http.MethodPost, accountPath(name)+"/keys/"+strconv.Itoa(key), nil)
	if err == nil && len(a.Fingerprints) < key {
		err = errors.New("the response is not an account")
	}
	if err != nil {
		return "", err
	}
	return a.Fingerprints[key-1], nil
}

func (s serverAccounts) remove(name string, deleteData bool) error {
	_, err := s.ask(s.cmd, http.MethodDelete, accountPath(name)+"?delete-data="+strconv.FormatBool(deleteData), nil)
	return err
}

// keys returns an account with its keys.
func (s serverAccounts) keys(name string) (auth.StoredAccount, error) {
	a, err := accountRequest[admin.AccountKeys](s, http.MethodPost, accountPath(name)+"/keys", nil)
	if err == nil && len(a.Keys) == 0 {
		err = errors.New("the response has no keys")
	}
	return auth.StoredAccount{Name: name, Keys: a.Keys}, err
}

// set sets settings, of which nil unsets one, and returns those that the account has now.
func (s serverAccounts) set(name string, settings map[string]*string) (accountprops.Overrides, error) {
	body := map[string]any{"settings": settings}
	a, err := accountRequest[accounts.Account](s, http.MethodPatch, accountPath(name), body)
	if err != nil {
		return nil, err
	}
	var now accountprops.Overrides
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		if now, err = now.With(name, a.Settings[name]); err != nil {
			return nil, err
		}
	}
	return now, nil
}
