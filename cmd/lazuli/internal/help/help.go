package help

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// VerbGroups are the headings of the verbs in `lazuli --help`, and their verbs in order.
var VerbGroups = []struct {
	title string
	Verbs []string
}{
	{"Serve", []string{"serve", "open", "health", "top", "trace"}},
	{"Data", []string{"blob", "queue", "table", "sas", "logs", "find", "search"}},
	{"Workers", []string{"worker", "workers", "func", "durable", "jobs", "schedule"}},
	{"Administration", []string{"config", "account", "cert", "cluster", "backup", "restore", "standby", "export", "import",
		"fsck", "compact", "version", "completion", "help"}},
	{"Tests", []string{"fault", "event", "demo", "bench"}},
}

// MainFlags are the flags that `lazuli --help` shows.
var MainFlags = []string{"location", "in-memory", "host", "blob-port", "accounts-file", "config", "log-level"}

// For shows the help of a command: that of the program is one screen, and flags of serve stand in groups.
func For(root *cobra.Command) func(*cobra.Command, []string) {
	usual := root.HelpFunc()
	return func(cmd *cobra.Command, args []string) {
		switch {
		case cmd == root:
			rootHelp(cmd.OutOrStdout(), root)
		case Serves(cmd):
			about := cmd.Short + "."
			if cmd.Long != "" {
				about = cmd.Long
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  %s\n", about, cmd.UseLine())
			for _, c := range cmd.Commands() {
				fmt.Fprintf(cmd.OutOrStdout(), "  %s   %s\n", c.UseLine(), c.Short)
			}
			flagHelp(cmd.OutOrStdout(), cmd)
		default:
			usual(cmd, args)
		}
	}
}

func rootHelp(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage: lazuli [flags]         serve, on Azurite's ports, with the development account\n "+
		"      lazuli VERB [flags]\n", root.Long)
	for _, g := range VerbGroups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, name := range g.Verbs {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				fmt.Fprintf(w, "  %-11s %s\n", name, cmd.Short)
			}
		}
	}
	flags := pflag.NewFlagSet("main", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, name := range MainFlags {
		if f := root.Flags().Lookup(name); f != nil {
			flags.AddFlag(f)
		}
	}
	fmt.Fprintf(w, "\nCommon flags:\n%s\n", flags.FlagUsages())
	fmt.Fprint(w, "All flags, in groups: lazuli help flags. A verb: lazuli VERB --help.\n")
}

// flagHelp writes the flags of serve in groups.
func flagHelp(w io.Writer, serve *cobra.Command) {
	for _, g := range config.FlagGroups(serve.Flags()) {
		fmt.Fprintf(w, "\n%s:\n%s", g.Title, g.Flags.FlagUsages())
	}
	fmt.Fprint(w, "\nEvery flag can be an environment variable (--blob-port is LAZULI_BLOB_PORT) or a line in a "+
		"configuration file:\n"+
		"see docs/configuration.md. Azurite's flags are understood.\n")
}

// Serves reports whether a verb has the flags of serve.
func Serves(c *cobra.Command) bool {
	f := c.Flags().Lookup("shutdown-timeout")
	return f != nil && !f.Hidden
}

// Places reports whether a verb takes a place although it has other verbs.
func Places(c *cobra.Command) bool { _, ok := c.Annotations[TakesPlace]; return ok }

// NewCommand makes `lazuli help`.
func NewCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [flags | VERB ...]",
		Short: "Help about the program, the flags of serve, or a verb",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "flags" {
				flagHelp(cmd.OutOrStdout(), root)
				return nil
			}
			about, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownVerb(about, rest[0])
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// synonyms are words of other tools for the last word of a verb.
var synonyms = map[string][]string{
	"ls":     {"list", "dir"},
	"rm":     {"remove", "delete", "del"},
	"get":    {"download", "read"},
	"put":    {"upload", "write", "set", "send"},
	"create": {"new", "mk", "make", "add"},
	"show":   {"describe", "info", "stat"},
	"cp":     {"copy"},
	"peek":   {"get", "read"},
}

