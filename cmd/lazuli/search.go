package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// searchSource is the place where an index is: in a folder, or in a process with an admin listener.
type searchSource struct {
	folder   string
	listener target.AdminListener
}

// newSearchCommand makes `lazuli search`.
func newSearchCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Search in the index of the search-index role",
		Long: `Search in the full-text index of a table that the search-index role keeps.

The verbs ask the process that runs the role, "lazuli serve --roles search-index" or "lazuli worker --role search-index"
with --admin ADDRESS; --admin-host and --admin-port are its address. With --folder they open the index of a process that
has stopped.`,
	}
	config.AddFlags(cmd.PersistentFlags(), "admin-host", "admin-port")
	folder := cmd.PersistentFlags().String("folder", "", "folder of the index, if no process has opened it")
	source := func(cmd *cobra.Command) (searchSource, error) {
		listener, err := target.Admin(m.Environ, cmd)
		return searchSource{folder: *folder, listener: listener}, err
	}
	cmd.AddCommand(newSearchQueryCommand(source), newSearchVerifyCommand(source), newSearchRebuildCommand(source))
	return cmd
}

func newSearchQueryCommand(source func(*cobra.Command) (searchSource, error)) *cobra.Command {
	var q searchapi.Query
	var facets []string
	cmd := &cobra.Command{
		Use:   "query [TEXT]",
		Short: "Print the entities that match",
		Long: `Print the entities that match TEXT, best first; without TEXT all. Words without a field name are searched in the text
fields. A word that begins with + must occur, one with - must not. Quote TEXT for the shell, and put "--" before a TEXT that
begins with "-".

  ada lovelace              one of the words
  +ada -Town:London         fields by name
  "ada lovelace"            words in this order
  ad* /ad.+/ ada~1          a prefix, a regular expression, words that differ by one character
  Score:>=7 Born:<"1900-01-01"`,
		Example: `  lazuli search query '+ada Score:>5' --highlight --facet Town --facet Score:0..5,5..
  lazuli search query --sort -Score --size 100 --json
  lazuli search query ada --folder lazuli-data/search-index/devstoreaccount1/employees`,
		Args: cobra.MaximumNArgs(1),
	}
	fl := cmd.Flags()
	fl.IntVar(&q.Size, "size", 10, "maximum number of hits, at most "+strconv.Itoa(searchapi.MaxSize))
	fl.StringVar(&q.After, "after", "", "token of the page before, to print the next one")
	fl.StringSliceVar(&q.Sort, "sort", nil,
		"field to sort by, with - before it in descending order; repeatable (default: by score)")
	fl.BoolVar(&q.Highlight, "highlight", false, "print the parts of text fields that match")
	fl.StringArrayVar(&facets, "facet", nil,
		"count the values of a field: FIELD, FIELD:TERMS or FIELD:FROM..TO,FROM..TO; repeatable")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := source(cmd)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			q.Text = args[0]
		}
		if q.Size < 1 {
			return console.Usagef("--size %d is not positive", q.Size)
		}
		for _, text := range facets {
			f, err := searchapi.ParseFacet(text)
			if err != nil {
				return console.Usage(err)
			}
			q.Facets = append(q.Facets, f)
		}
		// The facets as text too: a server is asked with the text, a folder with what was parsed.
		result, err := from.search(cmd.Context(), q, facets)
		if err != nil {
			return err
		}
		return output(result, func(w io.Writer) error { return printResult(w, q, result) })
	}
	return cmd
}

// search asks for a page of hits.
func (s searchSource) search(ctx context.Context, q searchapi.Query, facets []string) (*searchapi.Result, error) {
	values := url.Values{"q": {q.Text}, "size": {strconv.Itoa(q.Size)}, "sort": q.Sort, "facet": facets}
	if q.After != "" {
		values.Set("after", q.After)
	}
	if q.Highlight {
		values.Set("highlight", "true")
	}
	var result searchapi.Result
	return &result, s.ask(ctx, "", http.MethodGet, "/search?"+values.Encode(), &result)
}

// ask sends a request to the process that has the index. An index in a folder gets one for this request; account is the
// connection string of its table, if the request needs it.
func (s searchSource) ask(ctx context.Context, account, method, path string, into any) error {
	if s.folder != "" {
		x, err := searchproc.Open(searchproc.Config{Folder: s.folder, ConnectionString: account})
		if err != nil {
			return workerproc.SearchError(err)
		}
		return errors.Join(x.Ask(ctx, method, path, nil, into), x.Close())
	}
	body, err := s.listener.Send(ctx, method, path, nil)
	if errors.Is(err, target.ErrNotServed) {
		return fmt.Errorf("the process at %s does not run the role search-index", s.listener.URL)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer is not one of the role search-index: %w", err)
	}
	return nil
}

