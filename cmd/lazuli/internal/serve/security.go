package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/devcert"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// Security has the accounts, the token checks and the certificate of the services.
type Security struct {
	accounts *auth.Accounts
	first    string            // the account that is written first
	oauth    *auth.OAuth       // nil: tokens are not accepted
	issuer   *devissuer.Issuer // nil: no built-in issuer
	TLS      *tls.Config       // nil: plain http
	// eventURL returns the address at which a person confirms the endpoint of an event subscription; nil without an admin
	// listener.
	eventURL func(account, name, code string) string
}

// newSecurity reads the files of the configuration. Its errors are for the user.
func newSecurity(c *config.Config, log *slog.Logger) (*Security, error) {
	var s Security
	var err error
	list := c.Accounts
	if c.AccountsFile != "" {
		if list, err = auth.LoadAccounts(c.AccountsFile); err != nil {
			return nil, err
		}
	}
	// A warning and no refusal: the file may be in a container's volume, whose modes are not the user's choice.
	if secretfile.ReadableByAll(c.AccountsFile) {
		log.Warn("every user of this machine can read the accounts file, and with it the keys; chmod 640 stops that",
			"file", c.AccountsFile)
	}
	// Roles and the printed connection string use the first account.
	if len(list) > 0 {
		s.first = list[0].Name
	}
	if s.accounts, err = auth.NewManagedAccounts(c.BlobSettings, list...); err != nil {
		return nil, err
	}
	switch {
	// A PFX has certificate and key in one file, as Azurite takes them.
	case c.PFX():
		if s.TLS, err = devcert.ServerConfigPFX(c.Cert, c.Password); err != nil {
			return nil, err
		}
	case c.Cert != "":
		if s.TLS, err = devcert.ServerConfig(c.Cert, c.Key); err != nil {
			return nil, err
		}
	}
	return &s, s.trust(c)
}

// newIssuer makes the development issuer. Its key is stored in the data folder, so that tokens stay valid after a
// restart; that of a node of a cluster comes from the cluster's secret.
func newIssuer(c *config.Config) (*devissuer.Issuer, error) {
	is := devissuer.Config{Groups: make(map[string][]string)}
	for _, m := range c.OAuth.Groups {
		is.Groups[m.Client] = m.Groups
	}
	if c.InMemory {
		return devissuer.New(is)
	}
	// Another node may serve a request with a token, and may have issued it.
	if c.Cluster.Enabled() {
		var err error
		if is.Seed, err = c.Cluster.Peering().Secret(); err != nil {
			return nil, fmt.Errorf("development issuer: %w", err)
		}
		return devissuer.New(is)
	}
	if err := disk.MkdirAll(c.Location, 0o700); err != nil { // as datadir makes it, a little later
		return nil, fmt.Errorf("development issuer: %w", err)
	}
	is.KeyFile = filepath.Join(c.Location, datadir.IssuerKeyFile)
	return devissuer.New(is)
}

// trust creates the checker of bearer tokens, if tokens are accepted.
func (s *Security) trust(c *config.Config) error {
	o := &c.OAuth
	var issuers []auth.Issuer
	if o.Development {
		var err error
		if s.issuer, err = newIssuer(c); err != nil {
			return err
		}
		issuers = append(issuers, s.issuer.Trust())
	}
	if o.Issuer != "" {
		keys, err := auth.NewRemoteKeys(o.Issuer, o.Keys)
		if err != nil {
			return err
		}
		issuers = append(issuers, auth.Issuer{ID: o.Issuer, Keys: keys, Audiences: o.Audiences})
	}
	// Without an issuer bearer tokens are not accepted at all; an empty checker would accept none, too, but with another
	// error.
	if len(issuers) == 0 && !o.Basic {
		return nil
	}
	roles := auth.DevelopmentRoles()
	if len(o.Roles) > 0 {
		var err error
		if roles, err = auth.NewRoles(o.Roles...); err != nil {
			return err
		}
	}
	var err error
	// Basic accepts tokens without checking their signature, as Azurite does, and so replaces the issuers.
	if o.Basic {
		s.oauth = auth.NewBasicOAuth(roles)
		return nil
	}
	s.oauth, err = auth.NewOAuth(roles, issuers...)
	return err
}

// watchEvery is the interval at which the accounts file is looked at.
const watchEvery = 2 * time.Second

// watch keeps the accounts as their file has them, until stop is called.
func (s *Security) watch(file string, log *slog.Logger) (stop func()) {
	if file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	var done sync.WaitGroup
	done.Go(func() { auth.WatchAccounts(ctx, file, s.accounts, watchEvery, reload, log) })
	return func() {
		signal.Stop(reload)
		cancel()
		done.Wait()
	}
}
