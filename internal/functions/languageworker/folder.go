package languageworker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/lazuli-storage/lazuli/functions"
)

// configFile describes the worker of a folder.
// https://github.com/Azure/azure-functions-host (RpcWorkerConfigFactory, RpcWorkerDescription)
const configFile = "worker.config.json"

// maxConfig bounds a configFile, in bytes.
const maxConfig = 256 << 10

// workerConfig is a configFile.
type workerConfig struct {
	Description description
	Profiles    []profile
	folder      string
}

// description says how a worker is started. A profile's replaces the members that it has.
type description struct {
	Language              string
	DefaultExecutablePath string
	DefaultWorkerPath     string
	DefaultRuntimeVersion string
	// The versions, systems and architectures that the tokens of DefaultWorkerPath may become.
	SupportedRuntimeVersions, SupportedOperatingSystems, SupportedArchitectures []string
	SanitizeRuntimeVersionRegex                                                 string
	// Arguments come before DefaultWorkerPath, and WorkerArguments after it.
	Arguments, WorkerArguments []string
	WorkerIndexing             truth
	IsDisabled                 truth
}

// truth is true or false, which may be text.
type truth bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *truth) UnmarshalJSON(text []byte) error {
	*f = truth(strings.EqualFold(strings.Trim(string(text), `"`), "true"))
	return nil
}

// profile replaces members of the description if all of its conditions hold.
type profile struct {
	ProfileName string
	Conditions  []condition
	Description json.RawMessage
}

type condition struct{ ConditionType, ConditionName, ConditionExpression string }

// readConfig reads the configFile of a folder.
func readConfig(folder string) (*workerConfig, error) {
	name := filepath.Join(folder, configFile)
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("%s: %d bytes are too many; at most %d", name, info.Size(), maxConfig)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// The Functions host accepts comments. A text that is not even that keeps its form, so that the error has its lines.
	if plain, err := hujson.Standardize(text); err == nil {
		text = plain
	}
	c := &workerConfig{folder: folder}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, plainJSON(text, err))
	}
	return c, nil
}

// plainJSON says what is wrong with a text of JSON in the words of its author: the line, or the member with a value of
// another kind.
func plainJSON(text []byte, err error) error {
	syntax, kind := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		return fmt.Errorf("it is not JSON, line %d: %w", line, err)
	case errors.As(err, &kind):
		want := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "an object", reflect.String: "a text"}
		where := "it is"
		if kind.Field != "" {
			parts := strings.Split(kind.Field, ".")
			for i, part := range parts {
				parts[i] = strings.ToLower(part[:1]) + part[1:]
			}
			where = strings.Join(parts, ".") + " is"
		}
		got := strings.NewReplacer("array", "list", "string", "text").Replace(kind.Value)
		return fmt.Errorf("%s of the kind %s, want %s", where, got, want[kind.Type.Kind()])
	}
	return err
}

// apply replaces members of the description by those of the first profile whose conditions hold.
func (c *workerConfig) apply(s functions.WorkerSettings) error {
	for _, p := range c.Profiles {
		holds, err := p.holds(s)
		if err != nil {
			return fmt.Errorf("%s: profile %s: %w", filepath.Join(c.folder, configFile), p.ProfileName, err)
		}
		if !holds {
			continue
		}
		if len(p.Description) == 0 {
			// The first profile that holds counts, as in the Functions host; the rest is not looked at.
			return nil
		}
		own := c.Description
		own.Arguments, own.WorkerArguments = nil, nil // Lists are replaced, not extended.
		if err := json.Unmarshal(p.Description, &own); err != nil {
			return fmt.Errorf("%s: profile %s: %w", filepath.Join(c.folder, configFile), p.ProfileName,
				plainJSON(p.Description, err))
		}
		if own.Arguments == nil {
			own.Arguments = c.Description.Arguments
		}
		if own.WorkerArguments == nil {
			own.WorkerArguments = c.Description.WorkerArguments
		}
		c.Description = own
		return nil
	}
	return nil
}

