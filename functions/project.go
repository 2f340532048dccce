package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// project is the function app of a folder.
type project struct {
	dir       string // absolute
	settings  *settings.Settings
	local     settings.Local
	host      *hostFile
	worker    WorkerApp      // nil: a custom handler
	zone      *time.Location // of timers
	functions []*function    // that are to run
	disabled  []*function
	warnings  []string
	notes     []string
}

// loadProject reads a folder and reports everything that is wrong with it.
func loadProject(ctx context.Context, c Config) (_ *project, err error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the folder %s does not exist", dir)
	}
	var r jsonfile.Report
	p := &project{dir: dir, zone: time.UTC}
	p.settings, p.local = settings.Read(&r, dir, c.Environ)
	if c.CORS != "" {
		p.local.CORS = settings.Origins(c.CORS)
	}
	p.local.CORSCredentials = p.local.CORSCredentials || c.CORSCredentials
	if p.local.CORSCredentials && slices.Contains(p.local.CORS, "*") {
		r.Fail("local.settings.json: Host.CORSCredentials: needs origins by name in CORS or --cors, not *: browsers " +
			"refuse the two together")
	}
	p.addLocalSettings(&r, c)
	p.host, err = readHostFile(&r, dir, p.settings, c.Workers)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no host.json: it is not the folder of a function app", dir)
	}
	if err != nil {
		return nil, errors.Join(append(r.Errs, err)...)
	}
	if _, ok := p.host.levels[hostCategory]; !ok && c.Verbose {
		p.host.levels[hostCategory] = slog.LevelDebug
	}
	if v, ok := p.settings.Get("FUNCTIONS_WORKER_RUNTIME"); ok && p.host.runtime == "" && !strings.EqualFold(v, "custom") {
		r.Warn("FUNCTIONS_WORKER_RUNTIME is %q; custom handlers are run all the same, as if it were custom", v)
	}
	if p.host.runtime != "" {
		p.settings.Set("FUNCTIONS_WORKER_RUNTIME", p.host.runtime)
	}
	functions, err := p.readFunctions(ctx, &r, c)
	if err != nil {
		return nil, err
	}
	p.choose(&r, functions, c.Functions)
	p.warnings, p.notes = r.Warnings, r.Notes
	// A language worker was started to find the functions. It must not outlive an error.
	if err = errors.Join(r.Errs...); err != nil {
		if p.worker != nil {
			p.worker.Close()
		}
		return nil, err
	}
	if p.worker != nil {
		p.worker.Load(p.loads())
	}
	return p, nil
}

// readFunctions returns the functions of the app: those that its language worker finds, or those of its folders.
func (p *project) readFunctions(ctx context.Context, r *jsonfile.Report, c Config) ([]*function, error) {
	read := func(own *jsonfile.Report, file *jsonfile.Section, name string) *function {
		f := readFunction(file, name, p.dir, p.settings, p.host)
		f.errs = own.Errs
		// A function that cannot run is left out with its errors, and the others run, unless it was asked for by its name.
		if wanted := p.wanted(f, c.Functions); wanted && (len(f.errs) == 0 || len(c.Functions) > 0) {
			r.Add(own)
		}
		if len(f.errs) > 0 || f.trigger == nil {
			f.trigger, f.route = &binding{kind: "not supported"}, nil
		}
		return f
	}
	if p.host.runtime == "" {
		return readFunctions(r, p.dir, p.host, read)
	}
	// No worker is started for an app that cannot run.
	if len(r.Errs) > 0 {
		return nil, errors.Join(r.Errs...)
	}
	processes := 1
	if v, ok := p.settings.Get("FUNCTIONS_WORKER_PROCESS_COUNT"); ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxProcesses {
			return nil, fmt.Errorf("FUNCTIONS_WORKER_PROCESS_COUNT: want 1 to %d, got %q", maxProcesses, v)
		}
		processes = n
	}
	app, err := c.Workers.Open(ctx, WorkerSettings{
		Runtime: p.host.runtime, Dir: p.dir, Environ: p.environ(), Processes: processes,
		Level: p.host.levels.least, Logger: c.Logger, Stdout: c.Stdout, Stderr: c.Stderr,
	})
	if err != nil {
		return nil, err
	}
	p.worker = app
	found, indexed := app.Functions()
	if !indexed {
		return readFunctions(r, p.dir, p.host, read)
	}
	var list []*function
	for _, w := range found {
		text, err := json.Marshal(map[string]any{"bindings": w.Bindings})
		if w.Retry != nil {
			text, err = json.Marshal(map[string]any{"bindings": w.Bindings, "retry": w.Retry})
		}
		var file *jsonfile.Section
		own := &jsonfile.Report{}
		if err == nil {
			file, err = jsonfile.Parse(own, "function "+w.Name, "", text)
		}
		if err != nil {
			list = append(list, unreadable(w.Name, fmt.Errorf("function %s: %w", w.Name, err)))
			continue
		}
		f := read(own, file, w.Name)
		f.source = w
		list = append(list, f)
	}
	return list, nil
}

