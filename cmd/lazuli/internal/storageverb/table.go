package storageverb

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
	"github.com/lazuli-storage/lazuli/workers"
)

// NewTable makes `lazuli table`, which looks into tables and explains queries.
func NewTable() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "List, create and delete tables, read and write entities, and explain the cost of queries",
		Long:  `List, create and delete tables, read and write entities, on Lazuli, Azurite or Azure, and explain what a query costs, on Lazuli.`,
	}
	cmd.AddCommand(newTableListCommand(), newTableCreateCommand(), newTablePutCommand(), newTableGetCommand(),
		newTableQueryCommand(), newTableExplainCommand(),
		newTableStatsCommand(), newTableRemoveCommand())
	return cmd
}

// tableService adds --connection-string to cmd and returns how to open the account.
func tableService(cmd *cobra.Command) target.Opener[aztables.ServiceClient] {
	return target.ServiceFlag(cmd, "table", func(s *workers.Storage) *aztables.ServiceClient { return s.Tables })
}

func newTableListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [PREFIX]", Short: "List tables", Args: cobra.MaximumNArgs(1)}
	open, output := tableService(cmd), console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, service *aztables.ServiceClient) error {
		names, err := tabletool.List(cmd.Context(), service, strings.Join(args, ""))
		out := output("TABLE").Or("the account has no tables; lazuli table create TABLE makes one")
		if len(args) > 0 {
			out.Or("there are no tables whose names begin with %s", args[0])
		}
		for _, name := range names {
			err = errors.Join(err, out.Add(struct {
				Name string `json:"name"`
			}{name}, name))
		}
		return out.End(err)
	})
	return cmd
}

func newTableQueryCommand() *cobra.Command {
	var o tabletool.QueryOptions
	cmd := &cobra.Command{
		Use: "query TABLE", Short: "Show entities, a line of JSON each", Args: cobra.ExactArgs(1),
		Long: `Show entities, a line of JSON each, as the service sends them. A member such as Age@odata.type names a type that JSON
does not show, as in the REST reference. A number without a fraction or such a member is an Int32.`,
		Example: `  lazuli table query Employees --filter "PartitionKey eq 'Sales' and Age gt 30" --select RowKey,Age --top 10`,
	}
	open := tableService(cmd)
	cmd.Flags().StringVarP(&o.Filter, "filter", "f", "", "$filter of the query (default: all entities)")
	cmd.Flags().StringVarP(&o.Select, "select", "s", "", "properties to show, separated by commas (default: all)")
	cmd.Flags().IntVarP(&o.Top, "top", "n", 0, "maximum number of entities (default: all)")
	// The service's own JSON, unparsed: numbers keep their digits and types their annotations.
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Top < 0 {
			return console.Usagef("--top must not be negative, but is %d", o.Top)
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return tabletool.Query(cmd.Context(), service.NewClient(args[0]), o, func(entity []byte) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", entity)
			return err
		})
	}
	return cmd
}

func newTableExplainCommand() *cobra.Command {
	var filter string
	var pages int
	cmd := &cobra.Command{
		Use: "explain TABLE", Short: "Run a query and print its cost, with hints to reduce it", Args: cobra.ExactArgs(1),
		Long: `Run a query and print its cost, with hints to reduce it.

The command reads all pages, or as many as --pages; only keys are transferred. Only Lazuli reports the cost of a query.`,
		Example: `  lazuli table explain Employees --filter "PartitionKey eq 'Sales' and RowKey ge '0001' and RowKey lt '0100'"
  lazuli table explain Employees --filter "Age gt 30" --pages 1`,
	}
	open := tableService(cmd)
	cmd.Flags().StringVarP(&filter, "filter", "f", "", "$filter of the query (default: all entities)")
	cmd.Flags().IntVar(&pages, "pages", 0, "maximum number of pages of 1,000 entities (default: all)")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// 0 means all pages; a negative number would mean the same by accident.
		if pages < 0 {
			return console.Usagef("--pages must not be negative, but is %d", pages)
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		e, err := tabletool.Explain(cmd.Context(), service.NewClient(args[0]), filter, pages)
		if err != nil {
			return err
		}
		// Asked for in any case: a filter that finds nothing because it compares an Int32 with a string costs little, and
		// is the case that people ask about.
		hints, err := tabletool.TypeHints(cmd.Context(), service, args[0], filter)
		if err != nil {
			return err
		}
		object := struct {
			tabletool.Explanation
			Cost  string   `json:"cost"`
			Hints []string `json:"hints"`
		}{e, e.Cost(), append(e.Hints(), hints...)}
		return output(object, func(out io.Writer) error { return printExplanation(out, e, object.Hints) })
	}
	return cmd
}

