package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
)

// newFaultCommand makes `lazuli fault`, which sets the fault rules of a running server.
func newFaultCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Inject faults into requests of a running server: errors, delays, broken connections, lost responses",
		Long: `Create, list and remove the fault rules of a running server that was started with --faults. A rule selects
requests and says how they fail; docs/faults.md describes the actions and how the Azure SDKs respond to them.
--admin-host and --admin-port say where the server's admin listener is. The server keeps rules in memory until
it stops.`,
	}
	ask := target.AdminFlags(m.Environ, cmd, "/admin/faults")
	cmd.AddCommand(newFaultCreate(ask), newFaultList(ask), newFaultRemove(ask))
	return cmd
}

func newFaultCreate(ask target.AdminCaller) *cobra.Command {
	var r faultrule.Rule
	var t faultrule.Throttle
	var window, delay, retryAfter time.Duration
	var truncate, corrupt int64
	var azureLimits bool
	var secondary faultrule.Secondary
	var lag time.Duration
	cmd := &cobra.Command{
		Use:     "create",
		Aliases: []string{"add"},
		Short:   "Create a rule and print its name",
		Example: `  lazuli fault create --operation "Put Blob" --error ServerBusy --retry-after 2s --count 3
  lazuli fault create --service queue --operation "Put Message" --unanswered --nth 2
  lazuli fault create --resource 'Employees*' --throttle-requests 100 --throttle-per partition
  lazuli fault create --azure-table-limits
  lazuli fault create --secondary-lag 10m`,
		Args: cobra.NoArgs,
	}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r.For, r.Delay, r.RetryAfter = faultrule.Duration(window), faultrule.Duration(delay), faultrule.Duration(retryAfter)
		// 0 has a meaning for both, the first byte, so that only the flag says whether they are set.
		if cmd.Flags().Changed("truncate") {
			r.Truncate = &truncate
		}
		if cmd.Flags().Changed("corrupt") {
			r.Corrupt = &corrupt
		}
		if azureLimits {
			// Limits that are given beside --azure-table-limits win: the flag then adds only Retry-After.
			if t.PartitionEntities == 0 && t.AccountEntities == 0 {
				t.PartitionEntities, t.AccountEntities = faultrule.AzurePartitionEntities, faultrule.AzureAccountEntities
			}
			if !cmd.Flags().Changed("retry-after") {
				r.RetryAfter = faultrule.Duration(time.Second)
			}
		}
		if t != (faultrule.Throttle{}) {
			r.Throttle = &t
		}
		if f := cmd.Flags(); f.Changed("secondary-lag") || f.Changed("secondary-status") || f.Changed("failed-over") {
			secondary.Lag = faultrule.Duration(lag)
			r.Secondary = &secondary
		}
		answer, added, err := target.Create[faultrule.Rule](cmd, ask, &r, "a fault rule")
		if err != nil {
			return err
		}
		return output(answer, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, added.Name)
			return err
		})
	}
	f := cmd.Flags()
	f.StringVar(&r.Name, "name", "", "name of the rule (default: a generated name)")
	f.StringVar(&r.Service, "service", "", "blob, queue or table (default: all)")
	f.StringVar(&r.Operation, "operation", "",
		`operation's name in the REST reference, "Put Blob"; * matches any characters`)
	f.StringVar(&r.Resource, "resource", "",
		"path below the account, photos/2026/*; * matches any characters, ? matches one")
	f.StringVar(&r.Account, "account", "", "name of the account")
	f.StringVar(&r.Client, "client", "", "User-Agent header; * matches any characters")
	f.StringVar(&r.Endpoint, "endpoint", "", "primary or secondary (default: both)")
	f.IntVar(&r.Skip, "skip", 0, "number of matching requests that succeed before the rule takes effect")
	f.IntVar(&r.Nth, "nth", 0, "fail every nth matching request")
	f.Float64Var(&r.Share, "share", 0, "share of matching requests that fail, 0.1 for a tenth")
	f.Uint64Var(&r.Seed, "seed", 0, "seed that makes the choice of --share repeatable")
	f.IntVar(&r.Count, "count", 0, "maximum number of requests that fail; 0: no limit")
	f.DurationVar(&window, "for", 0, "duration of the rule; 0: no limit")
	f.DurationVar(&delay, "delay", 0, "time to wait before the operation")
	f.IntVar(&r.Slow, "slow", 0, "speed of the bodies of request and response in bytes per second")
	f.StringVar(&r.Error, "error", "", "error of the response: ServerBusy, OperationTimedOut or InternalError")
	f.DurationVar(&retryAfter, "retry-after", 0, "Retry-After header of --error and --throttle-*, in whole seconds")
	f.StringVar(&r.Reset, "reset", "", "reset the connection: before the operation, during the response, or after it")
	f.Int64Var(&truncate, "truncate", 0, "close the connection after this number of bytes of the response's body")
	f.Int64Var(&corrupt, "corrupt", 0, "change one bit of the byte at this offset of the response's body")
	f.BoolVar(&r.CorruptRequest, "corrupt-request", false, "make --corrupt change the request's body")
	f.BoolVar(&r.Unanswered, "unanswered", false,
		"run the operation and reset the connection instead of sending the response")
	f.Float64Var(&t.Requests, "throttle-requests", 0, "maximum requests per second; requests above it get 503 ServerBusy")
	f.Float64Var(&t.Bytes, "throttle-bytes", 0, "maximum bytes per second; requests above it get 503 ServerBusy")
	f.Float64Var(&t.PartitionEntities, "throttle-partition-entities", 0,
		"maximum entities per second of each partition of a table; requests above it get 503 ServerBusy")
	f.Float64Var(&t.AccountEntities, "throttle-account-entities", 0,
		"maximum entities per second of the tables of an account; requests above it get 503 ServerBusy")
	f.BoolVar(&azureLimits, "azure-table-limits", false,
		"apply the limits that Azure documents for tables: 2000 entities per second of a partition, 20000 of an account, "+
			"with --retry-after 1s")
	f.DurationVar(&lag, "secondary-lag", 0,
		"the secondary endpoint does not show changes of this time; with --failed-over, the primary endpoint does "+
			"not")
	f.StringVar(&secondary.Status, "secondary-status", "",
		"status of the secondary in Get Service Stats: live, bootstrap or unavailable (default live)")
	f.BoolVar(&secondary.FailedOver, "failed-over", false, "the account has failed over to its secondary, which is gone")
	f.StringVar(&t.Per, "throttle-per", "", "scope of the rate: account, container or partition (default account)")
	return cmd
}

