package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// AdminCaller sends a request to the admin listener that the command's flags name.
type AdminCaller func(cmd *cobra.Command, method, path string, body io.Reader) ([]byte, error)

// AdminFlags adds --admin-host and --admin-port to cmd and its subcommands. Paths of requests are relative to path.
func AdminFlags(environ []string, cmd *cobra.Command, path string) AdminCaller {
	names := []string{"admin-host", "admin-port"}
	config.AddFlags(cmd.PersistentFlags(), names...)
	return func(cmd *cobra.Command, method, rest string, body io.Reader) ([]byte, error) {
		// A set of its own: other flags of the verb may have the name of an option and another meaning, such as --key.
		flags := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
		config.AddFlags(flags, names...)
		for _, name := range names {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				if err := flags.Set(name, f.Value.String()); err != nil {
					return nil, console.Usage(err)
				}
			}
		}
		to, err := adminOf(config.Sources{Flags: flags, Environ: environ})
		if err != nil {
			return nil, err
		}
		return to.Send(cmd.Context(), method, path+rest, body)
	}
}

// AdminListener is an admin listener on this machine.
type AdminListener struct {
	URL   string // without a path
	Token string // that it asks for, "" for none
}

// Admin returns the admin listener that the command's flags and the environment name.
func Admin(environ []string, cmd *cobra.Command) (AdminListener, error) {
	return adminOf(config.Sources{Flags: cmd.Flags(), Environ: environ})
}

func adminOf(s config.Sources) (AdminListener, error) {
	c, err := config.Load(s)
	if err != nil {
		return AdminListener{}, console.Usage(err)
	}
	return AdminListener{"http://" + exposure.Callable(c.Admin.Address()), c.AdminToken}, nil
}

// AskAdmin requests a report. what describes it in errors.
func AskAdmin[T any](cmd *cobra.Command, ask AdminCaller, path, what string) (report T, err error) {
	body, err := ask(cmd, http.MethodGet, path, nil)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return report, fmt.Errorf("the response is not %s: %w", what, err)
	}
	return report, nil
}

// Create sends what is to be made as JSON, and returns the response. what describes that in errors.
func Create[T any](cmd *cobra.Command, ask AdminCaller, wanted interface{ Check() error }, what string) (
	answer json.RawMessage, made T, err error) {
	if err := wanted.Check(); err != nil {
		return nil, made, console.Usage(err)
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, made, console.Usage(err)
	}
	if answer, err = ask(cmd, http.MethodPost, "", bytes.NewReader(text)); err != nil {
		return nil, made, err
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return nil, made, fmt.Errorf("the response is not %s: %w", what, err)
	}
	return answer, made, nil
}

// ErrNotServed: an admin listener does not serve the path.
var ErrNotServed = errors.New("404 Not Found")

// maxAdminAnswer is the maximum length of an admin listener's response in bytes.
const maxAdminAnswer = 64 << 20

// adminTimeout is the time limit of a request to an admin listener whose context has no deadline.
const adminTimeout = 30 * time.Second

// Send sends a request and returns the response's body. content is JSON, or nil.
func (a AdminListener) Send(ctx context.Context, method, path string, content io.Reader) ([]byte, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, adminTimeout)
		defer cancel()
	}
	body, err := a.Stream(ctx, method, path, content)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxAdminAnswer))
}

// Stream is [AdminListener.Send] for a response of any length, which the caller reads and closes.
func (a AdminListener) Stream(ctx context.Context, method, path string, content io.Reader) (io.ReadCloser, error) {
	address := a.URL + path
	req, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return nil, err
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	// The process is on this machine: no proxy. A program that serves adminhttp.NewHandler at /workers/ redirects from
	// /workers.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &NoProcessError{address, err}
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return nil, err
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
		return fmt.Errorf("%s: %w", address, ErrNotServed)
	}
	return fmt.Errorf("%s answers %s: %.200s", address, resp.Status, body)
}

// NoProcessError means that no process answers at the address of an admin listener.
type NoProcessError struct {
	address string
	err     error
}

func (e *NoProcessError) Error() string {
	why := e.err
	if u := (*url.Error)(nil); errors.As(why, &u) {
		why = u.Err // without the address
	}
	return fmt.Sprintf("no process answers at %s: %v; is it running? Its address is set by --admin-host and --admin-port",
		e.address, why)
}

func (e *NoProcessError) Unwrap() error { return e.err }