// holds reports whether all conditions of a profile hold. A condition of an unknown type never does.
func (p *profile) holds(s functions.WorkerSettings) (bool, error) {
	for _, c := range p.Conditions {
		expression, err := regexp.Compile(c.ConditionExpression)
		if err != nil {
			return false, fmt.Errorf("the expression of the condition %s: %w", c.ConditionName, err)
		}
		value := ""
		switch strings.ToLower(c.ConditionType) {
		case "environment":
			value = setting(s, c.ConditionName)
		case "hostproperty":
			switch strings.ToLower(c.ConditionName) {
			case "platform":
				value = platform()
			case "hostversion":
				value = functions.HostVersion
			case "sku":
				value = setting(s, "WEBSITE_SKU")
			}
		}
		// An expression such as .* would match a variable that is not set; the Functions host calls that no match.
		if value == "" || !expression.MatchString(value) {
			return false, nil
		}
	}
	return true, nil
}

// platform is the system's name in the Functions host.
func platform() string {
	switch runtime.GOOS {
	case "windows":
		return "WINDOWS"
	case "darwin":
		return "OSX"
	}
	return strings.ToUpper(runtime.GOOS)
}

// architecture is the processor's name in .NET.
func architecture() string {
	switch runtime.GOARCH {
	case "amd64":
		return "X64"
	case "386":
		return "X86"
	}
	return strings.ToUpper(runtime.GOARCH[:1]) + runtime.GOARCH[1:]
}

// versionToken is replaced by the runtime's version in the path of a worker.
const versionToken = "%FUNCTIONS_WORKER_RUNTIME_VERSION%"