func printResult(out io.Writer, q searchapi.Query, r *searchapi.Result) error {
	for _, h := range r.Hits {
		// Quoted: keys may have spaces and control characters, and the reader must see where one ends.
		fmt.Fprintf(out, "%q %q  score %.3f\n", h.PartitionKey, h.RowKey, h.Score)
		for _, name := range slices.Sorted(maps.Keys(h.Fields)) {
			value, err := json.Marshal(h.Fields[name])
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %s: %s\n", name, value)
		}
		for _, name := range slices.Sorted(maps.Keys(h.Fragments)) {
			for _, fragment := range h.Fragments[name] {
				fmt.Fprintf(out, "  %s matches: %q\n", name, plainFragment(fragment))
			}
		}
	}
	for _, f := range q.Facets {
		facet := r.Facets[f.Field]
		fmt.Fprintf(out, "%s:", f.Field)
		for _, v := range facet.Values {
			fmt.Fprintf(out, " %q %d,", v.Value, v.Count)
		}
		// Values beyond those listed, and entities without the field, make the numbers add up to the hits.
		fmt.Fprintf(out, " others %d, without %d\n", facet.Other, facet.Missing)
	}
	fmt.Fprintf(out, "%d of %d hits\n", len(r.Hits), r.Total)
	// A search during the build can miss entities; without this line a missing hit looks like a missing entity.
	if !r.Complete {
		fmt.Fprintln(out, "The index is still being built: entities may be missing.")
	}
	if r.Next != "" {
		fmt.Fprintf(out, "The next page: --after %s\n", r.Next)
	}
	return nil
}

// plainFragment turns a fragment from HTML into text, with matches in brackets.
func plainFragment(fragment string) string {
	return html.UnescapeString(strings.NewReplacer("<mark>", "[", "</mark>", "]").Replace(fragment))
}

func newSearchVerifyCommand(source func(*cobra.Command) (searchSource, error)) *cobra.Command {
	var most time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the index with the table",
		Long: `Compare the index with the table: every entity must have a document with the values of its fields, and every document an
entity. It reads the whole table. During writes it can report changes that the role has not handled yet.

The exit code is 0 if they are equal. With --folder, --connection-string names the account of the table.`,
		Example: `  lazuli search verify
  lazuli search verify --folder lazuli-data/search-index/devstoreaccount1/employees`,
		Args: cobra.NoArgs,
	}
	connection := target.AccountFlag(cmd)
	output := console.ReportOutput(cmd)
	cmd.Flags().DurationVar(&most, "timeout", 24*time.Hour, "maximum time of the comparison")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if most <= 0 {
			return console.Usagef("--timeout %v is not positive", most)
		}
		from, err := source(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), most, fmt.Errorf("the comparison takes longer than %v", most))
		defer cancel()
		report, err := from.verify(ctx, connection)
		// The cause names the limit; the error would only say that a context has ended.
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		err = output(report, func(w io.Writer) error { return printReport(w, report) })
		switch {
		case err != nil:
			return err
		// An index that is being built differs from the table for a good reason.
		case !report.Complete:
			return errors.New("the index is still being built")
		case report.Different > 0:
			return fmt.Errorf("%d entities differ", report.Different)
		}
		return nil
	}
	return cmd
}

func (s searchSource) verify(ctx context.Context, connection func() (string, error)) (r searchapi.Report, err error) {
	account := ""
	if s.folder != "" {
		if account, err = connection(); err != nil {
			return r, err
		}
	}
	err = s.ask(ctx, account, http.MethodGet, "/search/verify", &r)
	return r, err
}

func printReport(out io.Writer, r searchapi.Report) error {
	for _, d := range r.Differences {
		fmt.Fprintf(out, "%q %q is %s\n", d.PartitionKey, d.RowKey, d.What)
	}
	if n := r.Different - len(r.Differences); n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
	_, err := fmt.Fprintf(out, "%s: %d entities, %d documents, %d differences\n", r.Table, r.Entities, r.Documents,
		r.Different)
	return err
}

func newSearchRebuildCommand(source func(*cobra.Command) (searchSource, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the index from the table",
		Long: `Rebuild the index from the table. The role reads the whole table into a new index, which then replaces the current one;
until then, searches use the current one. The role begins with the next change, or within half a minute. Without a running
role, remove the folder of the index.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := source(cmd)
			if err != nil {
				return err
			}
			if from.folder != "" {
				return console.Usagef("rebuild asks the process that runs the role; without one, remove the folder")
			}
			var nothing struct{}
			return from.ask(cmd.Context(), "", http.MethodPost, "/search/rebuild", &nothing)
		},
	}
}