// environ is the environment of a language worker: the settings, of which those whose names have colons also have the
// names by which .NET reads them from variables. The storage libraries for Python do not know UseDevelopmentStorage.
func (p *project) environ() []string {
	list := slices.Clone(p.settings.Values)
	for _, line := range p.settings.Values {
		name, value, _ := strings.Cut(line, "=")
		variable := strings.ReplaceAll(name, ":", "__")
		if _, set := p.settings.Get(variable); !set {
			list = append(list, variable+"="+value)
		}
	}
	if full, err := connstr.Parse(connstr.Development); err == nil && p.host.runtime == "python" {
		for i, line := range list {
			if name, value, _ := strings.Cut(line, "="); isDevelopment(value) {
				list[i] = name + "=" + full.Reveal()
			}
		}
	}
	return list
}

// isDevelopment reports whether a setting is the short connection string of the development account.
func isDevelopment(value string) bool {
	return strings.TrimSuffix(strings.TrimSpace(value), ";") == connstr.Development
}

// maxProcesses is the largest FUNCTIONS_WORKER_PROCESS_COUNT, as in Azure.
const maxProcesses = 10

// loads returns the functions that are to run as the worker knows them.
func (p *project) loads() []WorkerFunction {
	var list []WorkerFunction
	for _, f := range p.functions {
		list = append(list, f.source)
	}
	return list
}

// addLocalSettings adds the settings that a host on a developer's machine adds.
func (p *project) addLocalSettings(r *jsonfile.Report, c Config) {
	s := p.settings
	if v, _ := s.Get(connstr.DefaultConnection); v == "" {
		s.Set(connstr.DefaultConnection, connstr.Development)
	}
	if c.ConnectionString != "" {
		for _, line := range slices.Clone(s.Values) {
			if name, value, _ := strings.Cut(line, "="); isDevelopment(value) {
				s.Set(name, c.ConnectionString)
			}
		}
	}
	if v, _ := s.Get("AZURE_FUNCTIONS_ENVIRONMENT"); v == "" {
		s.Set("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
	}
	if name, ok := s.Get("WEBSITE_TIME_ZONE"); ok && name != "" {
		// time.LoadLocation takes "Local" for the machine's zone, which differs from one instance to the next.
		zone, err := time.LoadLocation(name)
		if err != nil || strings.EqualFold(name, "local") {
			r.Fail("WEBSITE_TIME_ZONE: %q is not the name of a time zone of the IANA database, such as Europe/Berlin; names "+
				"of Windows are not supported", name)
		} else {
			p.zone = zone
		}
	}
	if _, ok := s.Get("WEBSITE_HOSTNAME"); !ok && c.Port != 0 {
		s.Set("WEBSITE_HOSTNAME", "localhost:"+strconv.Itoa(c.Port))
	}
	s.Set("FUNCTIONS_APP_ROOT_PATH", p.dir)
}

// wanted reports whether a function is to run: it is not disabled, and in the lists of functions that there are. What
// is wrong with others does not matter.
func (p *project) wanted(f *function, only []string) bool {
	return !f.disabled && (p.host.functions == nil || contains(p.host.functions, f.name)) &&
		(len(only) == 0 || contains(only, f.name))
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// choose removes functions that are disabled, or not in a list of functions, and those that cannot run: the others of
// the app do, as in Azure. If none can run, the app cannot.
func (p *project) choose(r *jsonfile.Report, all []*function, only []string) {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.name)
	}
	for _, name := range only {
		if !contains(names, name) {
			r.Fail("no function is called %q; there are: %s", name, strings.Join(names, ", "))
		}
	}
	var errs []error
	for _, f := range all {
		switch wanted := p.wanted(f, only); {
		case wanted && len(f.errs) == 0:
			p.functions = append(p.functions, f)
			continue
		case wanted:
			errs = append(errs, f.errs...)
			r.Warn("the function %s cannot run: %v", f.name, errors.Join(f.errs...))
		default:
			f.errs = nil // It is not to run; what is wrong with it does not matter.
		}
		p.disabled = append(p.disabled, f)
	}
	if len(errs) > 0 && len(p.functions) == 0 && len(only) == 0 {
		r.Errs = append(r.Errs, errs...)
	}
	if len(all) == 0 && len(r.Errs) == 0 {
		r.Fail("%s has no functions: none of its folders holds a function.json%s", p.dir, p.noneIndexed())
	} else if len(p.functions) == 0 && len(r.Errs) == 0 {
		r.Fail("every function is disabled or not chosen: %s", strings.Join(names, ", "))
	}
}

// noneIndexed adds to an error what was looked for besides files.
func (p *project) noneIndexed() string {
	if p.worker == nil {
		return ""
	}
	if p.host.runtime == "node" && !namesCode(p.dir) {
		return `, and package.json has no "main", such as "src/functions/*.js", which says where its code is`
	}
	return ", and its code registers none"
}

// namesCode reports whether the package.json of a folder names the files that register functions. The worker loads no
// others, and reports a file that cannot be read itself.
func namesCode(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return false
	}
	var names struct {
		Main string `json:"main"`
	}
	// The worker has warned of one that is not JSON.
	return json.Unmarshal(text, &names) != nil || names.Main != ""
}

// hostID names the app in the storage account. It stays the same for as long as the folder stays where it is.
func (p *project) hostID() string {
	if id, ok := p.settings.Get("AzureFunctionsWebHost__hostid"); ok && id != "" {
		return strings.ToLower(id)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.dir))
	return fmt.Sprintf("lazuli-func-%016x", h.Sum64())
}

// about names the app for lists of processes: its folder and language.
func (p *project) about() string {
	language := "custom handler"
	if p.worker != nil {
		_, language, _ = languageOf(p.dir, p.settings)
	}
	return "function app " + filepath.Base(p.dir) + ", " + language
}
