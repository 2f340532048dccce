package lazulitest

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
)

// FaultRule says which requests fail and how:
//
//	rule := lazulitest.FaultRule{Operation: "Put Blob", Unanswered: true, Count: 1}
//
// The fields Service, Operation, Resource, Account and Client choose requests; Skip, Nth, Share, Count and For choose
// among them. The action is one of Error, Delay, Slow, Reset, Truncate, Corrupt, Unanswered, Throttle and Secondary.
// docs/faults.md describes all fields.
type FaultRule = faultrule.Rule

// FaultDuration is the type of a [FaultRule]'s times.
type FaultDuration = faultrule.Duration

// FaultThrottle is the type of a [FaultRule]'s Throttle.
type FaultThrottle = faultrule.Throttle

// AddFault adds a rule behind those there are; the first rule that takes a request decides. It returns the rule's name.
// The rule is removed when the test ends. A rule that is not valid fails the test.
func (l *Lazuli) AddFault(t testing.TB, rule FaultRule) (name string) {
	t.Helper()
	rule, err := l.server.Faults().Add(rule)
	if err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	t.Cleanup(func() { _ = l.server.Faults().Remove(rule.Name) })
	return rule.Name
}

// FaultHits is the number of requests that the named rule has had an effect on.
func (l *Lazuli) FaultHits(t testing.TB, name string) int {
	t.Helper()
	for _, r := range l.server.Faults().Rules() {
		if r.Name == name {
			return r.Hits
		}
	}
	t.Fatalf("lazulitest: no fault rule is named %q", name)
	return 0
}

// RequireFaultHit fails the test unless the named rule has had an effect on a request: a test whose fault never
// happened proves nothing.
func (l *Lazuli) RequireFaultHit(t testing.TB, name string) {
	t.Helper()
	if l.FaultHits(t, name) == 0 {
		t.Fatalf("lazulitest: fault rule %q had no effect on any request", name)
	}
}

// RemoveFault removes the named rule before the test ends.
func (l *Lazuli) RemoveFault(t testing.TB, name string) {
	t.Helper()
	if err := l.server.Faults().Remove(name); err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
}

// FaultSecondary is the type of a [FaultRule]'s Secondary.
type FaultSecondary = faultrule.Secondary
