package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTypesOnOtherSystems checks the types of all packages, ours and those that ours import, with the files for Windows
// and for macOS. A build compiles and links them, too, which takes minutes more and says nothing more about our code:
// .ci/packages does it for a release.
func TestTypesOnOtherSystems(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"windows/amd64", "darwin/arm64"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			for _, err := range typeErrors(t, system, "../../..", "./...") {
				t.Error(err)
			}
		})
	}
}

// TestATypeErrorOnAnotherSystemIsFound has a module whose file for Windows lacks a function, and whose file for macOS
// has one of another signature.
func TestATypeErrorOnAnotherSystemIsFound(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]string{
		"linux/amd64":   "",
		"windows/amd64": "undefined: lock",
		"darwin/arm64":  "not enough arguments in call to lock",
	} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			errs := typeErrors(t, system, "testdata/systems", "./...")
			if got := fmt.Sprint(errs); (want == "") != (len(errs) == 0) || !strings.Contains(got, want) {
				t.Errorf("got %s, want %q", got, want)
			}
		})
	}
}

// source is the output of `go list -deps` for a package.
type source struct {
	ImportPath, Dir, Name string
	GoFiles, Imports      []string
	ImportMap             map[string]string
	DepOnly               bool
	Error                 *struct{ Err string }
}

// typeErrors type-checks packages of the module in a folder, and what they import, as the compiler does for a system
// without C.
func typeErrors(t *testing.T, system, folder string, patterns ...string) []error {
	t.Helper()
	goos, goarch, _ := strings.Cut(system, "/")
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps",
		"-json=ImportPath,Dir,Name,GoFiles,Imports,ImportMap,DepOnly,Error"}, patterns...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var (
		sources = map[string]*checked{}
		order   []*checked
	)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		c := &checked{done: make(chan struct{})}
		err := d.Decode(&c.source)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sources[c.ImportPath] = c
		order = append(order, c)
	}

	// A package waits for those that it imports. The list has these before it, so that a goroutine never waits for one
	// that has not been started.
	config := types.Config{Sizes: types.SizesFor("gc", goarch)}
	var running sync.WaitGroup
	for _, c := range order {
		running.Go(func() {
			defer close(c.done)
			c.check(config, sources)
		})
	}
	running.Wait()
	var errs []error
	for _, c := range order {
		errs = append(errs, c.errs...)
	}
	return errs
}

// checked is a package, with its types once done is closed.
type checked struct {
	source
	done  chan struct{}
	types *types.Package
	errs  []error
}

func (c *checked) check(config types.Config, sources map[string]*checked) {
	if c.ImportPath == "unsafe" {
		c.types = types.Unsafe
		return
	}
	// A package of ours that has no file for this system may exist; an import of it may not.
	if c.Error != nil && (c.DepOnly || !strings.Contains(c.Error.Err, "build constraints exclude all Go files")) {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", c.ImportPath, c.Error.Err))
	}
	var files []*ast.File
	for _, name := range c.GoFiles {
		file, err := parsed(filepath.Join(c.Dir, name))
		if err != nil {
			c.errs = append(c.errs, err)
			continue
		}
		files = append(files, file)
	}
	// Of what others wrote the declarations are enough: their authors test the bodies.
	config.IgnoreFuncBodies = c.DepOnly
	config.Error = func(err error) { c.errs = append(c.errs, err) }
	config.Importer = importerFunc(func(name string) (*types.Package, error) {
		if mapped := c.ImportMap[name]; mapped != "" {
			name = mapped
		}
		dependency := sources[name]
		if dependency == nil {
			return nil, fmt.Errorf("go list has no %s", name)
		}
		<-dependency.done
		return dependency.types, nil
	})
	c.types, _ = config.Check(c.ImportPath, parsedSet, files, nil) // Error had what was wrong
}

// parsedSet and parsedFiles have the files that were parsed: most are the same for all systems.
var (
	parsedSet   = token.NewFileSet()
	parsedFiles sync.Map
)

func parsed(path string) (*ast.File, error) {
	once, _ := parsedFiles.LoadOrStore(path, sync.OnceValues(func() (*ast.File, error) {
		return parser.ParseFile(parsedSet, path, nil, parser.SkipObjectResolution)
	}))
	return once.(func() (*ast.File, error))()
}

type importerFunc func(string) (*types.Package, error)

func (f importerFunc) Import(name string) (*types.Package, error) { return f(name) }
