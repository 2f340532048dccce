package workers

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// checkHostStore holds what every Store must do. name must be fresh.
func checkHostStore(t *testing.T, store locks.Store, name string) {
	t.Helper()
	ctx := t.Context()
	if got, err := store.Read(ctx, name+"/record"); got != nil || err != nil {
		t.Errorf("a record that is not there reads as %q, %v", got, err)
	}
	for _, content := range []string{"one", "another"} {
		if err := store.Write(ctx, name+"/record", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Read(ctx, name+"/record"); !bytes.Equal(got, []byte(content)) || err != nil {
			t.Errorf("read %q, %v; wrote %q", got, err, content)
		}
	}

	id, err := store.Acquire(ctx, name+"/lock", "me", 15*time.Second)
	if err != nil || id == "" {
		t.Fatalf("acquire: %q, %v", id, err)
	}
	if _, err := store.Acquire(ctx, name+"/lock", "you", 15*time.Second); !errors.Is(err, locks.ErrHeldByOther) {
		t.Errorf("a second acquire: %v, want %v", err, locks.ErrHeldByOther)
	}
	if err := store.Renew(ctx, name+"/lock", id); err != nil {
		t.Errorf("renew: %v", err)
	}
	const wrong = "c9da6455-213d-42c9-9a79-3e9149a57833"
	if err := store.Renew(ctx, name+"/lock", wrong); !errors.Is(err, queues.ErrNotHeld) {
		t.Errorf("renew under a wrong id: %v, want %v", err, queues.ErrNotHeld)
	}
	if err := store.Release(ctx, name+"/lock", wrong); !errors.Is(err, queues.ErrNotHeld) {
		t.Errorf("release under a wrong id: %v, want %v", err, queues.ErrNotHeld)
	}
	if err := store.Release(ctx, name+"/lock", id); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := store.Renew(ctx, name+"/lock", id); !errors.Is(err, queues.ErrNotHeld) {
		t.Errorf("renew after the release: %v, want %v", err, queues.ErrNotHeld)
	}
	again, err := store.Acquire(ctx, name+"/lock", "you", 15*time.Second)
	if err != nil || again == id {
		t.Errorf("acquire after the release: %q, %v", again, err)
	}
}

func TestFakeHostStore(t *testing.T) { checkHostStore(t, newFakeHost(), "test") }

func TestAzureHostStore(t *testing.T) {
	t.Parallel()
	storage, _ := openOwnStorage(t)
	store, err := openHostOf(storage)
	if err != nil {
		t.Fatal(err)
	}
	checkHostStore(t, store, fmt.Sprintf("tests/%d", time.Now().UnixNano()))
}
