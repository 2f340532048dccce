package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newHealthCommand makes `lazuli health`, for container images that have no shell and no curl.
func newHealthCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether the server on this machine is ready; the result is the exit code",
		Args:  cobra.NoArgs,
	}
	output := console.ReportOutput(cmd)
	var complete bool
	cmd.Flags().BoolVar(&complete, "complete", false, "check also that this node of a cluster has complete copies, which a "+
		"rolling update waits for")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: m.Environ})
		if err != nil {
			return console.Usage(err)
		}
		// A server that listens on 0.0.0.0 is asked on loopback.
		url := "http://" + exposure.Callable(c.Admin.Address()) + "/readyz"
		if complete {
			url += "?copies=complete"
		}
		var answer strings.Builder
		notReady := askReady(cmd.Context(), url, &answer)
		row := struct {
			Ready  bool   `json:"ready"`
			URL    string `json:"url"`
			Reason string `json:"reason,omitempty"`
		}{Ready: notReady == nil, URL: url}
		if notReady != nil {
			row.Reason = notReady.Error()
		}
		err = output(row, func(w io.Writer) error {
			_, err := io.WriteString(w, answer.String())
			return err
		})
		// Not ready is the answer that sets the exit code; a failure to print it comes second.
		return cmp.Or(notReady, err)
	}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	return cmd
}

// healthTimeout bounds the question.
const healthTimeout = 3 * time.Second

func askReady(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the server is here
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("no server answers at %s: %w; is it running? Its address is set by --admin-host and "+
			"--admin-port", url, err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, text)
	}
	_, err = out.Write(text)
	return err
}
