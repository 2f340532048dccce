package functions

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

const settingsFile = "local.settings.json"

// settings are the app settings: the environment, and below it the Values of local.settings.json, as with the Core
// Tools.
type settings struct{ values []string } // "name=value"

// get looks a name up, first as it is and then in any case, as .NET does. In a name of several parts, : and __ are the
// same. https://learn.microsoft.com/dotnet/core/extensions/configuration-providers#environment-variable-configuration-provider
func (s *settings) get(name string) (string, bool) {
	fold, found := "", false
	for _, line := range s.values {
		k, v, _ := strings.Cut(line, "=")
		if k == name {
			return v, true
		}
		if !found && strings.EqualFold(sectioned(k), sectioned(name)) {
			fold, found = v, true
		}
	}
	return fold, found
}

// sectioned writes a setting's name with : between its parts.
func sectioned(name string) string { return strings.ReplaceAll(name, "__", ":") }

func (s *settings) set(name, value string) {
	s.values = slices.DeleteFunc(s.values, func(line string) bool { return strings.HasPrefix(line, name+"=") })
	s.values = append(s.values, name+"="+value)
}

// expand replaces every %NAME% by the setting. A name that is not set is an error, unless keep is true: then it stays.
func (s *settings) expand(text string, keep bool) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "%")
		name, after, closed := strings.Cut(rest, "%")
		if !ok || !closed {
			b.WriteString(text)
			return b.String(), nil
		}
		value, found := s.get(name)
		switch {
		case found:
			b.WriteString(before + value)
		case keep:
			// The second percent sign may begin another name.
			b.WriteString(before + "%" + name)
			after = "%" + after
		default:
			return "", fmt.Errorf("%%%s%% is set neither in the environment nor in %s (Values)", name, settingsFile)
		}
		text = after
	}
}

// localHost is the Host section of local.settings.json.
type localHost struct {
	port            int // 0: not said
	cors            []string
	corsCredentials bool
}

// readSettings reads local.settings.json below an environment. The file may be missing.
func readSettings(r *report, dir string, environ []string) (*settings, localHost) {
	s := &settings{values: slices.Clone(environ)}
	var host localHost
	file, err := readSection(r, filepath.Join(dir, settingsFile), settingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, host
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return s, host
	}
	if file.boolean("IsEncrypted", false) {
		file.fail("IsEncrypted", "not supported: decrypt the file with the Core Tools (func settings decrypt)")
		return s, host
	}
	if values := file.object("Values"); values != nil {
		for _, m := range values.members {
			v, _ := values.scalar(m.name)
			if _, ok := s.get(m.name); !ok { // The environment goes first.
				s.set(m.name, v)
			}
		}
	}
	if h := file.object("Host"); h != nil {
		host.port = h.integer("LocalHttpPort", 0, 1, 65535)
		host.cors = origins(h.text("CORS", ""))
		host.corsCredentials = h.boolean("CORSCredentials", false)
		h.done()
	}
	readConnectionStrings(file.object("ConnectionStrings"), s)
	file.done()
	return s, host
}

// connectionStrings begins the names of settings that are connection strings.
const connectionStrings = "ConnectionStrings:"

// readConnectionStrings reads the section ConnectionStrings: a text, or an object with the text and a provider's name,
// for each name. They become settings, also of the functions' processes, as with the Core Tools:
// https://github.com/Azure/azure-functions-core-tools/blob/3ee97a6/src/Cli/func/Common/AppSettingsFile.cs
func readConnectionStrings(o *section, s *settings) {
	if o == nil {
		return
	}
	for _, m := range o.members {
		var v string
		if m.value[0] == '{' {
			one := o.object(m.name)
			v = one.text("ConnectionString", "")
			one.noEffect("only the program that connects needs it", "ProviderName")
			one.done()
		} else {
			v, _ = o.scalar(m.name)
		}
		if _, ok := s.get(connectionStrings + m.name); !ok {
			s.set(connectionStrings+m.name, v)
		}
	}
}

// origins splits a list of origins.
func origins(list string) (split []string) {
	for origin := range strings.SplitSeq(list, ",") {
		if origin = strings.TrimSuffix(strings.TrimSpace(origin), "/"); origin != "" {
			split = append(split, origin)
		}
	}
	return split
}

// connection returns the connection string that a binding's "connection" names: with the prefix AzureWebJobs or
// without, each first among the ConnectionStrings.
// https://learn.microsoft.com/azure/azure-functions/functions-reference#connections
// https://github.com/Azure/azure-webjobs-sdk/blob/f79ea0b/src/Microsoft.Azure.WebJobs.Host/Extensions/IConfigurationExtensions.cs
func (s *settings) connection(name string) (string, error) {
	for _, key := range []string{connectionStrings + "AzureWebJobs" + name, "AzureWebJobs" + name,
		connectionStrings + name, name} {
		if v, ok := s.get(key); ok && v != "" {
			return v, nil
		}
	}
	for _, line := range s.values {
		key, _, _ := strings.Cut(line, "=")
		for _, prefix := range []string{name + "__", "AzureWebJobs" + name + "__"} {
			if len(key) > len(prefix) && strings.EqualFold(key[:len(prefix)], prefix) {
				return "", fmt.Errorf("connection %q is identity-based (%s), which is not supported; want a connection string",
					name, key)
			}
		}
	}
	if name == connstr.DefaultConnection {
		return "UseDevelopmentStorage=true", nil
	}
	return "", fmt.Errorf("connection %q is set neither in the environment nor in %s (Values, ConnectionStrings)", name,
		settingsFile)
}
