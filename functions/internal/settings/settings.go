// Package settings has the app settings of a function app: the environment of the process, and below it the file
// local.settings.json of the app's folder. It finds settings as .NET does, puts them into texts in place of %NAME%, and
// knows by which settings a binding names a storage account.
//
// Start with Read, which also returns what the file says to the host itself.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// File is the name of the file with the settings.
const File = "local.settings.json"

// Settings are the app settings: the environment, and below it the Values of local.settings.json, as with the Core
// Tools.
type Settings struct{ Values []string } // "name=value"

// Get looks a name up, first as it is and then in any case, as .NET does. In a name of several parts, : and __ are the
// same. https://learn.microsoft.com/dotnet/core/extensions/configuration-providers (environment variables)
func (s *Settings) Get(name string) (string, bool) {
	fold, found := "", false
	for _, line := range s.Values {
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

// overridePrefix begins the names of settings that replace members of host.json:
// AzureFunctionsJobHost__extensions__queues__batchSize, or with : for each __.
// https://learn.microsoft.com/azure/azure-functions/functions-host-json#override-hostjson-values
const overridePrefix = "AzureFunctionsJobHost:"

// Override replaces members of host.json by the settings that name them.
func (s *Settings) Override(file *jsonfile.Section) {
	for _, line := range slices.Sorted(slices.Values(s.Values)) {
		name, value, _ := strings.Cut(line, "=")
		key := sectioned(name)
		if len(key) <= len(overridePrefix) || !strings.EqualFold(key[:len(overridePrefix)], overridePrefix) {
			continue
		}
		file.Override(name, strings.Split(key[len(overridePrefix):], ":"), value)
	}
}

// Set sets a setting, in place of one that has the very name.
func (s *Settings) Set(name, value string) {
	s.Values = slices.DeleteFunc(s.Values, func(line string) bool { return strings.HasPrefix(line, name+"=") })
	s.Values = append(s.Values, name+"="+value)
}

// Expand replaces every %NAME% by the setting. A name that is not set is an error, unless keep is true: then it stays.
func (s *Settings) Expand(text string, keep bool) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "%")
		name, after, closed := strings.Cut(rest, "%")
		if !ok || !closed {
			b.WriteString(text)
			return b.String(), nil
		}
		value, found := s.Get(name)
		switch {
		case found:
			b.WriteString(before + value)
		case keep:
			// The second percent sign may begin another name.
			b.WriteString(before + "%" + name)
			after = "%" + after
		default:
			return "", fmt.Errorf("%%%s%% is set neither in the environment nor in %s (Values)", name, File)
		}
		text = after
	}
}

// Local is the Host section of local.settings.json.
type Local struct {
	Port            int // 0: not said
	CORS            []string
	CORSCredentials bool
}

// Read reads local.settings.json below an environment. The file may be missing.
func Read(r *jsonfile.Report, dir string, environ []string) (*Settings, Local) {
	s := &Settings{Values: slices.Clone(environ)}
	var host Local
	file, err := jsonfile.Read(r, filepath.Join(dir, File), File)
	if errors.Is(err, fs.ErrNotExist) {
		return s, host
	}
	if err != nil {
		r.Errs = append(r.Errs, err)
		return s, host
	}
	if file.Boolean("IsEncrypted", false) {
		file.Fail("IsEncrypted", "not supported: decrypt the file with the Core Tools (func settings decrypt)")
		return s, host
	}
	if values := file.Object("Values"); values != nil {
		for _, m := range values.Members {
			v, _ := values.Scalar(m.Name)
			if _, ok := s.Get(m.Name); !ok { // The environment goes first.
				s.Set(m.Name, v)
			}
		}
	}
	if h := file.Object("Host"); h != nil {
		host.Port = h.Integer("LocalHttpPort", 0, 1, 65535)
		host.CORS = Origins(h.Text("CORS", ""))
		host.CORSCredentials = h.Boolean("CORSCredentials", false)
		h.Done()
	}
	readConnectionStrings(file.Object("ConnectionStrings"), s)
	file.Done()
	return s, host
}

// connectionStrings begins the names of settings that are connection strings.
const connectionStrings = "ConnectionStrings:"

// readConnectionStrings reads the section ConnectionStrings: a text, or an object with the text and a provider's name,
// for each name. They become settings, also of the functions' processes, as with the Core Tools:
// https://github.com/Azure/azure-functions-core-tools/blob/3ee97a6/src/Cli/func/Common/AppSettingsFile.cs
func readConnectionStrings(o *jsonfile.Section, s *Settings) {
	if o == nil {
		return
	}
	for _, m := range o.Members {
		var v string
		if m.Value[0] == '{' {
			one := o.Object(m.Name)
			v = one.Text("ConnectionString", "")
			one.NoEffect("only the program that connects needs it", "ProviderName")
			one.Done()
		} else {
			v, _ = o.Scalar(m.Name)
		}
		if _, ok := s.Get(connectionStrings + m.Name); !ok {
			s.Set(connectionStrings+m.Name, v)
		}
	}
}

// Origins splits a list of origins.
func Origins(list string) (split []string) {
	for origin := range strings.SplitSeq(list, ",") {
		if origin = strings.TrimSuffix(strings.TrimSpace(origin), "/"); origin != "" {
			split = append(split, origin)
		}
	}
	return split
}

// Connection returns the connection string that a binding's "connection" names: with the prefix AzureWebJobs or
// without, each first among the ConnectionStrings.
// https://learn.microsoft.com/azure/azure-functions/functions-reference#connections
// https://github.com/Azure/azure-webjobs-sdk/tree/f79ea0b/src/Microsoft.Azure.WebJobs.Host/Extensions
// (IConfigurationExtensions.cs)
func (s *Settings) Connection(name string) (string, error) {
	for _, key := range []string{connectionStrings + "AzureWebJobs" + name, "AzureWebJobs" + name,
		connectionStrings + name, name} {
		if v, ok := s.Get(key); ok && v != "" {
			return v, nil
		}
	}
	for _, line := range s.Values {
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
		File)
}
