package faultrule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// MaxRules is the maximum number of rules in a set.
const MaxRules = 100

// The failures of [Set.Add] and [Set.Remove] besides [ErrRule].
var (
	ErrExists   = errors.New("a fault rule of that name exists")
	ErrNotFound = errors.New("there is no fault rule of that name")
	ErrTooMany  = fmt.Errorf("there are already %d fault rules", MaxRules)
)

// Set is the rules of a server. Its methods are safe for concurrent use.
type Set struct {
	now        func() time.Time
	operations []string // folded names that rules can match

	active atomic.Pointer[[]*active] // nil without rules; replaced, never changed

	mu   sync.Mutex // guards made and changes of active
	made int        // for names
}

// NewSet makes an empty set. operations are the names of all operations: a rule that matches none of them is refused.
// now is the clock of Rule.For.
func NewSet(operations []string, now func() time.Time) *Set {
	s := &Set{now: now}
	for _, name := range operations {
		s.operations = append(s.operations, fold(name))
	}
	return s
}

// active is a rule in a set.
type active struct {
	rule  Rule
	match matcher
	added time.Time
	// limit and partitions are those of Rule.Throttle.
	limit, partitions *limiter

	mu       sync.Mutex // guards what follows
	requests int        // that matched
	hits     int        // that failed
	choice   *rand.Rand // of Rule.Share
}

// Status is a rule and what has become of it.
type Status struct {
	Rule
	// Added is the time at which the rule was added.
	Added time.Time `json:"added"`
	// Requests counts the requests that matched, Hits those that the rule had an effect on.
	Requests int `json:"requests"`
	Hits     int `json:"hits"`
	// Ended is set when Count or For is used up.
	Ended bool `json:"ended"`
}

// Add checks the rule and puts it behind the others: the first rule that takes a request decides. It returns the rule
// with its name.
func (s *Set) Add(r Rule) (Rule, error) {
	if err := r.validate(); err != nil {
		return Rule{}, err
	}
	// A misspelt operation would be a rule that never acts, and a test that passes without its fault.
	if op := fold(r.Operation); op != "" &&
		!slices.ContainsFunc(s.operations, func(name string) bool { return glob(op, name) }) {
		return Rule{}, invalid("operation %q matches no operation; docs/compatibility.md lists their names", r.Operation)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list()
	if len(list) >= MaxRules {
		return Rule{}, ErrTooMany
	}
	// The loop ends at the first free number: users may have given rules such names.
	for r.Name == "" || slices.ContainsFunc(list, func(a *active) bool { return a.rule.Name == r.Name }) {
		if r.Name != "" {
			return Rule{}, fmt.Errorf("%w: %s", ErrExists, r.Name)
		}
		s.made++
		if name := "fault-" + strconv.Itoa(s.made); !slices.ContainsFunc(list,
			func(a *active) bool { return a.rule.Name == name }) {
			r.Name = name
			break
		}
	}
	a := s.activate(r)
	// Clip makes append copy: requests read the old list without a lock.
	list = append(slices.Clip(list), a)
	s.active.Store(&list)
	return r, nil
}

// activate prepares a valid rule for use.
func (s *Set) activate(r Rule) *active {
	a := &active{rule: r, match: newMatcher(&r), added: s.now()}
	if r.Share > 0 && r.Share < 1 {
		seed := r.Seed
		if seed == 0 {
			seed = rand.Uint64()
		}
		a.choice = rand.New(rand.NewPCG(seed, 0))
	}
	if r.Throttle != nil {
		a.limit = newLimiter(max(r.Throttle.Requests, r.Throttle.Bytes, r.Throttle.AccountEntities), s.now)
		a.partitions = newLimiter(r.Throttle.PartitionEntities, s.now)
	}
	return a
}

// Remove removes a rule. Requests that it has already taken are not affected.
func (s *Set) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list()
	i := slices.IndexFunc(list, func(a *active) bool { return a.rule.Name == name })
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	s.replace(slices.Delete(slices.Clone(list), i, i+1))
	return nil
}

// Clear removes all rules and returns how many there were.
func (s *Set) Clear() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list())
	s.replace(nil)
	return n
}

func (s *Set) replace(list []*active) {
	if len(list) == 0 {
		s.active.Store(nil)
		return
	}
	s.active.Store(&list)
}

func (s *Set) list() []*active {
	if p := s.active.Load(); p != nil {
		return *p
	}
	return nil
}

// Rules returns the rules in their order.
func (s *Set) Rules() []Status {
	list := []Status{}
	for _, a := range s.list() {
		a.mu.Lock()
		list = append(list, Status{Rule: a.rule, Added: a.added, Requests: a.requests, Hits: a.hits, Ended: a.ended(s.now())})
		a.mu.Unlock()
	}
	return list
}

// InjectHeader is the request header by which a client asks for a fault of its own request: a rule in JSON with actions
// alone, {"error":"ServerBusy"}.
const InjectHeader = "X-Lazuli-Inject"

// Find returns the fault that the request's [InjectHeader] asks for, or that of the first rule that takes the request,
// or nil. It fails with InvalidHeaderValue for a header that is not a rule.
func (s *Set) Find(r *wire.Request) (*Fault, error) {
	if text := r.Header(InjectHeader); text != "" {
		return requested(text)
	}
	p := s.active.Load()
	if p == nil {
		return nil, nil
	}
	for _, a := range *p {
		if a.match.matches(r) && a.take(s.now()) {
			return &Fault{rule: &a.rule, added: a.added, limit: a.limit, partitions: a.partitions, hit: a.hit}, nil
		}
	}
	return nil, nil
}

// requested is the fault that an [InjectHeader] asks for.
func requested(text string) (*Fault, error) {
	r, err := Decode([]byte(text))
	if err == nil {
		err = r.validate()
	}
	if err == nil && (newMatcher(&r) != matcher{anyService: true, secondary: r.Secondary} || r.Secondary != nil ||
		r.Skip+r.Nth+r.Count != 0 || r.Share != 0 || r.For != 0 || r.Throttle != nil) {
		err = invalid("a request can ask for an action alone")
	}
	if err != nil {
		return nil, wire.InvalidHeader("x-lazuli-inject", text).With("Reason", err.Error())
	}
	if r.Name == "" {
		r.Name = "requested"
	}
	return &Fault{rule: &r}, nil
}

// ended reports whether the rule has no effect any more. a.mu is held.
func (a *active) ended(now time.Time) bool {
	return a.rule.Count > 0 && a.hits >= a.rule.Count || a.rule.For > 0 && now.Sub(a.added) >= time.Duration(a.rule.For)
}

// take counts a request that matches and reports whether the rule has an effect on it.
func (a *active) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended(now) {
		return false
	}
	a.requests++
	n := a.requests - a.rule.Skip
	if n <= 0 || a.rule.Nth > 1 && n%a.rule.Nth != 0 || a.choice != nil && a.choice.Float64() >= a.rule.Share {
		return false
	}
	if a.limit == nil { // a request within the rate of a throttle does not count as a hit
		a.hits++
	}
	return true
}

// hit counts a request that was throttled.
func (a *active) hit() {
	a.mu.Lock()
	a.hits++
	a.mu.Unlock()
}
