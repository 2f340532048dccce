package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/server/config"
)

// adminCaller sends a request to the admin listener that the command's flags name.
type adminCaller func(cmd *cobra.Command, method, path string, body io.Reader) ([]byte, error)

// newAdminCaller adds --admin-host and --admin-port to cmd and its subcommands. Paths of requests are relative to path.
func newAdminCaller(m *Main, cmd *cobra.Command, path string) adminCaller {
	config.AddFlags(cmd.PersistentFlags(), "admin-host", "admin-port")
	return func(cmd *cobra.Command, method, rest string, body io.Reader) ([]byte, error) {
		to, err := adminAddress(m, cmd)
		if err != nil {
			return nil, err
		}
		return to.send(cmd.Context(), method, path+rest, body)
	}
}

// adminListener is an admin listener on this machine.
type adminListener struct {
	url   string // without a path
	token string // that it asks for, "" for none
}

// adminAddress returns the admin listener that the command's flags and the environment name.
func adminAddress(m *Main, cmd *cobra.Command) (adminListener, error) {
	c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
	if err != nil {
		return adminListener{}, console.Usage(err)
	}
	return adminListener{"http://" + exposure.Callable(c.Admin.Address()), c.AdminToken}, nil
}

// askAdmin requests a report. what describes it in errors.
func askAdmin[T any](cmd *cobra.Command, ask adminCaller, path, what string) (report T, err error) {
	body, err := ask(cmd, http.MethodGet, path, nil)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return report, fmt.Errorf("the response is not %s: %w", what, err)
	}
	return report, nil
}

// errNotServed: an admin listener does not serve the path.
var errNotServed = errors.New("404 Not Found")

// maxAdminAnswer is the maximum length of an admin listener's response in bytes.
const maxAdminAnswer = 64 << 20

// adminTimeout is the time limit of a request to an admin listener whose context has no deadline.
const adminTimeout = 30 * time.Second

// send sends a request and returns the response's body. content is JSON, or nil.
func (a adminListener) send(ctx context.Context, method, path string, content io.Reader) ([]byte, error) {
	address := a.url + path
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, adminTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	// The process is on this machine: no proxy. A program that serves workers.NewHandler at /workers/ redirects from
	// /workers.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &noProcessError{address, err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return body, nil
	}
	return nil, adminFailure(address, resp, body)
}

// adminFailure returns the error in the body of a response.
func adminFailure(address string, resp *http.Response, body []byte) error {
	var failure struct{ Error string }
	if json.Unmarshal(body, &failure) == nil && failure.Error != "" {
		return errors.New(failure.Error)
	}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s: %w", address, errNotServed)
	}
	return fmt.Errorf("%s answers %s: %.200s", address, resp.Status, body)
}

// noProcessError means that no process answers at the address of an admin listener.
type noProcessError struct {
	address string
	err     error
}

func (e *noProcessError) Error() string {
	why := e.err
	if u := (*url.Error)(nil); errors.As(why, &u) {
		why = u.Err // without the address
	}
	return fmt.Sprintf("no process answers at %s: %v; is it running? Its address is set by --admin-host and --admin-port",
		e.address, why)
}

func (e *noProcessError) Unwrap() error { return e.err }
