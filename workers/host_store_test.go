package workers

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
)

// checkHostStore holds what every hostStore must do. name must be fresh.
func checkHostStore(t *testing.T, store hostStore, name string) {
	t.Helper()
	ctx := t.Context()
	if got, err := store.read(ctx, name+"/record"); got != nil || err != nil {
		t.Errorf("a record that is not there reads as %q, %v", got, err)
	}
	for _, content := range []string{"one", "another"} {
		if err := store.write(ctx, name+"/record", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := store.read(ctx, name+"/record"); !bytes.Equal(got, []byte(content)) || err != nil {
			t.Errorf("read %q, %v; wrote %q", got, err, content)
		}
	}

	id, err := store.acquire(ctx, name+"/lock", "me", 15*time.Second)
	if err != nil || id == "" {
		t.Fatalf("acquire: %q, %v", id, err)
	}
	if _, err := store.acquire(ctx, name+"/lock", "you", 15*time.Second); !errors.Is(err, errHeldByOther) {
		t.Errorf("a second acquire: %v, want %v", err, errHeldByOther)
	}
	if err := store.renew(ctx, name+"/lock", id); err != nil {
		t.Errorf("renew: %v", err)
	}
	const wrong = "c9da6455-213d-42c9-9a79-3e9149a57833"
	if err := store.renew(ctx, name+"/lock", wrong); !errors.Is(err, errNotHeld) {
		t.Errorf("renew under a wrong id: %v, want %v", err, errNotHeld)
	}
	if err := store.release(ctx, name+"/lock", wrong); !errors.Is(err, errNotHeld) {
		t.Errorf("release under a wrong id: %v, want %v", err, errNotHeld)
	}
	if err := store.release(ctx, name+"/lock", id); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := store.renew(ctx, name+"/lock", id); !errors.Is(err, errNotHeld) {
		t.Errorf("renew after the release: %v, want %v", err, errNotHeld)
	}
	again, err := store.acquire(ctx, name+"/lock", "you", 15*time.Second)
	if err != nil || again == id {
		t.Errorf("acquire after the release: %q, %v", again, err)
	}
}

func TestFakeHostStore(t *testing.T) { checkHostStore(t, newFakeHost(), "test") }

func TestAzureHostStore(t *testing.T) {
	t.Parallel()
	storage, _ := openOwnStorage(t)
	store, err := openAzureHost(storage)
	if err != nil {
		t.Fatal(err)
	}
	checkHostStore(t, store, fmt.Sprintf("tests/%d", time.Now().UnixNano()))
}
