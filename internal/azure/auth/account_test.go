package auth

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// someKey returns a key of a test.
func someKey(t testing.TB) Key {
	t.Helper()
	k, err := ParseKey("c29tZSBrZXk=")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Accounts that are added at the same time are all there, and the names are those that there are.
func TestAddedAccounts(t *testing.T) {
	t.Parallel()
	a, keys := Development(), []Key{someKey(t)}
	const n = 500
	var wait sync.WaitGroup
	for part := range 5 {
		wait.Go(func() {
			for i := part; i < n; i += 5 {
				if err := a.Add(Account{Name: fmt.Sprintf("account%d", i), Keys: keys}); err != nil {
					t.Error(err)
				}
				a.Names()
			}
		})
	}
	wait.Wait()
	if names := a.Names(); len(names) != n+1 || !slices.IsSorted(names) || a.AddedCount() != n {
		t.Errorf("%d names, %d accounts were added", len(names), a.AddedCount())
	}
	if a.Get("account7") == nil || a.Get("account500") != nil || a.Configured("account7") || !a.Several() {
		t.Error("the set has other accounts than those that were added")
	}
	a.Remove("account7")
	a.Remove("account7")
	a.Remove(DevelopmentAccount)
	if a.Get("account7") != nil || a.Get(DevelopmentAccount) == nil || slices.Contains(a.Names(), "account7") ||
		a.AddedCount() != n-1 {
		t.Error("other accounts were removed than the one that was asked for")
	}
	refused := a.ReplaceAdded(Account{Name: "one", Keys: keys}, Account{Name: "No", Keys: keys}, Account{Name: "none"})
	if len(refused) != 2 || !slices.Equal(a.Names(), []string{DevelopmentAccount, "one"}) {
		t.Errorf("%v were refused; the accounts are %v", refused, a.Names())
	}
	if err := a.Add(Account{Name: "none"}); err == nil || a.Get("none") != nil {
		t.Error("an account without a key is added")
	}
}

// A look at an account costs no memory, among however many.
func TestLookingAtAnAddedAccountAllocatesNothing(t *testing.T) {
	a, keys := Development(), []Key{someKey(t)}
	list := make([]Account, 10_000)
	for i := range list {
		list[i] = Account{Name: fmt.Sprintf("account%d", i), Keys: keys}
	}
	if refused := a.ReplaceAdded(list...); refused != nil {
		t.Fatal(refused)
	}
	for _, name := range []string{DevelopmentAccount, "account7777", "absent"} {
		if n := testing.AllocsPerRun(100, func() { a.Get(name); a.Blob(name); a.Several() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	a.Names()
	if n := testing.AllocsPerRun(100, func() { a.Names() }); n != 0 {
		t.Errorf("the names that have not changed: %v allocations", n)
	}
}

func BenchmarkGetAccount(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		a, keys := Development(), []Key{someKey(b)}
		list := make([]Account, n)
		for i := range list {
			list[i] = Account{Name: fmt.Sprintf("account%d", i), Keys: keys}
		}
		a.ReplaceAdded(list...)
		for _, name := range []string{DevelopmentAccount, "account77777"} {
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				for b.Loop() {
					a.Get(name)
				}
			})
		}
	}
}
