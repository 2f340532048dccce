package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/funcapp"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"

	_ "time/tzdata"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/functions/languageworker"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/otelfunc"
)

// WEBSITE_TIME_ZONE works where the system has no time zones, as in the image

// newFuncCommand makes `lazuli func`.
func newFuncCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "func",
		Short: "Write and run function apps of Azure Functions: Python, JavaScript, TypeScript, .NET, Java, custom handlers",
		// Tools ask for the version of Core Tools, and look at its major part.
		Version: functions.HostVersion,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.AddCommand(newFuncInitCommand(), newFuncNewCommand(), newFuncStartCommand(m), newFuncHostCommand(m),
		newFuncExtensionsCommand())
	return cmd
}

// newFuncHostCommand makes `lazuli func host start`, an older name of `func start` that editors use.
func newFuncHostCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: "The same as func start: func host start", Hidden: true}
	cmd.AddCommand(newFuncStartCommand(m))
	return cmd
}

// newFuncExtensionsCommand makes `lazuli func extensions install`, which scripts of package.json call.
func newFuncExtensionsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "extensions", Short: "Nothing to install: bindings are built in", Hidden: true}
	cmd.AddCommand(&cobra.Command{Use: "install", Short: cmd.Short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "bindings are built in: nothing is to be installed")
			return err
		}})
	return cmd
}

type funcFlags struct {
	dir, host string
	admin     string
	port      int
	functions []string
	lease     time.Duration
	drain     time.Duration
	logFormat string
	python    string
	debug     int
	keys      string
	storage   bool
	watch     bool
	verbose   bool
	cors      string

	allowHosts []string

	corsCredentials, enableAuth, noBuild bool
}

// defaultFuncPort is the Core Tools' port.
const defaultFuncPort = 7071

func newFuncStartCommand(m *Main) *cobra.Command {
	var f funcFlags
	cmd := &cobra.Command{
		Use:   "start [FOLDER]",
		Short: "Run the function app of a folder",
		Long: `Run the function app of a folder: host.json, local.settings.json, and functions in Python, JavaScript or TypeScript, or a
folder with a function.json for each function; or the output of a build of a .NET app (isolated worker), whose source is built first
with the dotnet on the path; or target/azure-functions/NAME of a Java app, whose source is built with mvn, with a worker for Java.

The command starts a worker of the app's language, or the handler that host.json names (customHandler), with the settings in its
environment, and restarts it if it exits. Queue, blob and timer triggers use the storage account of their connection; UseDevelopmentStorage=true means the Lazuli
server on this machine, --storage or --connection-string. HTTP triggers are at http://localhost:7071/api/... and need no keys, as with the
Core Tools; with --keys they do, as in Azure.

SIGINT or SIGTERM lets running invocations finish, within --drain-timeout; a second signal ends the process at once, and
its messages are delivered again when their leases end.`,
		Example: `  lazuli func start
  lazuli func start examples/functions/python --port 7072
  curl -d '{"input": "a message"}' http://localhost:7071/admin/functions/QueueTrigger`,
	}
	connection := target.OverrideFlag(cmd, "the settings of the functions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("functions") { // Core Tools take names separated by spaces.
			args = slices.DeleteFunc(args, func(name string) bool {
				info, err := os.Stat(name)
				if err == nil && info.IsDir() {
					return false
				}
				f.functions = append(f.functions, name)
				return true
			})
		}
		if len(args) > 1 {
			return console.Usagef("give one folder")
		}
		if len(args) == 1 {
			if cmd.Flags().Changed("dir") || cmd.Flags().Changed("script-root") {
				return console.Usagef("give the folder as the argument or with --dir, not both")
			}
			f.dir = args[0]
		}
		if f.enableAuth && f.keys == "" {
			f.keys = filepath.Join(f.dir, funcapp.StorageFolder, "keys.json")
		}
		return runFunc(cmd, m.Environ, connection(), f)
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", ".", "folder of the function app")
	fl.StringVar(&f.host, "host", "127.0.0.1",
		"address to listen on for HTTP triggers; other than a loopback address only with --keys")
	fl.IntVarP(&f.port, "port", "p", defaultFuncPort, "port to listen on for HTTP triggers; 0 picks a free one")
	fl.StringVar(&f.python, "python", "", "Python interpreter of a Python app (default: that of .venv, or python3)")
	fl.IntVar(&f.debug, "debug", 0,
		"port on 127.0.0.1 for a debugger, with one worker process: Python waits for it; 0 means none")
	fl.StringSliceVar(&f.functions, "functions", nil, "functions to run (default: all)")
	fl.DurationVar(&f.lease, "lease", time.Minute,
		"lease of received messages, renewed at half: the time until they are delivered again if this process dies; whole "+
			"seconds")
	fl.DurationVar(&f.drain, "drain-timeout", 30*time.Second, "time limit for running invocations when the process stops")
	fl.StringVar(&f.admin, "admin", "",
		"address for metrics and \"lazuli workers\", host:port; other than a loopback address only with a token in "+
			"LAZULI_ADMIN_TOKEN (default: none)")
	fl.StringVar(&f.keys, "keys", "",
		"file with the keys that HTTP requests need, by the authLevel of the function; created if it does not exist "+
			"(default: requests need no keys)")
	fl.BoolVar(&f.storage, "storage", false,
		"serve storage as well, on ports 10000 to 10002, with the data in the app's folder "+funcapp.StorageFolder)
	fl.BoolVar(&f.watch, "watch", false, "restart the app when its files change")
	fl.StringVar(&f.logFormat, "log-format", "console", "console, the lines of Core Tools; text or json")
	fl.BoolVar(&f.verbose, "verbose", false, "log the host's own activity in detail")
	fl.StringVar(&f.cors, "cors", "",
		"allowed CORS origins, separated by commas, or * (default: Host.CORS of local.settings.json)")
	fl.StringSliceVar(&f.allowHosts, "allow-host", nil,
		"further host names to accept while requests need no keys, besides addresses and localhost: that of a "+
			"tunnel, for instance")
	fl.BoolVar(&f.corsCredentials, "cors-credentials", false, "allow credentials, such as cookies, in CORS requests")
	// Those of Core Tools that scripts and editors give.
	fl.BoolVar(&f.enableAuth, "enableAuth", false, "the same as --keys .lazuli/keys.json in the app's folder")
	fl.BoolVar(&f.noBuild, "no-build", false, "do not build a .NET or Java project; start its last build")
	fl.StringVar(&f.dir, "script-root", ".", "the same as --dir")
	for _, name := range []string{"enableAuth", "script-root"} {
		fl.Lookup(name).Hidden = true
	}
	return cmd
}

