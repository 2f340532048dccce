package main

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
)

// list is the output of a verb that prints rows: a table, or with --json one object a line.
type list struct {
	json *json.Encoder // nil for a table
	tab  *tabwriter.Writer
	head string // the titles, until the first row
	rows int

	notes io.Writer
	none  string // the note about a list without rows
}

// listOutput adds --json to cmd, and returns a function that begins the output, with a heading of the table unless
// there are no titles.
func listOutput(cmd *cobra.Command) func(titles ...string) *list {
	asJSON := cmd.Flags().Bool("json", false, "")
	return func(titles ...string) *list {
		if *asJSON {
			return &list{json: jsonLines(cmd.OutOrStdout()), notes: cmd.ErrOrStderr()}
		}
		return &list{tab: tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0), head: strings.Join(titles, "\t"),
			notes: cmd.ErrOrStderr()}
	}
}

// or sets what is printed on standard error if the list has no rows: a sentence that says what to do.
func (l *list) or(none string, args ...any) *list {
	l.none = fmt.Sprintf(none, args...)
	return l
}

// add prints a row: the object as JSON, or the cells.
func (l *list) add(object any, cells ...any) error {
	l.rows++
	if l.json != nil {
		return l.json.Encode(object)
	}
	if l.head != "" {
		fmt.Fprintln(l.tab, l.head)
		l.head = ""
	}
	_, err := fmt.Fprintf(l.tab, strings.TrimSuffix(strings.Repeat("%v\t", len(cells)), "\t")+"\n", cells...)
	return err
}

// below adds a line that stands below the table. It is not part of JSON.
func (l *list) below(line string, args ...any) {
	if l.tab != nil {
		fmt.Fprintf(l.tab, line+"\n", args...)
	}
}

// end completes the output after err, and returns err with an error of the output.
func (l *list) end(err error) error {
	if err == nil && l.rows == 0 && l.none != "" {
		fmt.Fprintln(l.notes, l.none)
	}
	if l.tab == nil || l.rows == 0 {
		return err
	}
	return errors.Join(err, l.tab.Flush())
}

// reportOutput adds --json to cmd, and returns a function that prints one object: as JSON, or by text.
func reportOutput(cmd *cobra.Command) func(object any, text func(io.Writer) error) error {
	asJSON := cmd.Flags().Bool("json", false, "")
	return func(object any, text func(io.Writer) error) error {
		if *asJSON {
			return jsonLines(cmd.OutOrStdout()).Encode(object)
		}
		return text(cmd.OutOrStdout())
	}
}

// lineWriter prints one object: as JSON, or as a line.
type lineWriter func(object any, line string, args ...any) error

// lineOutput adds --json to cmd, and returns what prints the object.
func lineOutput(cmd *cobra.Command) lineWriter {
	output := reportOutput(cmd)
	return func(object any, line string, args ...any) error {
		return output(object, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, line+"\n", args...)
			return err
		})
	}
}

func jsonLines(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// camel is the name of a member of a JSON object for a title of words: "content type" is contentType.
func camel(title string) string {
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

// confirmation adds --yes to cmd, and returns a function that asks whether to go on. Where no person can be asked, it
// wants --yes.
func confirmation(cmd *cobra.Command) func(question string) error {
	yes := cmd.Flags().BoolP("yes", "y", false, "do it without a question")
	return func(question string) error {
		if *yes {
			return nil
		}
		in, ok := cmd.InOrStdin().(*os.File)
		if !ok || !isatty.IsTerminal(in.Fd()) {
			return usageError{fmt.Errorf("%s Give --yes, since there is no terminal to ask at", question)}
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err == nil && strings.EqualFold(strings.TrimSpace(answer), "y") {
			return nil
		}
		return errors.New("nothing was deleted")
	}
}

// inStyle is a value whose JSON has names of members that begin with a small letter, and no times that are not known.
type inStyle struct{ value any }

// MarshalJSON implements json.Marshaler.
func (s inStyle) MarshalJSON() ([]byte, error) {
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

// formatFlag adds -o to a verb that has --json: "table" or "json".
func formatFlag(cmd *cobra.Command) {
	asJSON := cmd.LocalFlags().Lookup("json")
	if asJSON == nil || asJSON.Value.Type() != "bool" || cmd.Flags().ShorthandLookup("o") != nil ||
		cmd.Flags().Lookup("output") != nil {
		return
	}
	asJSON.Usage = strings.TrimSuffix("the same as -o json: an object a line; "+asJSON.Usage, "; ")
	format := cmd.Flags().StringP("output", "o", "table", "`form`: table or json")
	offerValues(cmd, "output", "table", "json")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		switch *format {
		case "json":
			if err := asJSON.Value.Set("true"); err != nil {
				return err
			}
		case "table":
		default:
			return usageError{fmt.Errorf("-o is %q, not table or json", *format)}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}
