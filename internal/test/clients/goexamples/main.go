// Command goexamples runs the examples of the Azure SDK for Go, unchanged, against a Lazuli. They have addresses of
// Azure, such as https://devstoreaccount1.blob.core.windows.net, so they run behind a proxy that has a certificate for
// these names.
//
//	goexamples FOLDER
//
// FOLDER is the place where the modules are copied to. LAZULI_CONNECTION_STRING names the account.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/clients/azurehosts"
)

const sdk = azurehosts.SDK

// modules are the modules whose examples run.
var modules = []string{sdk + "storage/azblob@v1.8.3", sdk + "storage/azqueue/v2@v2.1.2", sdk + "data/aztables@v1.4.1"}

// exampleTimeout bounds one example; the longest takes two seconds.
const exampleTimeout = time.Minute

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: goexamples FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	account := azurehosts.ParseConnection(os.Getenv("LAZULI_CONNECTION_STRING"))
	p, err := azurehosts.StartProxy(account)
	if err != nil {
		return err
	}
	env, err := p.Environment(folder)
	if err != nil {
		return err
	}
	env = append(env, account.Environment()...)
	passed, unexpected := 0, map[string]string{}
	for _, module := range modules {
		dir, err := azurehosts.CopyModule(module, folder)
		if err != nil {
			return err
		}
		packages, err := examplePackages(dir)
		if err != nil {
			return err
		}
		for _, pkg := range packages {
			names, err := buildExamples(pkg)
			if err != nil {
				return err
			}
			for _, name := range names {
				full := label(module, dir, pkg) + "." + name
				why, skipped := expectedToFail[full]
				// First as it is: most examples make what they need. Those that fail get containers and tables of the names
				// that they use.
				out, err := runWithout(pkg, name, env)
				if err != nil {
					out, err = runPrepared(pkg, name, env)
				}
				switch {
				// An example that is expected to fail and does is right; one that passes is reported, so that the list stays
				// true.
				case err != nil && skipped:
				case err != nil:
					unexpected[full] = out
				case skipped:
					unexpected[full] = "passed, though it is expected to fail: " + why
				default:
					passed++
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unexpected)) {
		fmt.Printf("FAIL %s\n%s\n", name, unexpected[name])
	}
	fmt.Printf("%d examples passed, %d failed, %d are for something else\n", passed, len(unexpected), len(expectedToFail))
	if len(unexpected) > 0 {
		return errors.New("examples failed")
	}
	return nil
}

// label names a package of a module without its version: "azblob/container".
func label(module, dir, pkg string) string {
	name := strings.TrimSuffix(strings.Split(strings.TrimPrefix(module, sdk), "@")[0], "/v2")
	return filepath.Base(name) + strings.TrimPrefix(pkg, dir)
}

var example = regexp.MustCompile(`(?m)^func (Example\w*)\(\)`)

// examplePackages returns the folders with examples.
func examplePackages(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && isExampleFile(d.Name()) && !slices.Contains(list, filepath.Dir(path)) {
			list = append(list, filepath.Dir(path))
		}
		return err
	})
	return list, err
}

func isExampleFile(name string) bool {
	return name == "examples_test.go" || name == "example_test.go" || name == "samples_test.go"
}

// buildExamples makes a test of the examples of a package, in place of its other tests, and builds it. It returns the
// names of the examples in their order.
func buildExamples(pkg string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var test strings.Builder
	for _, file := range files {
		if !isExampleFile(filepath.Base(file)) {
			if err := os.Remove(file); err != nil {
				return nil, err
			}
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&test, "%s\nimport \"testing\"\n\nfunc TestExamples(t *testing.T) {\n",
			regexp.MustCompile(`(?m)^package \w+`).Find(text))
		for _, m := range example.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
			fmt.Fprintf(&test, "\tt.Run(%q, func(*testing.T) { %s() })\n", m[1], m[1])
		}
	}
	if err := os.WriteFile(filepath.Join(pkg, "run_examples_test.go"), []byte(test.String()+"}\n"), 0o600); err != nil {
		return nil, err
	}
	out, err := build(pkg)
	if bytes.Contains(out, []byte("undefined: ctx")) { // which is declared among the tests
		clause := regexp.MustCompile(`(?m)^package \w+`).FindString(test.String())
		helper := clause + "\n\nimport \"context\"\n\nvar ctx = context.Background()\n"
		if err := os.WriteFile(filepath.Join(pkg, "context_test.go"), []byte(helper), 0o600); err != nil {
			return nil, err
		}
		out, err = build(pkg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	return names, nil
}

// build builds the tests of a package.
func build(pkg string) ([]byte, error) {
	c := exec.Command("go", "test", "-mod=mod", "-c", "-o", "examples.test", ".")
	c.Dir = pkg
	return c.CombinedOutput()
}

// runWithout runs an example on an account without its containers, for those that create them.
func runWithout(pkg, name string, env []string) (string, error) {
	if err := clean(context.Background(), os.Getenv("LAZULI_CONNECTION_STRING")); err != nil {
		return "", err
	}
	return runExample(pkg, name, env)
}

// runPrepared runs an example on an account that has what it may expect.
func runPrepared(pkg, name string, env []string) (string, error) {
	if err := prepare(context.Background(), os.Getenv("LAZULI_CONNECTION_STRING"), pkg, name); err != nil {
		return "", err
	}
	return runExample(pkg, name, env)
}

// runExample runs one example in a process of its own: some end it when they fail.
func runExample(pkg, name string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), exampleTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "./examples.test", "-test.run", "TestExamples/"+name+"$")
	c.Dir, c.Env = pkg, env
	out, err := c.CombinedOutput()
	if len(out) > 1500 {
		out = out[:1500]
	}
	return string(out), err
}