// runFunc runs until the command's context is done.
func runFunc(cmd *cobra.Command, environ []string, connectionString string, f funcFlags) (failed error) {
	log, err := workerproc.NewLog(cmd.ErrOrStderr(), f.logFormat, slog.LevelDebug-4) // host.json has the levels
	if err != nil {
		return err
	}
	if connectionString != "" {
		if _, err := connstr.Parse(connectionString); err != nil {
			return console.Usage(err)
		}
	}
	if f.keys != "" {
		if err := disk.MkdirAll(filepath.Dir(f.keys), 0o700); err != nil {
			return fmt.Errorf("func start: --keys: %w", err)
		}
	}
	if f.storage {
		if connectionString != "" {
			return console.Usagef("func start: --storage and --connection-string exclude each other")
		}
		stack, err := funcapp.StartStorage(cmd.Context(), f.dir, log)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, stack.Stop(context.WithoutCancel(cmd.Context()))) }()
		connectionString = stack.ConnectionString()
	}
	run := func(ctx context.Context) error { return runApp(ctx, cmd, environ, connectionString, f, log) }
	if f.watch {
		return funcapp.Watch(cmd.Context(), f.dir, log, run)
	}
	return run(cmd.Context())
}

// runApp runs the app of a folder until ctx is done.
func runApp(ctx context.Context, cmd *cobra.Command, environ []string, connectionString string, f funcFlags,
	log *slog.Logger) error {
	dir, err := funcapp.Build(ctx, f.dir, f.noBuild, cmd.ErrOrStderr())
	if err != nil {
		return console.Usage(err)
	}
	f.dir = dir
	port := f.port
	if own := functions.LocalPort(f.dir); own != 0 && !cmd.Flags().Changed("port") {
		port = own
	}
	address := net.JoinHostPort(f.host, strconv.Itoa(port))
	// Without keys any client may run any function, by the admin API.
	if err := exposure.Check("func start: --host", address, f.keys, "give --keys FILE"); err != nil {
		return console.Usage(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("func start: %w (choose another port with --port)", err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	host, err := functions.Load(ctx, functions.Config{
		Dir: f.dir, Port: port, Environ: environ, ConnectionString: connectionString, Functions: f.functions, Logger: log,
		Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(), Lease: f.lease, DrainTimeout: f.drain,
		Middleware: []workers.Middleware{otelfunc.Middleware()}, Durable: durablefunc.Runtime{},
		Workers: languageworker.Runtime{Python: f.python, Debug: f.debug}, Keys: f.keys,
		Verbose: f.verbose, CORS: f.cors, CORSCredentials: f.corsCredentials, AllowHosts: f.allowHosts,
	})
	if err != nil {
		return console.Usage(errors.Join(fmt.Errorf("func start: %w", err), l.Close()))
	}
	defer host.Close() // Of a host that is not run.
	for _, n := range host.Notes() {
		log.Info(n)
	}
	for _, w := range host.Warnings() {
		log.Warn(w)
	}
	stopTraces, err := workerproc.StartTraces(ctx, "lazuli-func", log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stopTraces()
	stopAdmin, err := workerproc.ServeAdmin(f.admin, host.App(), nil, functions.NewStatusHandler(host), log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stopAdmin()
	address = "localhost:" + strconv.Itoa(port)
	if err := announce(cmd.OutOrStdout(), address, host.Describe(address)); err != nil {
		return err
	}
	if err := host.Run(ctx, l); err != nil {
		return err
	}
	for _, s := range host.App().Stats() {
		log.Info("function stopped", "function", s.Name, "succeeded", s.Succeeded, "failed", s.Failed, "poisoned", s.Poisoned)
	}
	return nil
}

func announce(w io.Writer, address string, functions []string) error {
	text := "Functions:\n\n"
	for _, line := range functions {
		text += "  " + line + "\n"
	}
	_, err := fmt.Fprintf(w, "%s\nListening on http://%s. Press Ctrl-C to stop.\n", text, address)
	return err
}

func newFuncInitCommand() *cobra.Command {
	var language, runtime, model string
	var short []*bool // --python for --language python, as Core Tools have it
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write the files of a new function app to a folder",
		Long: `Write the files of a new function app in Python (model v2), JavaScript or TypeScript (model v4), or C# (isolated worker) to a
folder: host.json, local.settings.json and those of the language. Files that exist already are left as they are; --force
replaces them.`,
		Example: `  lazuli func init shop --language typescript`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			for i, given := range short {
				if *given {
					language = funcapp.Languages[i].Name
				}
			}
			l, err := funcapp.Choose(language, runtime)
			if err != nil {
				return console.Usage(err)
			}
			if own := funcapp.Languages[l].Model; model != "" && !strings.EqualFold(model, own) {
				return console.Usagef("func init: --model %s: the templates for %s are of model %s", model,
					funcapp.Languages[l].Name, own)
			}
			return funcapp.Init(cmd.OutOrStdout(), dir, l, force)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&language, "language", "", "python, javascript, typescript, csharp or java")
	fl.StringVar(&runtime, "worker-runtime", "", "as for Core Tools: python, node, dotnet-isolated, java, or a language")
	fl.StringVar(&model, "model", "", "as for Core Tools: V2 for Python, V4 for JavaScript and TypeScript")
	for _, l := range funcapp.Languages {
		short = append(short, fl.Bool(l.Name, false, "the same as --language "+l.Name))
	}
	for _, name := range []string{"model", "python", "javascript", "typescript", "csharp", "java"} {
		fl.Lookup(name).Hidden = true
	}
	fl.BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

func newFuncNewCommand() *cobra.Command {
	var name, template, level, dir string
	cmd := &cobra.Command{
		Use:   "new [NAME]",
		Short: "Add a function to an app",
		Long: `Add a function to an app in Python (model v2: function_app.py), JavaScript or TypeScript (model v4: src/functions), C# or Java.
The templates are ` + funcapp.TemplateNames() + `; their names in Core Tools, such as "HTTP trigger", work as
well.`,
		Example: `  lazuli func new hello --template http`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				name = args[0]
			}
			text, err := funcapp.New(dir, name, template, level)
			if err != nil {
				// Every error of New is one of the arguments or the folder; nothing is half written, since it looks before it
				// writes.
				return console.Usagef("func new: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&name, "name", "n", "", "name of the function")
	fl.StringVarP(&template, "template", "t", "", "template: "+funcapp.TemplateNames())
	fl.StringVarP(&level, "authlevel", "a", "function",
		"authorization level of an HTTP function: anonymous, function or admin")
	fl.StringVar(&dir, "dir", ".", "folder of the function app")
	return cmd
}
