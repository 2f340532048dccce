package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/printable"
)

// List is the output of a verb that prints rows: a table, or with --json one object a line.
type List struct {
	JSON *json.Encoder // nil for a table
	tab  *tabwriter.Writer
	head string // the titles, until the first row
	Rows int

	notes io.Writer
	none  string // the note about a list without rows
}

// ListOutput adds --json to cmd, and returns a function that begins the output, with a heading of the table unless
// there are no titles.
func ListOutput(cmd *cobra.Command) func(titles ...string) *List {
	asJSON := cmd.Flags().Bool("json", false, "")
	return func(titles ...string) *List {
		if *asJSON {
			return &List{JSON: JSONLines(cmd.OutOrStdout()), notes: cmd.ErrOrStderr()}
		}
		return &List{tab: tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0), head: strings.Join(titles, "\t"),
			notes: cmd.ErrOrStderr()}
	}
}

// Or sets what is printed on standard error if the list has no rows: a sentence that says what to do.
func (l *List) Or(none string, args ...any) *List {
	l.none = fmt.Sprintf(none, args...)
	return l
}

// Add prints a row: the object as JSON, or the cells.
func (l *List) Add(object any, cells ...any) error {
	l.Rows++
	if l.JSON != nil {
		return l.JSON.Encode(object)
	}
	if l.head != "" {
		fmt.Fprintln(l.tab, l.head)
		l.head = ""
	}
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = printable.Line(fmt.Sprint(cell)) // names and errors that are stored
	}
	_, err := fmt.Fprintln(l.tab, strings.Join(texts, "\t"))
	return err
}

// Below adds a line that stands below the table. It is not part of JSON.
func (l *List) Below(line string, args ...any) {
	if l.tab != nil {
		fmt.Fprintln(l.tab, printable.Line(fmt.Sprintf(line, args...)))
	}
}

// End completes the output after err, and returns err with an error of the output.
func (l *List) End(err error) error {
	if err == nil && l.Rows == 0 && l.none != "" {
		fmt.Fprintln(l.notes, l.none)
	}
	if l.tab == nil || l.Rows == 0 {
		return err
	}
	return errors.Join(err, l.tab.Flush())
}

// ReportOutput adds --json to cmd, and returns a function that prints one object: as JSON, or by text, of which a
// terminal takes nothing for commands.
func ReportOutput(cmd *cobra.Command) func(object any, text func(io.Writer) error) error {
	asJSON := cmd.Flags().Bool("json", false, "")
	return func(object any, text func(io.Writer) error) error {
		if *asJSON {
			return JSONLines(cmd.OutOrStdout()).Encode(object)
		}
		// Whole, since a character may be written in two pieces. What was written before an error is printed as well.
		var b strings.Builder
		err := text(&b)
		_, printed := io.WriteString(cmd.OutOrStdout(), printable.Text(b.String()))
		return errors.Join(err, printed)
	}
}

// LineWriter prints one object: as JSON, or as a line.
type LineWriter func(object any, line string, args ...any) error

// LineOutput adds --json to cmd, and returns what prints the object.
func LineOutput(cmd *cobra.Command) LineWriter {
	output := ReportOutput(cmd)
	return func(object any, line string, args ...any) error {
		return output(object, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, line+"\n", args...)
			return err
		})
	}
}

func JSONLines(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// Camel is the name of a member of a JSON object for a title of words: "content type" is contentType.
func Camel(title string) string {
	words := strings.Fields(title)
	for i, w := range words {
		if i == 0 {
			words[i] = strings.ToLower(w)
		} else {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// Confirmation adds --yes to cmd, and returns a function that asks whether to go on. Where no person can be asked, it
// wants --yes.
func Confirmation(cmd *cobra.Command) func(question string) error {
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	return func(question string) error {
		if *yes {
			return nil
		}
		in, ok := cmd.InOrStdin().(*os.File)
		if !ok || !isatty.IsTerminal(in.Fd()) {
			return Usagef("%s Give --yes, since there is no terminal to ask at", question)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err == nil && strings.EqualFold(strings.TrimSpace(answer), "y") {
			return nil
		}
		return errors.New("nothing was deleted")
	}
}

// InStyle returns a value whose JSON has names of members that begin with a small letter, and no times that are not
// known.
func InStyle(value any) json.Marshaler { return styledJSON{value} }

type styledJSON struct{ value any }

// MarshalJSON implements json.Marshaler.
func (s styledJSON) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(s.value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // large numbers stay as they are
	var object any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	return json.Marshal(styled(object))
}

// styled gives the members of objects the names and values of the style.
func styled(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = styled(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			if member != "0001-01-01T00:00:00Z" {
				out[smallFirst(name)] = styled(member)
			}
		}
		return out
	}
	return v
}

// smallFirst is the name of a member for the name of a field of Go: ID is id, NextVisible is nextVisible.
func smallFirst(name string) string {
	if len(name) < 2 || name[1] >= 'A' && name[1] <= 'Z' && strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// FormatFlag adds -o to a verb that has --json: "table" or "json".
func FormatFlag(cmd *cobra.Command) {
	asJSON := cmd.LocalFlags().Lookup("json")
	if asJSON == nil || asJSON.Value.Type() != "bool" || cmd.Flags().ShorthandLookup("o") != nil ||
		cmd.Flags().Lookup("output") != nil {
		return
	}
	asJSON.Usage = strings.TrimSuffix("the same as -o json: an object a line; "+asJSON.Usage, "; ")
	format := cmd.Flags().StringP("output", "o", "table", "`form`: table or json")
	OfferValues(cmd, "output", "table", "json")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch *format {
		case "json":
			if err := asJSON.Value.Set("true"); err != nil {
				return err
			}
		case "table":
		default:
			return Usagef("-o is %q, not table or json", *format)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// OfferValues makes shells offer the values of a flag of cmd. It panics if cmd has no such flag.
func OfferValues(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}
