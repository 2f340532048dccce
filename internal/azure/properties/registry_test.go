package properties

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// setAge sends Set Service Properties with one CORS rule that has the age.
func setAge(r *Registry, account string, age int) error {
	body := fmt.Sprintf(
		"<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods>"+
			"<AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>%d</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>", age)
	req, err := wire.Parse(wire.Table,
		httptest.NewRequest("PUT", "http://127.0.0.1/"+account+"/?restype=service&comp=properties", strings.NewReader(body)),
		httptest.NewRecorder(), time.Now(), wire.Options{})
	if err != nil {
		return err
	}
	return r.Set(req)
}

// age returns the age of the account's one CORS rule, 0 if it has none.
func age(r *Registry, account string) int {
	if rules := r.Of(account).CORS; len(rules) > 0 {
		return rules[0].MaxAgeInSeconds
	}
	return 0
}

// values is a backend in memory.
type values struct {
	mu    sync.Mutex
	value map[string][]byte
	err   error
}

func (v *values) change(_ context.Context, account string, change func([]byte) (*Properties, []byte, error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, value, err := change(v.value[account])
	if err = errors.Join(err, v.err); err != nil {
		return err
	}
	v.value[account] = value
	return nil
}

func (v *values) current(account string) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value[account]
}

func newValues() *values { return &values{value: make(map[string][]byte)} }

// The second Set begins after the first has written to the backend, and before the first has returned.
func TestSetsChangeBackendAndMemoryInTheSameOrder(t *testing.T) {
	t.Parallel()
	var (
		v       = newValues()
		written = make(chan struct{}) // the first write is done
		second  = make(chan error, 1)
		first   atomic.Bool
		r       *Registry
	)
	r = NewRegistry(wire.Table, Features{},
		Backend{Change: func(ctx context.Context, account string, change func([]byte) (*Properties, []byte, error)) error {
			err := v.change(ctx, account, change)
			if first.CompareAndSwap(false, true) {
				close(written)
				select { // without the lock the second Set ends here
				case err := <-second:
					second <- err
				case <-time.After(50 * time.Millisecond):
				}
			}
			return err
		}}, nil)
	go func() {
		<-written
		second <- setAge(r, "lazuli1", 2)
	}()
	if err := setAge(r, "lazuli1", 1); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	stored := NewRegistry(wire.Table, Features{}, Backend{}, nil)
	if err := stored.Load("lazuli1", v.value["lazuli1"]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(age(stored, "lazuli1"), age(r, "lazuli1")); diff != "" {
		t.Errorf("the rule's age in the backend and in memory (-backend +memory):\n%s", diff)
	}
}

func TestFailedStoreChangesNothing(t *testing.T) {
	t.Parallel()
	v := newValues()
	r := NewRegistry(wire.Table, Features{}, Backend{Change: v.change}, nil)
	if err := setAge(r, "lazuli1", 1); err != nil {
		t.Fatal(err)
	}
	v.err = errors.New("disk full")
	if err := setAge(r, "lazuli1", 2); !errors.Is(err, v.err) {
		t.Errorf("Set returned %v, want %v", err, v.err)
	}
	if got := age(r, "lazuli1"); got != 1 {
		t.Errorf("age is %d after a failed Set, want 1", got)
	}
}

func TestCurrentSeesChangesOfOthers(t *testing.T) {
	t.Parallel()
	v := newValues()
	mine := NewRegistry(wire.Queue, Features{}, Backend{Change: v.change, Current: v.current}, nil)
	other := NewRegistry(wire.Queue, Features{}, Backend{Change: v.change, Current: v.current}, nil)
	for want := 1; want <= 3; want++ {
		if err := setAge(other, "lazuli1", want); err != nil {
			t.Fatal(err)
		}
		if got := age(mine, "lazuli1"); got != want {
			t.Errorf("age is %d, another process set %d", got, want)
		}
	}
	v.value["lazuli1"] = []byte("{damaged")
	if got := age(mine, "lazuli1"); got != 0 {
		t.Errorf("age is %d although the value cannot be read", got)
	}
}

func TestRemoveForgetsOnlyWhatTheBackendRemoved(t *testing.T) {
	t.Parallel()
	v := newValues()
	r := NewRegistry(wire.Table, Features{}, Backend{Change: v.change}, nil)
	if err := setAge(r, "lazuli1", 1); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := r.Remove("lazuli1", func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Remove returned %v, want %v", err, failed)
	}
	if got := age(r, "lazuli1"); got != 1 {
		t.Errorf("age is %d after a failed Remove, want 1", got)
	}
	if err := r.Remove("lazuli1", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := age(r, "lazuli1"); got != 0 {
		t.Errorf("age is %d after Remove, want none", got)
	}
}
