package config

import (
	"strings"
	"unicode"
)

// Azurite's flags, in kebab-case, that have another name here. Those that are not listed are called the same.
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite#command-line-options
var azuriteNames = map[string]string{
	"in-memory-persistence": "in-memory",
}

// azuriteNothing are Azurite's flags that have no effect here, with the note that is printed when it may be news to the
// caller. kind is that of the flag's value, "" for a switch.
var azuriteNothing = []struct{ name, short, kind, usage, note string }{
	{"disable-telemetry", "", "", "It has no effect: Lazuli sends no telemetry", ""},
	{"skip-api-version-check", "", "", "The default: unknown service versions are served (see --strict-api-version)", ""},
	{"loose", "L", "", "It has no effect: unknown headers are ignored, and missing features are answered 501",
		"--loose changes nothing: headers that Lazuli does not know are ignored anyway, and what it lacks is answered 501"},
	{"extent-memory-limit", "", "megabytes", "It has no effect: the data of --in-memory is in unnamed temporary files",
		"--extentMemoryLimit changes nothing: the data of --in-memory is in unnamed temporary files, not in memory"},
}

// azuriteVariables are Azurite's environment variables that set an option here.
var azuriteVariables = map[string]string{"AZURITE_ACCOUNTS": "accounts"}

// azuriteVariablesRefused are those that ask for what Lazuli does not have.
var azuriteVariablesRefused = map[string]string{
	"AZURITE_DB": "metadata in an SQL database is not implemented; unset the variable to use Lazuli's own files",
}

// kebab turns camelCase into kebab-case and leaves the rest as it is.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			// --blobHost and --blob-host are one flag, also in mixtures such as --blob-Host.
			if i > 0 && !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// canonical is the option's name for any spelling of a flag.
func canonical(flag string) string {
	name := kebab(flag)
	if own, ok := azuriteNames[name]; ok {
		return own
	}
	return name
}
