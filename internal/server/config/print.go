package config

import (
	"fmt"
	"strings"
)

// Print writes all options as a configuration file that Load reads, with where each value came from. Defaults and
// secrets, which are redacted, are comments.
func (r *Result) Print() string {
	return printFile(func(o *option, name string) string {
		v, from := r.value(o), r.source(o)
		switch {
		// A comment, so that a file which is read back does not set the secret to this text.
		case strings.Contains(v, redacted):
			return fmt.Sprintf("%-40s # %s; not printed: give it again", "# "+name+": "+v, from)
		case from == FromDefault, v == "":
			return "# " + name + ": " + quoted(v)
		}
		return fmt.Sprintf("%-40s # %s", name+": "+quoted(v), from)
	}, func(o *option) bool { return r.source(o) != FromDefault })
}

// Example writes a configuration file with all options and what they mean, as comments.
func Example() string {
	defaults := Default()
	r := &Result{Config: defaults}
	return "# Configuration of Lazuli: lazuli --config FILE. The values are the defaults; remove a \"# \" to set one.\n" +
		"# docs/configuration.md says more. \"lazuli config --config FILE\" checks a file and prints what results.\n\n" +
		printFile(func(o *option, name string) string {
			v := r.value(o)
			if o.name == "accounts" {
				v = ""
			}
			indent := name[:len(name)-len(strings.TrimLeft(name, " "))]
			var b strings.Builder
			for _, line := range wrapped(o.usage+".", 110-len(indent)) {
				b.WriteString("# " + indent + "  " + line + "\n")
			}
			return b.String() + "# " + name + ": " + quoted(v)
		}, func(*option) bool { return false })
}

// wrapped breaks a text into lines of at most n bytes.
func wrapped(text string, n int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Value is an option with its value and where that came from.
type Value struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Values returns all options, secrets redacted.
func (r *Result) Values() (list []Value) {
	for _, g := range groups {
		for i := range g.options {
			if o := &g.options[i]; o.get != nil {
				list = append(list, Value{o.name, r.value(o), r.source(o).String()})
			}
		}
	}
	return list
}

func (r *Result) value(o *option) string { return o.get(&r.Config) }

// source returns where a value came from, also if another option has set it.
func (r *Result) source(o *option) Source {
	if o.name == "log-level" || o.name == "log-file" {
		return max(r.sources[o], r.sources[lookup("debug")])
	}
	return r.sources[o]
}

// quoted returns a value as YAML.
func quoted(v string) string {
	if v == "" || strings.ContainsAny(v, ":#*,{}[]&!|>'\"%@` ") {
		return fmt.Sprintf("%q", v)
	}
	return v
}

// printFile writes a file of all options with line; options of roles stand in sections, which are comments if nothing
// in them is set.
func printFile(line func(o *option, name string) string, set func(*option) bool) string {
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "# %s\n", g.title)
		if g.options[0].name == "roles" {
			printRoles(&b, g.options, line, set)
			continue
		}
		for j := range g.options {
			if o := &g.options[j]; o.get != nil {
				b.WriteString(line(o, o.name) + "\n")
			}
		}
	}
	return b.String()
}

func printRoles(b *strings.Builder, options []option, line func(*option, string) string, set func(*option) bool) {
	open := map[string]bool{} // sections in which something is set; "" is that of all roles
	for i := range options {
		// A section whose options are all comments is a comment itself; an empty mapping would be an error.
		if role, _ := options[i].section(); set(&options[i]) {
			open[role], open[""] = true, true
		}
	}
	heading := func(name string, open bool) {
		if !open {
			name = "# " + name
		}
		b.WriteString(name + ":\n")
	}
	heading("roles", open[""])
	last := ""
	for i := range options {
		o := &options[i]
		role, key := o.section()
		switch o.name {
		case "roles":
			key = "enabled"
		case "roles-account":
			key = "account"
		}
		indent := "  "
		if role != "" {
			if indent = "    "; role != last {
				heading("  "+role, open[role])
				last = role
			}
		}
		b.WriteString(line(o, indent+key) + "\n")
	}
}
