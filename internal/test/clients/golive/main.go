// Command golive runs the live tests of a module of the Azure SDK for Go, unchanged, against a Lazuli. They have
// addresses of Azure, so they run behind a proxy that has a certificate for these names.
//
//	golive azblob|azdatalake|azqueue|aztables FOLDER [PATTERN]
//
// FOLDER is the place where the module is copied to; PATTERN selects tests, as go test -run does.
// LAZULI_CONNECTION_STRING names a server with the accounts of the variables that end with AZURE_STORAGE_ACCOUNT_NAME,
// whose keys stand in variables that the tests read, too. Deleted blobs are kept in its own account.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/test/clients/azurehosts"
)

// suite is a module with its tests.
type suite struct {
	module string
	// packages are those that have live tests, and sas, which has others. "." is the module's own.
	packages []string
	// expected are tests that cannot pass, with the reason.
	expected map[string]string
	// permanent lets what is deleted be deleted for good.
	permanent bool
	// functions is set if the tests are functions of their own, as those of sas, and not suites that Test runs.
	functions bool
	// skip selects tests of other services.
	skip string
}

var suites = map[string]suite{
	"azdatalake": {module: azurehosts.SDK + "storage/azdatalake@v1.5.0", expected: lakeExpected,
		packages: []string{"service", "filesystem", "directory", "file", "lease", "sas"}},
	"azblob": {module: azurehosts.SDK + "storage/azblob@v1.8.3", expected: blobExpected, permanent: true,
		packages: []string{"service", "container", "blob", "blockblob", "appendblob", "pageblob", "lease", "sas"}},
	"azqueue": {module: azurehosts.SDK + "storage/azqueue/v2@v2.1.0", expected: queueExpected,
		packages: []string{".", "sas"}},
	"aztables": {module: azurehosts.SDK + "data/aztables@v1.4.1", expected: tableExpected, packages: []string{"."},
		functions: true, skip: "/cosmos|Cosmos|^Example"},
}

// testTimeout bounds the tests of a package. Some wait a minute for what Azure does later.
const testTimeout = "25m"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 || suites[os.Args[1]].module == "" {
		log.Fatal("usage: golive azblob|azdatalake|azqueue|aztables FOLDER [PATTERN]")
	}
	pattern := ".*"
	if len(os.Args) > 3 {
		pattern = os.Args[3]
	}
	if err := run(suites[os.Args[1]], os.Args[2], pattern); err != nil {
		log.Fatal(err)
	}
}

func run(of suite, folder, pattern string) error {
	account := azurehosts.ParseConnection(os.Getenv("LAZULI_CONNECTION_STRING"))
	proxy, err := azurehosts.StartProxy(account)
	if err != nil {
		return err
	}
	env, err := proxy.Environment(folder)
	if err != nil {
		return err
	}
	env = append(env, "AZURE_RECORD_MODE=live", "PROXY_MANUAL_START=true")
	dir, err := azurehosts.CopyModule(of.module, folder)
	if err != nil {
		return err
	}
	passed, failed := 0, map[string]string{}
	for _, name := range of.packages {
		// Before each package: the tests of one leave containers and settings that those of another do not expect.
		if err := prepare(context.Background(), proxy, of.permanent); err != nil {
			return err
		}
		n, err := of.runPackage(filepath.Join(dir, name), name, pattern, env, failed)
		if err != nil {
			return err
		}
		passed += n
	}
	expected := 0
	unexpected := map[string]string{}
	// The map holds all failures; only those without a reason here make the run fail.
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if why := of.expected[name]; why != "" {
			expected++
			fmt.Printf("== expected %s: %s\n", name, why)
		} else {
			unexpected[name] = failed[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unexpected)) {
		fmt.Printf("FAIL %s\n%s\n", name, unexpected[name])
	}
	fmt.Printf("== %d tests passed, %d failed, %d failed as they must here\n", passed, len(unexpected), expected)
	if len(unexpected) > 0 {
		return errors.New("tests failed")
	}
	return nil
}

// prepare gives the account what the tests expect of theirs: deleted files are kept, and requests are logged.
func prepare(ctx context.Context, proxy *azurehosts.Proxy, permanent bool) error {
	client, err := service.NewClientFromConnectionString(os.Getenv("LAZULI_CONNECTION_STRING"),
		&service.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: proxy.Direct()}})
	if err != nil {
		return err
	}
	retention := &service.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(2))}
	deleted := *retention
	if permanent {
		deleted.AllowPermanentDelete = &permanent
	}
	_, err = client.SetProperties(ctx, &service.SetPropertiesOptions{DeleteRetentionPolicy: &deleted,
		Logging: &service.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(true), Delete: to.Ptr(true),
			RetentionPolicy: retention}})
	return err
}

// runPackage runs the tests of a package. It returns how many passed, and adds those that failed, with what they
// printed.
func (of suite) runPackage(dir, name, pattern string, env []string, failed map[string]string) (passed int, err error) {
	build := exec.Command("go", "test", "-mod=mod", "-c", "-o", "live.test", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", dir, err, out)
	}
	// The packages run their suites from one function, Test; the tests of sas are functions of their own.
	selected := "^Test$/" + pattern
	functions := of.functions || name == "sas"
	if functions {
		selected = "Test"
		if pattern != ".*" {
			selected = pattern
		}
	}
	c := exec.Command("./live.test", "-test.v", "-test.run", selected, "-test.skip", of.skip, "-test.timeout", testTimeout)
	c.Dir, c.Env = dir, env
	out, runErr := c.CombinedOutput()
	// The whole output is kept, as what is printed below is cut.
	if err := os.WriteFile(filepath.Join(dir, "live.out"), out, 0o600); err != nil {
		return 0, err
	}
	found := false
	current := map[string]*strings.Builder{}
	test := ""
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		// Parallel tests interleave their output: each of these lines names the test that the next ones are of.
		case strings.HasPrefix(line, "=== RUN"), strings.HasPrefix(line, "=== NAME"), strings.HasPrefix(line, "=== CONT"):
			test = strings.Fields(line)[2]
			if current[test] == nil {
				current[test] = &strings.Builder{}
			}
		case strings.HasPrefix(line, "--- PASS: "):
			if full := strings.Fields(line)[2]; functions || strings.Contains(full, "/") {
				passed++
			}
		case strings.HasPrefix(line, "--- FAIL: "):
			if full := strings.Fields(line)[2]; full != "Test" {
				found = true
				failed[name+"."+strings.TrimPrefix(full, "Test/")] = current[full].String()
			}
		default:
			if b := current[test]; b != nil && b.Len() < 3000 {
				fmt.Fprintln(b, lines.Text())
			}
		}
	}
	// A process that failed without a failed test did not run: it crashed or did not start.
	if runErr != nil && !found {
		return 0, fmt.Errorf("%s: %w\n%s", dir, runErr, out[max(0, len(out)-3000):])
	}
	return passed, nil
}