func newFaultList(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the rules with the requests that they matched and failed",
		Args: cobra.NoArgs}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rules, err := target.AskAdmin[[]faultrule.Status](cmd, ask, "", "a list of fault rules")
		out := begin("NAME", "STATE", "REQUESTS", "HITS", "RULE").
			Or("there are no fault rules; lazuli fault create makes one")
		for _, r := range rules {
			state := "active"
			if r.Ended {
				state = "ended"
			}
			nameless := r.Rule
			nameless.Name = ""
			rule, failed := json.Marshal(nameless)
			err = errors.Join(err, failed, out.Add(r, r.Name, state, r.Requests, r.Hits, string(rule)))
		}
		return out.End(err)
	}
	return cmd
}

func newFaultRemove(ask target.AdminCaller) *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "rm [RULE ...]", Short: "Remove rules by name, or all of them",
		RunE: func(cmd *cobra.Command, names []string) error {
			// No names must not mean all: a script with an empty variable would remove every rule.
			switch {
			case all && len(names) > 0:
				return console.Usagef("--all cannot be combined with names")
			case all:
				_, err := ask(cmd, http.MethodDelete, "", nil)
				return err
			case len(names) == 0:
				return console.Usagef("give the name of a rule, or --all")
			}
			for _, name := range names {
				// An empty name is the path of the whole list, and DELETE on it removes all rules.
				if strings.TrimSpace(name) == "" {
					return console.Usagef("the name of a rule must not be empty")
				}
				if _, err := ask(cmd, http.MethodDelete, "/"+url.PathEscape(name), nil); err != nil {
					return err
				}
			}
			return nil
		}}
	cmd.Flags().BoolVar(&all, "all", false, "remove all rules")
	return cmd
}
