package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// clusterVariable matches variables that Kubernetes makes for a service called lazuli, or lazuli-something.
var clusterVariable = lazyregexp.New(
	`^LAZULI_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP).*)?)$`)

// otherVariables are of other verbs, and of the scripts in .ci.
var otherVariables = []string{"LAZULI_CONFIG", "LAZULI_CONNECTION_STRING", "LAZULI_FAULT", "LAZULI_CI_CACHE",
	"LAZULI_SHARED"}

// environSettings reads the environment. An empty variable counts as not set.
func environSettings(environ []string) (list []setting, notes []string, err error) {
	vars := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, text, ok := strings.Cut(e, "="); ok && text != "" &&
			(strings.HasPrefix(name, "LAZULI_") || strings.HasPrefix(name, "AZURITE_")) {
			vars[name] = text
		}
	}
	// What is left over at the end is misspelled: a note, and no error, since other programs may have variables of the
	// prefix.
	used := make(map[string]bool)
	for _, name := range otherVariables {
		used[name] = true
	}
	add := func(o *option, name string) {
		used[name] = true
		if text, ok := vars[name]; ok {
			list = append(list, setting{o, text, FromEnvironment, "environment variable " + name})
		}
	}
	// An error and no note: data would silently be in another place than the operator believes.
	for name, why := range azuriteVariablesRefused {
		if vars[name] != "" {
			return nil, nil, fmt.Errorf("environment variable %s: %s", name, why)
		}
	}
	for name, target := range azuriteVariables { // before Lazuli's own, which win
		add(lookup(target), name)
	}
	for g := range groups {
		for i := range groups[g].options {
			o := &groups[g].options[i]
			add(o, o.env())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if strings.HasPrefix(name, "LAZULI_") && !used[name] && !clusterVariable().MatchString(name) {
			notes = append(notes, "environment variable "+name+" is not an option of Lazuli's; it is ignored"+meant(name, used))
		}
	}
	return list, notes, nil
}

// meant names the variable of which name is a form without or with other underscores.
func meant(name string, known map[string]bool) string {
	plain := func(s string) string { return strings.ReplaceAll(s, "_", "") }
	for _, other := range slices.Sorted(maps.Keys(known)) {
		if plain(other) == plain(name) {
			return "; did you mean " + other + "?"
		}
	}
	return ""
}