// command returns what starts the worker. Settings name another executable, and more arguments for it.
// https://learn.microsoft.com/azure/azure-functions/functions-app-settings#languageworkers__arguments
func (c *workerConfig) command(r Runtime, s functions.WorkerSettings) (*command, error) {
	where := filepath.Join(c.folder, configFile)
	// The profile first: it may replace every field that is read below.
	if err := c.apply(s); err != nil {
		return nil, err
	}
	d := c.Description
	switch {
	case d.Language == "":
		return nil, fmt.Errorf("%s: description.language is missing", where)
	// The folder may be of another language than the app; starting it would fail in the first call, with a worse reason.
	case !strings.EqualFold(d.Language, s.Runtime):
		return nil, fmt.Errorf("%s: it is a worker for %q, and the app's FUNCTIONS_WORKER_RUNTIME is %q", where, d.Language,
			s.Runtime)
	case bool(d.IsDisabled):
		return nil, fmt.Errorf("%s: the worker is disabled (isDisabled)", where)
	}
	if own := languageSetting(s, "defaultExecutablePath"); own != "" {
		d.DefaultExecutablePath = own
	}
	if own := languageSetting(s, "defaultRuntimeVersion"); own != "" {
		d.DefaultRuntimeVersion = own
	}
	if d.DefaultExecutablePath == "" {
		return nil, fmt.Errorf("%s: description.defaultExecutablePath is missing", where)
	}
	started := &command{folder: c.folder, indexes: bool(d.WorkerIndexing)}
	var err error
	if started.path, err = c.executable(r, s, d.DefaultExecutablePath); err != nil {
		return nil, err
	}
	worker, err := d.workerPath(c.folder, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	// In the host's order: arguments of the executable, those of the setting, the worker's file, arguments of the worker.
	text := strings.Join(append(slices.Clone(d.Arguments), languageSetting(s, "arguments")), " ")
	started.arguments = c.split(text, s)
	if worker != "" {
		started.arguments = append(started.arguments, worker)
	}
	started.arguments = append(started.arguments, c.split(strings.Join(d.WorkerArguments, " "), s)...)
	started.environ = []string{"FUNCTIONS_WORKER_DIRECTORY=" + c.folder, "FUNCTIONS_APPLICATION_DIRECTORY=" + s.Dir,
		"AzureWebJobsScriptRoot=" + s.Dir}
	return started, nil
}

// workerPath returns the path of the worker's program, which is the executable's first own argument. Empty: it has
// none.
func (d *description) workerPath(folder string, s functions.WorkerSettings) (string, error) {
	if d.DefaultWorkerPath == "" {
		return "", nil
	}
	version := d.DefaultRuntimeVersion
	if own := setting(s, "FUNCTIONS_WORKER_RUNTIME_VERSION"); own != "" {
		version = own
		if d.SanitizeRuntimeVersionRegex != "" {
			expression, err := regexp.Compile(d.SanitizeRuntimeVersionRegex)
			if err != nil {
				return "", fmt.Errorf("sanitizeRuntimeVersionRegex: %w", err)
			}
			if version = expression.FindString(own); version == "" {
				return "", fmt.Errorf("the version %s (FUNCTIONS_WORKER_RUNTIME_VERSION) does not match the expression %s", own,
					d.SanitizeRuntimeVersionRegex)
			}
		}
	}
	path := d.DefaultWorkerPath
	// A token must be one of the supported values, since it comes from a setting and becomes a part of a path.
	for _, token := range []struct {
		text, value, what string
		supported         []string
	}{
		{"{os}", platform(), "the operating system", d.SupportedOperatingSystems},
		{"{architecture}", architecture(), "the architecture", d.SupportedArchitectures},
		{versionToken, version, "the version", d.SupportedRuntimeVersions},
	} {
		if !strings.Contains(path, token.text) {
			continue
		}
		if !slices.ContainsFunc(token.supported, func(v string) bool { return strings.EqualFold(v, token.value) }) {
			return "", fmt.Errorf("%s %q is not one of those that the worker supports: %s", token.what, token.value,
				strings.Join(token.supported, ", "))
		}
		path = strings.ReplaceAll(path, token.text, token.value)
	}
	path = expand(path, s)
	if token := unset().FindString(path); token != "" {
		return "", fmt.Errorf("the variable %s in defaultWorkerPath is not set", token)
	}
	if token := unknown().FindString(path); token != "" {
		return "", fmt.Errorf("the token %s in defaultWorkerPath is not known; there are {os}, {architecture}, %s and %%NAME%% "+
			"for a variable", token, versionToken)
	}
	if path = filepath.FromSlash(path); !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if !exists(path) {
		return "", fmt.Errorf("the file %s (defaultWorkerPath) does not exist", path)
	}
	return path, nil
}

// split expands an argument's text and takes it apart.
func (c *workerConfig) split(text string, s functions.WorkerSettings) []string {
	// A variable without a value vanishes from an argument. In a path it is an error: workerPath.
	text = strings.ReplaceAll(text, "{workerDirectoryPath}", c.folder)
	return splitArguments(unset().ReplaceAllString(expand(text, s), ""))
}

// expand replaces every %NAME% by the setting of that name. One that is not set stays.
func expand(text string, s functions.WorkerSettings) string {
	return unset().ReplaceAllStringFunc(text, func(token string) string {
		if value, ok := lookup(s, strings.Trim(token, "%")); ok {
			return value
		}
		return token
	})
}

// splitArguments takes a command line apart as .NET does for Process.Start: at white space outside of quotation marks;
// backslashes before a quotation mark are pairs, and an odd one makes the mark a character.
func splitArguments(text string) []string {
	var list []string
	var b strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			n := 0
			for i+n < len(text) && text[i+n] == '\\' {
				n++
			}
			begun = true
			// Backslashes that no quotation mark follows are themselves: paths of Windows have them.
			if i+n == len(text) || text[i+n] != '"' {
				b.WriteString(text[i : i+n])
				i += n - 1
				continue
			}
			b.WriteString(strings.Repeat(`\`, n/2))
			i += n - 1
			if n%2 == 1 {
				b.WriteByte('"')
				i++
			}
		case c == '"':
			quoted, begun = !quoted, true
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			// Not b.Len(): "" in quotation marks is an argument without characters.
			if begun {
				list = append(list, b.String())
				b.Reset()
				begun = false
			}
		default:
			b.WriteByte(c)
			begun = true
		}
	}
	if begun {
		list = append(list, b.String())
	}
	return list
}

// findFolder returns the folder with the worker of an app, and "" if it is one of the workers of this package: the one
// that languageWorkers:RUNTIME:workerDirectory names, one of the folders of languageWorkers:workersDirectory, the app's
// own folder, as that of a .NET app is, or a folder of installed Core Tools.
func findFolder(s functions.WorkerSettings) (string, error) {
	if folder := languageSetting(s, "workerDirectory"); folder != "" {
		if folder = expand(folder, s); !filepath.IsAbs(folder) {
			folder = filepath.Join(s.Dir, folder)
		}
		if !exists(folder, configFile) {
			return "", fmt.Errorf("languageWorkers__%s__workerDirectory: %s has no %s", s.Runtime, folder, configFile)
		}
		return folder, nil
	}
	var parents []string
	if parent := anySetting(s, "languageWorkers", "workersDirectory"); parent != "" {
		parents = append(parents, expand(parent, s))
	}
	// Before the folders of Core Tools: the output of a build has the worker that it was compiled with.
	if languageOf(s.Dir) == strings.ToLower(s.Runtime) {
		return s.Dir, nil
	}
	// For Python and Node.js the workers here are used also where Core Tools are installed, unless a setting says
	// otherwise.
	if _, own := programFolders[strings.ToLower(s.Runtime)]; !own {
		parents = append(parents, coreTools(s)...)
	}
	for _, parent := range parents {
		entries, err := os.ReadDir(parent)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, e := range entries {
			if folder := filepath.Join(parent, e.Name()); languageOf(folder) == strings.ToLower(s.Runtime) {
				return folder, nil
			}
		}
	}
	if _, own := programFolders[strings.ToLower(s.Runtime)]; own {
		return "", nil
	}
	return "", missingWorker(s)
}

// languageOf returns the language of the worker in a folder, in lower case, or "".
func languageOf(folder string) string {
	c, err := readConfig(folder)
	if err != nil {
		return ""
	}
	return strings.ToLower(c.Description.Language)
}

// coreTools are the folders where an installation of Azure Functions Core Tools has its workers.
func coreTools(s functions.WorkerSettings) []string {
	list := []string{"/usr/lib/azure-functions-core-tools-4/workers", "/usr/lib/azure-functions-core-tools/workers",
		"/usr/local/lib/node_modules/azure-functions-core-tools/bin/workers",
		"/usr/lib/node_modules/azure-functions-core-tools/bin/workers",
		"/opt/homebrew/opt/azure-functions-core-tools@4/workers", "/usr/local/opt/azure-functions-core-tools@4/workers"}
	if files := setting(s, "ProgramFiles"); files != "" && runtime.GOOS == "windows" {
		list = append(list, filepath.Join(files, "Microsoft", "Azure Functions Core Tools", "workers"))
	}
	if roaming := setting(s, "APPDATA"); roaming != "" && runtime.GOOS == "windows" {
		list = append(list, filepath.Join(roaming, "npm", "node_modules", "azure-functions-core-tools", "bin", "workers"))
	}
	return list
}

// missingWorker says what an app lacks whose worker was not found.
func missingWorker(s functions.WorkerSettings) error {
	switch strings.ToLower(s.Runtime) {
	case "dotnet-isolated":
		return fmt.Errorf("%s has no %s: it is not the output of a build; run `dotnet build` in the project's folder, then "+
			"start bin/Debug/TARGET, or `dotnet publish` and start the published folder", s.Dir, configFile)
	case "dotnet":
		return errors.New("apps of the in-process model run in the .NET host of Azure Functions alone; move the app to the " +
			"isolated worker model (FUNCTIONS_WORKER_RUNTIME=dotnet-isolated), which runs here")
	}
	where := "Azure Functions Core Tools have one for Java and PowerShell"
	if strings.EqualFold(s.Runtime, "java") {
		where = "Azure Functions Core Tools have it in workers/java, and its source is github.com/Azure/azure-functions-java-worker"
	}
	return fmt.Errorf("the worker for %s is missing: set languageWorkers__%s__workerDirectory to a folder with a "+
		"worker.config.json; %s", s.Runtime, s.Runtime, where)
}

// languageSetting returns a setting of the app's language.
func languageSetting(s functions.WorkerSettings, name string) string {
	return anySetting(s, "languageWorkers", s.Runtime, name)
}

// anySetting returns a setting of a path, whose parts are separated by colons or two underscores.
func anySetting(s functions.WorkerSettings, path ...string) string {
	if value := setting(s, strings.Join(path, "__")); value != "" {
		return value
	}
	return setting(s, strings.Join(path, ":"))
}