func newTableStatsCommand() *cobra.Command {
	var o tabletool.StatsOptions
	var window time.Duration
	cmd := &cobra.Command{
		Use: "stats TABLE", Short: "Count the entities and bytes of a table's partitions, and find the hot ones",
		Args: cobra.ExactArgs(1),
		Long: `Count the entities and bytes of a table's partitions, and find the hot ones.

It reads the whole table. Bytes are those of Azure's formula. Changes are the entities that were last changed within --window, and the peak is the
most of them in one second: on Azure, a partition carries about 2,000 a second, and answers 503 ServerBusy beyond.`,
		Example: `  lazuli table stats Votes
  lazuli table stats Votes --by rate --window 10m`,
	}
	open := tableService(cmd)
	cmd.Flags().StringVar(&o.By, "by", "entities", "order of the partitions: entities, bytes or rate")
	cmd.Flags().IntVar(&o.Top, "top", 10, "how many partitions to show")
	cmd.Flags().DurationVar(&window, "window", time.Hour, "how far back changes are counted")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Top < 1 || window <= 0 {
			return console.Usagef("--top and --window must be positive")
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		// The border is fixed before the scan: a scan of a minute would otherwise see a window of another length in each
		// partition.
		o.Since = time.Now().Add(-window)
		s, err := tabletool.ReadStats(cmd.Context(), service, args[0], o)
		// The order is checked where it is defined; here it is a wrong flag.
		if errors.Is(err, tabletool.ErrOrder) {
			return console.Usagef("--by: %w", err)
		}
		if err != nil {
			return err
		}
		return output(s, func(out io.Writer) error { return printStats(out, s) })
	}
	return cmd
}

func printStats(out io.Writer, s tabletool.Stats) error {
	fmt.Fprintf(out, "%d partitions, %d entities, %d bytes\n\n", s.Partitions, s.Entities, s.Bytes)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "entities\tbytes\tchanges\tpeak/s\t  partition")
	for _, p := range s.Top {
		hot := ""
		if p.Peak >= tabletool.PartitionTarget {
			hot = "  (hot: more than a partition carries on Azure)"
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t  %s%s\n", p.Entities, p.Bytes, p.Changed, p.Peak, console.OneLine(p.Partition), hot)
	}
	return tw.Flush()
}

func printExplanation(out io.Writer, e tabletool.Explanation, hints []string) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "plan\t%s\n", e.Plan)
	fmt.Fprintf(tw, "cost\t%s\n", e.Cost())
	// What the same query would cost on Azure; empty if Lazuli would do no better.
	if azure := e.OnAzure(); azure != "" {
		fmt.Fprintf(tw, "on Azure\t%s\n", azure)
	}
	for i, r := range e.Ranges {
		fmt.Fprintf(tw, "%s\t%s\n", first(i, "key ranges"), console.OneLine(r))
	}
	// A filter can have thousands of ranges. The number is shown, so that the list is not taken for the whole.
	if left := e.RangeCount - len(e.Ranges); left > 0 {
		fmt.Fprintf(tw, "%s\t%d more\n", first(len(e.Ranges), "key ranges"), left)
	}
	// The ranges are the index's part. This line tells why more is scanned than returned.
	if e.Residual {
		fmt.Fprint(tw, "then\tthe rest of the filter is checked on each entity in them\n")
	}
	fmt.Fprintf(tw, "scanned\t%s\n", console.Count(e.Scanned, "entity"))
	more := ""
	if e.More {
		more = " so far; there is more"
	}
	fmt.Fprintf(tw, "returned\t%s in %s%s\n", console.Count(e.Returned, "entity"), console.Count(e.Pages, "page"), more)
	for i, h := range hints {
		fmt.Fprintf(tw, "%s\t%s\n", first(i, "hint"), h)
	}
	return tw.Flush()
}

// first returns a label for the first of several lines, nothing for the others.
func first(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}
