package config

import (
	"fmt"
	"slices"
	"strings"
)

//go:generate go test . -run TestReferencePageIsCurrent -update

// plainKinds are the kinds of values that the text of an option, or its default, tells.
var plainKinds = []string{"address", "file", "folder", "level", "name", "ncrontab", "number", "password", "path",
	"port", "property", "table", "text", "time", "url"}

// Reference renders the lists of the reference page.
func Reference() string {
	var b strings.Builder
	defaults := Default()
	for _, g := range groups {
		fmt.Fprintf(&b, "### %s\n\n", g.title)
		for i := range g.options {
			o := &g.options[i]
			name, note := o.name, ""
			switch {
			case o.noFlag && !o.rare:
				note = " (no flag: secret)"
			case o.short != "":
				note = ", `-" + o.short + "`"
			}
			// An option without a value in the configuration is one of the command line alone, such as --config.
			if o.get == nil {
				note += " (flag and variable)"
			} else if v := o.get(&defaults); o.name == "accounts" {
				note += ", by default the development account"
			} else if v != "" && v != "false" {
				name += "=" + v
			}
			kind := ""
			// Kinds that the text explains anyway are left out.
			if o.kind != "" && !slices.Contains(plainKinds, o.kind) {
				kind = " (" + strings.ReplaceAll(o.kind, "|", ", ") + ")"
			}
			fmt.Fprintf(&b, "- `%s`%s: %s%s.\n", name, note, o.usage, kind)
		}
		b.WriteByte('\n')
	}
	b.WriteString("### Azurite's names\n\n| Azurite | here |\n| --- | --- |\n")
	b.WriteString("| `--blobHost`, `--blobPort`, `--blobKeepAliveTimeout`, and the same for queue and table; " +
		"`--location`, `-l`; `--silent`, `-s`; `--debug`, `-d`; `--cert`, `--key` (PEM), `--pwd` (PFX) | the same option |\n")
	for _, a := range []string{"inMemoryPersistence"} {
		fmt.Fprintf(&b, "| `--%s` | `--%s` |\n", a, canonical(a))
	}
	for _, a := range azuriteNothing {
		short := ""
		if a.short != "" {
			short = ", `-" + a.short + "`"
		}
		fmt.Fprintf(&b, "| `--%s`%s | accepted. %s. |\n", camel(a.name), short, a.usage)
	}
	b.WriteString("| `--oauth basic` | the same option; refused where other machines reach accounts other than the " +
		"published development account, since tokens can be forged. |\n")
	b.WriteString("| `azurite-blob`, `azurite-queue`, `azurite-table` | the verbs of these names, and the program " +
		"under these names (a link or a copy): one service, whose data is in a folder of the service's name in " +
		"`--location`. `--services` chooses services too, in `--location` itself. |\n")
	b.WriteString("| `AZURITE_ACCOUNTS` | `LAZULI_ACCOUNTS`, which wins if both are set. It is read once, at start. |\n")
	b.WriteString("| `AZURITE_SKIP_API_VERSION_CHECK` | nothing to skip, see `--skipApiVersionCheck`. |\n")
	for name, why := range azuriteVariablesRefused {
		fmt.Fprintf(&b, "| `%s` | refused: %s. |\n", name, why)
	}
	return b.String()
}

// camel is kebab's inverse.
func camel(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}
