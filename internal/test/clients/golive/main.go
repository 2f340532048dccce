// Command golive runs the live tests of the Data Lake module of the Azure SDK for Go, unchanged, against a Lazuli. They
// have addresses of Azure, so they run behind a proxy that has a certificate for these names.
//
//	golive FOLDER [PATTERN]
//
// FOLDER is the place where the module is copied to; PATTERN selects tests, as go test -run does.
// LAZULI_CONNECTION_STRING names a server with the accounts of AZURE_STORAGE_ACCOUNT_NAME and
// DATALAKE_AZURE_STORAGE_ACCOUNT_NAME, whose keys stand in the variables that the tests read.
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

const module = azurehosts.SDK + "storage/azdatalake@v1.5.0"

// packages are the packages of the module that have live tests, and sas, which has others.
var packages = []string{"service", "filesystem", "directory", "file", "lease", "sas"}

// testTimeout bounds the tests of a package; the longest take a minute.
const testTimeout = "8m"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: golive FOLDER [PATTERN]")
	}
	pattern := ".*"
	if len(os.Args) > 2 {
		pattern = os.Args[2]
	}
	if err := run(os.Args[1], pattern); err != nil {
		log.Fatal(err)
	}
}

func run(folder, pattern string) error {
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
	dir, err := azurehosts.CopyModule(module, folder)
	if err != nil {
		return err
	}
	passed, failed := 0, map[string]string{}
	for _, name := range packages {
		if err := prepare(context.Background(), proxy); err != nil {
			return err
		}
		n, err := runPackage(filepath.Join(dir, name), name, pattern, env, failed)
		if err != nil {
			return err
		}
		passed += n
	}
	expected := 0
	unexpected := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if why := expectedToFail[name]; why != "" {
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
func prepare(ctx context.Context, proxy *azurehosts.Proxy) error {
	client, err := service.NewClientFromConnectionString(os.Getenv("LAZULI_CONNECTION_STRING"),
		&service.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: proxy.Direct()}})
	if err != nil {
		return err
	}
	retention := &service.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(2))}
	_, err = client.SetProperties(ctx, &service.SetPropertiesOptions{DeleteRetentionPolicy: retention,
		Logging: &service.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(true), Delete: to.Ptr(true),
			RetentionPolicy: retention}})
	return err
}

// runPackage runs the tests of a package. It returns how many passed, and adds those that failed, with what they
// printed.
func runPackage(dir, name, pattern string, env []string, failed map[string]string) (passed int, err error) {
	build := exec.Command("go", "test", "-mod=mod", "-c", "-o", "live.test", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", dir, err, out)
	}
	selected := "^Test$/" + pattern
	if name == "sas" {
		selected = "Test"
	}
	c := exec.Command("./live.test", "-test.v", "-test.run", selected, "-test.timeout", testTimeout)
	c.Dir, c.Env = dir, env
	out, runErr := c.CombinedOutput()
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
		case strings.HasPrefix(line, "=== RUN"), strings.HasPrefix(line, "=== NAME"), strings.HasPrefix(line, "=== CONT"):
			test = strings.Fields(line)[2]
			if current[test] == nil {
				current[test] = &strings.Builder{}
			}
		case strings.HasPrefix(line, "--- PASS: "):
			if full := strings.Fields(line)[2]; name == "sas" || strings.Contains(full, "/") {
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
	if runErr != nil && !found {
		return 0, fmt.Errorf("%s: %w\n%s", dir, runErr, out[max(0, len(out)-3000):])
	}
	return passed, nil
}
