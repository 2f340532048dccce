package main

import (
	"bufio"
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
}

// listOutput adds --json to cmd, and returns a function that begins the output, with a heading of the table unless
// there are no titles.
func listOutput(cmd *cobra.Command) func(titles ...string) *list {
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a line")
	return func(titles ...string) *list {
		if *asJSON {
			return &list{json: jsonLines(cmd.OutOrStdout())}
		}
		l := &list{tab: tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)}
		if len(titles) > 0 {
			fmt.Fprintln(l.tab, strings.Join(titles, "\t"))
		}
		return l
	}
}

// add prints a row: the object as JSON, or the cells.
func (l *list) add(object any, cells ...any) error {
	if l.json != nil {
		return l.json.Encode(object)
	}
	_, err := fmt.Fprintf(l.tab, strings.TrimSuffix(strings.Repeat("%v\t", len(cells)), "\t")+"\n", cells...)
	return err
}

// end completes the output after err, and returns err with an error of the output.
func (l *list) end(err error) error {
	if l.tab == nil {
		return err
	}
	return errors.Join(err, l.tab.Flush())
}

// reportOutput adds --json to cmd, and returns a function that prints one object: as JSON, or by text.
func reportOutput(cmd *cobra.Command) func(object any, text func(io.Writer) error) error {
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a line")
	return func(object any, text func(io.Writer) error) error {
		if *asJSON {
			return jsonLines(cmd.OutOrStdout()).Encode(object)
		}
		return text(cmd.OutOrStdout())
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
	yes := cmd.Flags().BoolP("yes", "y", false, "delete without a question")
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
