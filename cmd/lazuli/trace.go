package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// newTraceCommand makes `lazuli trace`, which prints what a running server knows of one unit of work.
func newTraceCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace ID",
		Short: "Show what happened to a message, invocation or workflow instance",
		Long: `Show the requests that belong to one unit of work, in the order in which they began, with the times in which its messages
waited and were handled. ID is the ID of a message, an invocation, a workflow instance, a request
(x-ms-request-id or x-ms-client-request-id) or a trace (W3C Trace Context). The server must have its dashboard
(--admin-ui), which keeps the latest 1,000 requests of programs.`,
		Example: "  lazuli trace 00000000-0000-0001-bf86-7b05898a0e2a\n  lazuli trace order-7",
		Args:    cobra.ExactArgs(1),
	}
	ask := target.AdminFlags(m.Environ, cmd, "/ui/trace.json")
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := target.AskAdmin[requestlog.Trace](cmd, ask, "?id="+url.QueryEscape(args[0]), "a trace")
		out := begin("AFTER", "TOOK", "STEP", "RESOURCE", "RESULT", "ATTEMPT", "WORK").
			Or("the server keeps no request of %s", args[0])
		for _, s := range t.Spans {
			// The error of AskAdmin or of the last line; End reports it in the form of the output, which is why the loop does
			// not return.
			if err != nil {
				break
			}
			result := s.Status
			if s.Error != "" {
				result += " " + s.Error
			}
			work := s.Work
			// A request that belongs to no invocation shows the message that it put or received.
			if work == "" {
				work = s.Message
			}
			attempt := any("")
			if s.Attempt > 0 {
				attempt = s.Attempt
			}
			// Relative to the first request: what a reader looks for is where the time went.
			err = out.Add(s, s.At.Sub(t.Spans[0].At).Round(time.Microsecond), s.Took.Round(time.Microsecond), s.Name,
				console.OneLine(s.Resource), result, attempt, console.OneLine(work))
		}
		return out.End(err)
	}
	return cmd
}
