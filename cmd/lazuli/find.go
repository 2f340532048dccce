package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/sdk/findtool"
)

// newFindCommand makes `lazuli find`, which looks for a text in everything that an account has.
func newFindCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "find TEXT",
		Short: "Find blobs, messages, entities, jobs and workflow instances by name, key, text or ID",
		Long: `Search an account on Lazuli, Azurite or Azure: find containers, queues, tables, blobs, partition and row keys,
workflow instances and jobs whose names begin with TEXT, messages that contain it, and a message by its ID.
The command peeks at messages: Lazuli shows all of a queue, other services the first 32 visible ones.

RowKeys and messages have no index. A search stops after --time or --limit results, prints how far it came, and
the --after with which it continues.

lazuli search is for the full-text index of the search-index role.`,
		Example: "  lazuli find order-7\n  lazuli find 'o'\\''brien' --limit 1000 --time 1m --json",
		Args:    cobra.ExactArgs(1),
	}
	bounds := findtool.Usual
	open := target.StorageFlag(cmd)
	begin := console.ListOutput(cmd)
	fl := cmd.Flags()
	fl.IntVar(&bounds.Results, "limit", bounds.Results, "maximum number of results, at most 5000")
	fl.DurationVar(&bounds.Time, "time", 10*time.Second, "time after which the search stops, at most 10m")
	after := fl.String("after", "", "position that an earlier search printed, to continue it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case bounds.Results < 1 || bounds.Results > 5000:
			return console.Usagef("--limit is %d, not 1 to 5000", bounds.Results)
		case bounds.Time <= 0 || bounds.Time > 10*time.Minute:
			return console.Usagef("--time is %v, not up to 10m", bounds.Time)
		}
		// A person who gives more time wants more to be read.
		bounds.Rows, bounds.Bytes = math.MaxInt, math.MaxInt64
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		account := findtool.Account{Queues: storage.Queues, Tables: storage.Tables}
		if storage.Blobs != nil {
			account.Blobs = storage.Blobs.ServiceClient()
		}
		got, err := findtool.Find(cmd.Context(), account, args[0], *after, bounds)
		switch {
		case errors.Is(err, findtool.ErrText) || errors.Is(err, findtool.ErrAfter):
			return console.Usage(err)
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("the account did not answer within %v", bounds.Time)
		}
		out := begin("KIND", "IN", "RESULT", "TEXT")
		for _, f := range got.Found {
			name := f.Name
			if f.Kind == findtool.Entity {
				name = fmt.Sprintf("%q %q", f.PartitionKey, f.RowKey)
			}
			err = errors.Join(err, out.Add(f, f.Kind, cmp.Or(f.In, "-"), console.OneLine(name), console.OneLine(f.Text)))
		}
		err = out.End(err)
		for _, note := range got.Notes {
			fmt.Fprintln(cmd.ErrOrStderr(), printable.Line(note))
		}
		switch {
		case err != nil:
		case got.Stopped != "":
			fmt.Fprintf(cmd.ErrOrStderr(), "stopped in the %s: %s, %d rows read; go on with --after %s\n", got.Where,
				got.Stopped, got.Rows, got.Next)
		case len(got.Found) == 0:
			fmt.Fprintf(cmd.ErrOrStderr(), "nothing was found; %d rows were read\n", got.Rows)
		}
		return err
	}
	return cmd
}
