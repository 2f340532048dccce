//go:build unix

package freeport

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

// childVar makes the test binary print as many addresses as it says.
const childVar = "LAZULI_TEST_FREEPORT_CHILD"

func TestMain(m *testing.M) {
	if n, _ := strconv.Atoi(os.Getenv(childVar)); n > 0 {
		for range n {
			address, err := Address()
			if err != nil {
				panic(err)
			}
			fmt.Println(address)
		}
		return
	}
	os.Exit(m.Run())
}

// A process takes parts of the range that no other process has: the next one when it has used one up.
func TestProcessesUseDifferentParts(t *testing.T) {
	t.Setenv(folderVariable, t.TempDir())
	free := []int{7, 30}
	for n := range parts {
		if slices.Contains(free, n) {
			continue
		}
		f, err := os.Create(lockPath(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := filelock.Try(f); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = filelock.Close(f) })
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	// More than a part has, whether or not some of its ports are in use, and not more than two parts have.
	const addresses = processPorts + 10
	c.Env = append(os.Environ(), fmt.Sprint(childVar, "=", addresses))
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(out))
	if n := len(list); n != addresses {
		t.Errorf("%d addresses, want %d", n, addresses)
	}
	seen := map[string]bool{}
	var used []int
	for _, address := range list {
		var port int
		if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &port); err != nil || seen[address] {
			t.Fatalf("the address is %s, %v, seen before: %t", address, err, seen[address])
		}
		seen[address] = true
		if n := (port - firstPort) / processPorts; !slices.Contains(used, n) {
			used = append(used, n)
		}
	}
	slices.Sort(used)
	if !slices.Equal(used, free) {
		t.Errorf("the addresses are in the parts %v, want %v", used, free)
	}
}
