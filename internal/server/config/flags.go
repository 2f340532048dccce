package config

import (
	"fmt"

	"github.com/spf13/pflag"
)

// value is a flag's text, kept until Load reads it: the flag library would repeat a refused text, which may be secret.
type value struct{ text, kind string }

func (v *value) String() string { return v.text }

func (v *value) Set(s string) error {
	v.text = s
	return nil
}

// Type is the word for the value in help texts; "bool" is pflag's word for a switch.
func (v *value) Type() string {
	if v.kind == "" {
		return "bool"
	}
	return v.kind
}

// AddFlags defines the flags of all options that have one, and Azurite's, on fs. With names it defines only those.
func AddFlags(fs *pflag.FlagSet, names ...string) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(canonical(name))
	})
	fs.SortFlags = false
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	defaults := Default()
	add := func(name, short, kind, usage, def string) *pflag.Flag {
		f := fs.VarPF(&value{text: def, kind: kind}, name, short, usage)
		if kind == "" {
			f.NoOptDefVal = "true"
		}
		return f
	}
	for _, g := range groups {
		for _, o := range g.options {
			// Secrets are no flags: other users of the machine see the arguments of a process.
			if o.noFlag || len(names) == 0 && o.rare || len(names) > 0 && !wanted[o.name] {
				continue
			}
			def := ""
			if o.get != nil {
				def = o.get(&defaults)
			}
			add(o.name, o.short, o.kind, o.usage, def)
		}
	}
	add("config", "", "file", "Configuration file (YAML), see docs/configuration.md", "")
	if len(names) > 0 {
		return
	}
	for _, a := range azuriteNothing {
		// Accepted, so that a command line for Azurite works as it is, and not advertised.
		add(a.name, a.short, a.kind, a.usage, "").Hidden = true
	}
}

// flagSettings reads the flags that were given.
func flagSettings(fs *pflag.FlagSet) (list []setting, notes []string, err error) {
	if fs == nil {
		return nil, nil, nil
	}
	given := make(map[string]bool)
	// Visit has only flags that were given: the default of a flag must not win over the file.
	fs.Visit(func(f *pflag.Flag) {
		given[f.Name] = true
		if o := lookup(f.Name); o != nil {
			list = append(list, setting{o, f.Value.String(), FromFlag, "--" + f.Name})
		}
	})
	for _, a := range azuriteNothing {
		if given[a.name] && a.note != "" {
			notes = append(notes, a.note)
		}
	}
	if given["strict-api-version"] && given["skip-api-version-check"] {
		return nil, nil, fmt.Errorf("--strict-api-version and --skip-api-version-check contradict each other")
	}
	return list, notes, nil
}

// FlagGroups returns the flags of fs that [AddFlags] has added, by the headings of the reference page.
func FlagGroups(fs *pflag.FlagSet) []FlagGroup {
	var list []FlagGroup
	for _, g := range groups {
		flags := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		flags.SortFlags = false
		for _, o := range g.options {
			if f := fs.Lookup(o.name); f != nil && !o.noFlag {
				flags.AddFlag(f)
			}
		}
		if flags.HasFlags() {
			list = append(list, FlagGroup{g.title, flags})
		}
	}
	return list
}

// FlagGroup is a heading of the reference page with its flags.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}
