package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// newStandbyCommand makes `lazuli standby`.
func newStandbyCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "standby", Short: "Show and promote a standby",
		Long: `Show and promote a standby: a server with --standby-of, which follows the archive of another server
and serves reads. --admin-host and --admin-port name it. docs/standby.md describes standbys.`}
	cmd.AddCommand(newStandbyStatus(m), newStandbyPromote(m))
	return cmd
}

// standbyRow is the JSON of `lazuli standby status`.
type standbyRow struct {
	archive.Status
	// LagSeconds is the age of Until by the clock of this command.
	LagSeconds float64 `json:"lagSeconds"`
}

// newStandbyStatus makes `lazuli standby status`.
func newStandbyStatus(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show how far a standby lags", Args: cobra.NoArgs,
		Long: "Show how far a standby lags, the moment up to which it is complete, and why it cannot follow if " +
			"it does not.",
		Example: "  lazuli standby status --admin-port 20004"}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := target.Admin(m.Environ, cmd)
		if err != nil {
			return err
		}
		text, err := s.Send(cmd.Context(), http.MethodGet, admin.StandbyPath, nil)
		if err != nil {
			return err
		}
		var row standbyRow
		if err := json.Unmarshal(text, &row.Status); err != nil {
			return err
		}
		row.LagSeconds = max(0, time.Since(row.Until).Seconds())
		return output(row, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "it has everything up to %s, %s ago\nbase %s, and %s after it\n",
				row.Until.Local().Format(time.RFC3339), time.Duration(row.LagSeconds*float64(time.Second)).Round(time.Second),
				row.Base, console.Count(int(row.Segments), "segment"))
			if err == nil && row.Problem != "" {
				_, err = fmt.Fprintf(w, "it does not follow at the moment: %s\n", row.Problem)
			}
			return err
		})
	}
	return cmd
}

// promoteTimeout bounds the wait for a promotion. The standby goes on with it.
const promoteTimeout = 5 * time.Minute

// newStandbyPromote makes `lazuli standby promote`.
func newStandbyPromote(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "promote", Short: "Promote a standby to the server", Args: cobra.NoArgs,
		Long: `Promote a standby to the server: it takes the archive from the other server, waits until that cannot
acknowledge writes any more, applies what it has sent, and serves writes. This takes about 15 seconds.
What the other server had not sent is lost: writes of the last 15 seconds at most. It is refused the
archive at its next start; what it had not sent stays in its data folder.

A promotion that failed or was interrupted goes on if the command is run again.`,
		Example: "  lazuli standby promote --admin-port 20004"}
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	force := cmd.Flags().Bool("force", false,
		"take over even if the other server has no archive-fence, or if a part of the archive cannot be read; use "+
			"it only if the other server does not run and never will")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := target.Admin(m.Environ, cmd)
		if err != nil {
			return err
		}
		path := admin.PromotePath
		if *force {
			path += "?force=true"
		}
		// It takes longer than other requests may.
		ctx, cancel := context.WithTimeout(cmd.Context(), promoteTimeout)
		defer cancel()
		answer, err := s.Send(ctx, http.MethodPost, path, nil)
		if err != nil {
			return err
		}
		var p server.Promotion
		if err := json.Unmarshal(answer, &p); err != nil {
			return err
		}
		return output(p, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "promoted in %.1f seconds: it has everything that was acknowledged up to %s\n", p.Seconds,
				p.Until.Local().Format(time.RFC3339Nano))
			return err
		})
	}
	return cmd
}
