package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/lazuli-storage/lazuli/"

// pkg is the output of `go list` for a package.
type pkg struct {
	ImportPath, Dir, Name     string
	GoFiles, Imports          []string
	TestImports, XTestImports []string
}

// name returns the path below the module.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// listed has the results of list: several tests ask for the same packages, and `go list` takes a second.
var listed sync.Map

// list runs `go list` in the module's folder.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	once, _ := listed.LoadOrStore(strings.Join(args, " "), sync.OnceValues(func() ([]pkg, error) { return goList(args) }))
	packages, err := once.(func() ([]pkg, error))()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(packages)
}

func goList(args []string) (packages []pkg, err error) {
	cmd := exec.Command("go", append([]string{"list", "-e",
		"-json=ImportPath,Dir,Name,GoFiles,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = "../../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// rule restricts the packages that packages may import from this module, or that may import a library.
type rule struct {
	// from and to are patterns of path.Match, or folders ending in "/...".
	from, to string
	// except are patterns of packages that the rule does not apply to.
	except []string
	why    string
}

// testSupport are packages that only tests may import: TestBinaryHasNoTestLibraries checks it.
var testSupport = []string{"internal/test/testaccount", "internal/test/fulldisk"}

var services = []string{"tablesvc", "queuesvc", "blobsvc"}

func rules() []rule {
	list := []rule{
		{from: "internal/...", to: "cmd/...", why: "dependencies point from cmd inwards"},
		{from: "internal/...", to: "workers/...", why: "workers build on internal packages, not the other way round",
			// searchapi is what lazuli and lazuli-search tell each other; its messages come by a queue trigger.
			// The engine of workflows is below workers/durable, and takes the storage and the clock of an app.
			except: append([]string{"internal/functions/...", "internal/searchapi", "internal/durable/hub",
				"internal/durable/inflight", "internal/durable/lease", "internal/durable/sidecar",
				"internal/durable/webhook"}, testSupport...)},
		{from: "internal/...", to: "functions/...", why: "functions build on internal packages, not the other way round",
			except: []string{"internal/functions/..."}},
		{from: "internal/...", to: "lazulitest", why: "a test helper is for tests", except: testSupport},
		{from: "internal/...", to: "server/...",
			why: "the public server is a wall around the assembly in internal/server"},
		{from: "server/...", to: "cmd/...", why: "dependencies point from cmd inwards"},
		{from: "server/...", to: "workers/...", why: "the server serves storage; the command starts roles beside it"},
		{from: "server/...", to: "functions/...", why: "the server serves storage; the command starts functions"},
		{from: "server/...", to: "lazulitest", why: "a test helper is for tests"},
		{from: "workers/...", to: "functions/...", why: "functions run on workers, not the other way round"},
		{from: "lazulitest/...", to: "cmd/...", why: "dependencies point from cmd inwards"},
		{from: "examples/...", to: "internal/...",
			why: "an example shows what a user can write, and users cannot import internal packages"},
	}
	for _, product := range []string{"cmd", "internal", "server", "lazulitest", "workers", "functions", "tablesvc",
		"queuesvc", "blobsvc"} {
		list = append(list, rule{from: product + "/...", to: "examples/...",
			why: "examples are for readers; nothing builds on them"})
	}
	for _, other := range []string{"cmd", "internal/azure", "internal/state", "internal/storage", "internal/nats",
		"internal/cluster", "internal/fault", "server", "workers", "functions", "lazulitest", "examples", "tablesvc",
		"queuesvc", "blobsvc"} {
		list = append(list, rule{from: "tables/...", to: other + "/...",
			why: "the table client is a library over the SDK, for programs that have nothing else of Lazuli"})
	}
	for _, p := range []string{"azure/...", "storage/...", "nats/...", "cluster/...", "fault", "httpserver/..."} {
		list = append(list, rule{from: "internal/sdk/entityio", to: "internal/" + p, why: "tables builds on it"})
	}
	for _, s := range services {
		list = append(list,
			rule{from: "internal/...", to: s + "/...", why: "services build on internal packages, not the other way round",
				except: []string{"internal/server/...", "internal/test/operations"}},
			rule{from: "examples/...", to: s + "/...", why: "examples reach storage through the Azure SDK"},
		)
		for _, other := range services {
			if other != s {
				list = append(list,
					rule{from: s + "/...", to: other + "/...", why: "services never import each other"},
					rule{from: s + "/...", to: stateOf(other) + "/...", why: "a service reads its own state alone"},
					rule{from: s + "/...", to: "internal/service/" + strings.TrimSuffix(other, "svc") + "host",
						why: "a program with one service does not link the states of the others"},
					rule{from: stateOf(s) + "/...", to: stateOf(other) + "/...",
						why: "states know nothing of each other"})
			}
		}
		for _, outer := range []string{"cmd", "server", "internal/server", "workers", "functions", "lazulitest",
			"examples"} {
			list = append(list, rule{from: s + "/...", to: outer + "/...", why: "dependencies point from cmd inwards"})
		}
	}
	// The runtime of workers and functions, in its three folders.
	for _, runtime := range []string{"workers/...", "functions/...", "internal/functions/..."} {
		list = append(list,
			rule{from: runtime, to: "cmd/...", why: "dependencies point from cmd inwards"},
			rule{from: runtime, to: "lazulitest", why: "a test helper is for tests"})
		for _, other := range append([]string{"server", "internal/server", "internal/state", "internal/storage",
			"internal/nats", "internal/cluster", "internal/azure/wire", "internal/azure/auth",
			"internal/azure/frontend"}, services...) {
			r := rule{from: runtime, to: other + "/...",
				why: "workers reach storage through the Azure SDK alone, so that they run on Azure as well"}
			if other == "internal/storage" {
				// The index is a local folder, with a lock and an atomic file; the keys of functions are an atomic file; an
				// archive may be a local folder, which has to be durable.
				r.except = []string{"workers/roles/searchindex", "workers/roles/archive", "functions/internal/keys"}
			}
			list = append(list, r)
		}
	}
	// The parts of the server know nothing of what the command starts besides it.
	for _, outer := range []string{"cmd", "workers", "functions", "internal/functions"} {
		list = append(list, rule{from: "internal/server/...", to: outer + "/...",
			why: "the server is assembled from its parts, not the other way round"})
	}
	for _, room := range []string{"azure", "storage", "nats", "cluster", "sdk", "httpserver", "eventlog"} {
		list = append(list, rule{from: "internal/" + room + "/...", to: "internal/server/...",
			why: "the parts of the server build on the protocol and the engines, not the other way round"},
			rule{from: "internal/" + room + "/...", to: "internal/state/...",
				why: "the states of the services build on the engines, not the other way round"})
	}
	list = append(list, rule{from: "internal/state/...", to: "internal/server/...",
		why: "the server is assembled from its parts, not the other way round"})
	// The floors of the state of blobs, from the bottom up. The operations, in internal/state/blob itself, are on top.
	list = append(list, floorsOf("internal/state/blob/", [][]string{{"lease", "posix", "encryption", "content"},
		{"record"}, {"tree", "replica", "offline"}, {"listing", "maintain"}})...)
	// Those of a task hub.
	list = append(list, floorsOf("internal/durable/", [][]string{{"record"}, {"lease", "inflight"}, {"hub"},
		{"sidecar", "webhook"}})...)
	// Those of the runtime of workers, of which package workers is the top.
	list = append(list, floorsOf("workers/internal/", [][]string{{"calls"}, {"queues", "ratelimit"}, {"locks"},
		{"trigger"}, {"blobtrigger", "tabletrigger", "timertrigger"}})...)
	// Those of the function host, of which package functions is the top.
	list = append(list, floorsOf("functions/internal/", [][]string{{"jsonfile", "jsonvalue", "route", "handlerproc",
		"workerproxy"}, {"settings", "expression", "entity", "keys"}})...)
	// The groups of internal, from the bottom up: storage engines do not depend on the protocol.
	for _, r := range []struct{ from, to, why string }{
		{"internal/storage/...", "internal/azure/...", "storage engines do not know the protocol"},
		{"internal/nats/...", "internal/azure/...", "the embedded server does not know the protocol"},
		{"internal/cluster/...", "internal/azure/...", "nodes do not know the protocol"},
		{"internal/storage/...", "internal/nats/...", "an engine stores what it is given; the server has files of its own"},
		{"internal/storage/...", "internal/cluster/...", "a cluster is made of engines, not the other way round"},
		{"internal/nats/...", "internal/cluster/...", "a node is made of a server, not the other way round"},
		{"internal/httpserver/...", "internal/azure/...", "listeners and connections do not know the protocol"},
		{"internal/sdk/...", "internal/storage/...", "the client side reaches the server through the protocol"},
		{"internal/sdk/...", "internal/nats/...", "the client side reaches the server through the protocol"},
		{"internal/sdk/...", "internal/cluster/...", "the client side reaches the server through the protocol"},
	} {
		list = append(list, rule{from: r.from, to: r.to, why: r.why})
	}
	return list
}

// floorsOf returns the rules of packages below a folder that are listed in floors, from the bottom up.
func floorsOf(folder string, floors [][]string) (list []rule) {
	for i, floor := range floors {
		for _, lower := range floor {
			for _, upper := range slices.Concat(floors[i+1:]...) {
				list = append(list, rule{from: folder + lower, to: folder + upper, why: "a floor knows those below it alone"})
			}
		}
	}
	return list
}

// libraries may be imported only by the packages named, so that they can be replaced.
var libraries = map[string][]string{
	"go.etcd.io/bbolt": {"internal/storage/store", "internal/storage/bboltpage"},
	"github.com/nats-io/nats-server": {"internal/nats/natsserver", "internal/cluster",
		"internal/test/natscluster"},
	"github.com/microsoft/durabletask-go": {"internal/durable/entitybatch",
		"internal/durable/event", "internal/durable/hub", "internal/durable/record", "internal/durable/results",
		"internal/durable/sidecar", "workers/durable"},
	"github.com/spf13/cobra":          {"cmd/..."},
	"github.com/go-jose/go-jose/v4":   {"tables"}, // key wrapping for client-side encryption
	"github.com/goccy/go-yaml":        {"internal/server/config", "internal/server/seed"},
	"github.com/blevesearch/bleve/v2": {"workers/roles/searchindex"},
	"github.com/hanwen/go-fuse/v2":    {"internal/test/fusedisk"},
}

// testLibraries must not be linked into the binary.
var testLibraries = []string{
	"testing", "net/http/httptest", "github.com/google/go-cmp", "pgregory.net/rapid",
	"github.com/rogpeppe/go-internal", "go.uber.org/goleak", "github.com/hanwen/go-fuse/v2/fs", module + "lazulitest",
	module + testSupport[0],
}

func matches(pattern, name string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == folder || strings.HasPrefix(name, folder+"/")
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

func (r rule) excepts(name string) bool {
	return slices.ContainsFunc(r.except, func(pattern string) bool { return matches(pattern, name) })
}

func TestDependenciesPointOneWay(t *testing.T) {
	packages := list(t, "./...")
	if len(packages) < 5 {
		t.Fatalf("found %d packages; the rules would check nothing", len(packages))
	}
	for _, p := range packages {
		for _, imported := range p.Imports {
			to, inside := strings.CutPrefix(imported, module)
			if !inside {
				continue
			}
			for _, r := range rules() {
				if matches(r.from, p.name()) && matches(r.to, to) && !r.excepts(p.name()) {
					t.Errorf("%s imports %s: %s", p.name(), to, r.why)
				}
			}
		}
	}
}

// Apps with only queue, blob, table and timer triggers link neither the workflow engine, which imports gRPC and
// generated messages, nor the search engine.
func TestWorkersDoNotLinkTheWorkflowEngine(t *testing.T) {
	deps := list(t, "-deps", "./workers", "./functions", "./lazulitest")
	if len(deps) < 100 {
		t.Fatalf("found %d packages below workers; the rule would check nothing", len(deps))
	}
	for _, p := range deps {
		for _, library := range []string{"google.golang.org/grpc", "github.com/microsoft/durabletask-go",
			"github.com/blevesearch/bleve/v2"} {
			if p.ImportPath == library || strings.HasPrefix(p.ImportPath, library+"/") {
				t.Errorf("workers link %s; importers: %v", p.ImportPath, importers(deps, p.ImportPath))
			}
		}
	}
}

// `go mod tidy` of a program downloads the modules of the packages that it imports, and of their tests: those of a
// server, were there a test that starts one in its process. Such tests are in folders servertest.
func TestTidyDownloadsNoServer(t *testing.T) {
	var imports []string
	for _, p := range list(t, "-deps", "./tables", "./workers") {
		if strings.HasPrefix(p.ImportPath, module) {
			imports = slices.Concat(imports, []string{p.ImportPath}, p.TestImports, p.XTestImports)
		}
	}
	slices.Sort(imports)
	if imports = slices.Compact(imports); len(imports) < 50 {
		t.Fatalf("found %d imports; the rule would check nothing", len(imports))
	}
	deps := list(t, append([]string{"-deps"}, imports...)...)
	for _, p := range deps {
		if p.name() == "internal/server" || p.name() == "lazulitest" {
			t.Errorf("tidy of a program with tables or workers downloads %s; importers: %v", p.name(),
				importers(deps, p.ImportPath))
		}
	}
}

func TestLibrariesStayBehindTheirSeam(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, imported := range p.Imports {
			for library, allowed := range libraries {
				if (imported == library || strings.HasPrefix(imported, library+"/")) && !slices.ContainsFunc(allowed,
					func(pattern string) bool { return matches(pattern, p.name()) }) {
					t.Errorf("%s imports %s, which is for %s", p.name(), imported, strings.Join(allowed, ", "))
				}
			}
		}
	}
}

func TestBinaryHasNoTestLibraries(t *testing.T) {
	deps := list(t, "-deps", "./cmd/lazuli")
	if len(deps) < 100 {
		t.Fatalf("found %d packages below cmd/lazuli; the rule would check nothing", len(deps))
	}
	for _, p := range deps {
		for _, library := range testLibraries {
			if p.ImportPath == library || strings.HasPrefix(p.ImportPath, library+"/") {
				t.Errorf("the binary links %s; importers: %v", p.ImportPath, importers(deps, p.ImportPath))
			}
		}
	}
}

// maxPackages bounds the packages of others in the command, which cost build time and size. Raise it for a dependency
// that is worth it, and note its cost in docs/design.
const maxPackages = 609

func TestNumberOfPackages(t *testing.T) {
	others := slices.DeleteFunc(list(t, "-deps", "./cmd/lazuli"), func(p pkg) bool { return p.name() != p.ImportPath })
	if n := len(others); n > maxPackages {
		t.Errorf("the command has %d packages of others, more than %d", n, maxPackages)
	}
}

func importers(packages []pkg, of string) (names []string) {
	for _, p := range packages {
		if slices.Contains(p.Imports, of) {
			names = append(names, p.ImportPath)
		}
	}
	return names
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	for _, p := range list(t, "./...") {
		if slices.Contains([]string{"utils", "util", "common", "helpers", "types", "misc"}, path.Base(p.name())) {
			t.Errorf("%s: the name says nothing of what the package provides", p.name())
		}
		if len(p.GoFiles) > 0 && !documented(t, p) {
			t.Errorf("%s has no package comment", p.name())
		}
	}
}

func documented(t *testing.T, p pkg) bool {
	t.Helper()
	return slices.ContainsFunc(p.GoFiles, func(name string) bool {
		var f *ast.File
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		return f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != ""
	})
}

// stateOf returns the package that keeps what a service stores.
func stateOf(service string) string { return "internal/state/" + strings.TrimSuffix(service, "svc") }

// TestStateKnowsNoProtocol enforces the layers of the services: a service's state stores and changes values. Requests,
// headers and Azure's errors belong to the handlers above it.
func TestStateKnowsNoProtocol(t *testing.T) {
	for _, service := range services {
		state := stateOf(service)
		found := 0
		for _, p := range list(t, "./...") {
			if !matches(state+"/...", p.name()) {
				continue
			}
			found++
			for _, imported := range p.Imports {
				if to := strings.TrimPrefix(imported, module); imported == "net/http" || matches("internal/azure/...", to) {
					t.Errorf("%s imports %s: %s speaks in values and knows no protocol", p.name(), to, state)
				}
			}
		}
		if found == 0 {
			t.Errorf("there is no %s: the rule would check nothing", state)
		}
	}
}