// Finish completes a tree of verbs: a verb that only has others shows its help, wrong arguments are usage errors, and a
// misspelt verb is answered with the one that was meant.
func Finish(cmd *cobra.Command) {
	cmd.SuggestFor = append(cmd.SuggestFor, synonyms[cmd.Name()]...)
	// An alias and not only a suggestion: in "list --json" the flag is refused before the word is looked at.
	if cmd.Name() == "ls" && !cmd.HasAlias("list") {
		cmd.Aliases = append(cmd.Aliases, "list")
	}
	console.FormatFlag(cmd)
	target.CompleteNames(cmd)
	switch check := cmd.Args; {
	case cmd.HasSubCommands() && !Places(cmd):
		if !cmd.Runnable() {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, args[0])
			}
			return nil
		}
	case check != nil || len(strings.Fields(cmd.Use)) > 1:
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			if word := emptyArgument(cmd.Use, args); word != "" {
				return console.Usagef("the argument %s is empty; usage: %s", word, usage)
			}
			err := check(cmd, args)
			if err == nil || errors.As(err, new(console.UsageError)) {
				return err // The verb says itself which argument is wrong, and why.
			}
			return console.Usagef("%s; usage: %s", wrongCount(cmd.Use, args), usage)
		}
	}
	for _, c := range cmd.Commands() {
		Finish(c)
	}
}

// wrongCount says which argument is missing, or how many there are too many. use is the verb's usage line, whose words
// after the name are the arguments: those in brackets may be left out.
func wrongCount(use string, args []string) string {
	wanted := slices.DeleteFunc(strings.Fields(use)[1:], func(word string) bool {
		return strings.HasPrefix(word, "[") || word == "..."
	})
	if len(args) < len(wanted) {
		return "missing argument: " + wanted[len(args)]
	}
	if len(wanted) == 0 && len(args) == 1 {
		return fmt.Sprintf("%q is not expected", args[0])
	}
	return fmt.Sprintf("%d arguments were given", len(args))
}

// mayBeEmpty are the arguments of which "" is a value.
var mayBeEmpty = []string{"BODY", "TEXT", "INPUT", "DATA", "PARTITION-KEY", "ROW-KEY"}

// emptyArgument returns the word in the usage line of the first argument that is "" and may not be, or "". A script
// whose variable is not set gives such a one: as a folder it would be the working directory.
func emptyArgument(use string, args []string) string {
	words := slices.DeleteFunc(strings.Fields(use)[1:], func(word string) bool { return strings.Trim(word, ".]") == "" })
	for i, arg := range args {
		if arg != "" || len(words) == 0 {
			continue
		}
		word := strings.TrimPrefix(words[min(i, len(words)-1)], "[")
		if strings.Count(word, "]") > strings.Count(word, "[") {
			word = strings.TrimSuffix(word, "]")
		}
		if !slices.Contains(mayBeEmpty, word) && !strings.Contains(word, "PREFIX") {
			return word
		}
	}
	return ""
}

// unknownVerb is the error for a word that is no verb of cmd.
func unknownVerb(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = 2
	return console.Usagef("unknown command %q for %q; %s", word, cmd.CommandPath(), Hint(cmd, cmd.SuggestionsFor(word)))
}

// UnknownFlag completes the flag library's error for an unknown flag: with the flags that have the same letters, or
// else those at most two edits away.
//
// If cmd only has other verbs and a word stands before the flag, the word is the mistake: the flag is one of the verb
// that was meant.
func UnknownFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasSubCommands() && !Places(cmd) {
		return unknownVerb(cmd, words[0])
	}
	_, name, _ := strings.Cut(err.Error(), "--")
	letters := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "") }
	var near []string
	// One or two letters say too little: nearly every short flag is two edits away.
	for limit := 0; limit <= 2 && len(near) == 0 && len(name) > 3; limit++ {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && edits(letters(f.Name), letters(name)) <= limit {
				near = append(near, "--"+f.Name)
			}
		})
	}
	return fmt.Errorf("%w; %s", err, Hint(cmd, near))
}

// edits is the number of letters that must be inserted, removed or replaced to turn a into b (Levenshtein's distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1) // the distances of the first letters of a to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Hint names the words that may have been meant, and where the help is.
func Hint(cmd *cobra.Command, words []string) string {
	if len(words) == 0 {
		return fmt.Sprintf("see %s --help", cmd.CommandPath())
	}
	slices.Sort(words)
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return fmt.Sprintf("did you mean %s? See %s --help", strings.Join(slices.Compact(words), " or "), cmd.CommandPath())
}

// TakesPlace marks a verb that takes a place and has other verbs.
const TakesPlace = "takes a place"
