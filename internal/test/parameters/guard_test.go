package parameters

import (
	"strings"
	"testing"
)

// unknown is a value of no enumeration.
const unknown = "bogus"

func TestEveryParameterMatters(t *testing.T) {
	t.Parallel()
	f := open(t)
	used := map[string]bool{}
	for _, o := range load(t) {
		name := o.service + " " + o.name
		sc, ok := scenes[name]
		if r, ok := refused[name]; ok {
			a := f.stage(t, o.service, false).send(t, r.request)
			if a.status != r.status || !strings.Contains(a.text, r.code) {
				t.Errorf("%s is answered %s, not %d %s", name, a.text, r.status, r.code)
			}
			continue
		}
		if !ok {
			t.Errorf("%s has no scene: is it implemented?", name)
			continue
		}
		t.Run(name, func(t *testing.T) { f.guard(t, used, name, o, sc) })
		if sc, ok := renames[name]; ok {
			sc.service, o.answers = o.service, nil
			t.Run(name+" (rename)", func(t *testing.T) { f.guard(t, used, name+" (rename)", o, sc) })
		}
	}
	for name := range exceptions {
		if !used[name] {
			t.Errorf("%s: no parameter of that name is sent", name)
		}
	}
}

// guard checks that each parameter of an operation has an effect. used collects the exceptions that were needed.
func (f *fixture) guard(t *testing.T, used map[string]bool, name string, o operation, sc scene) {
	f.seen = map[string]bool{}
	base := f.observe(t, sc, sc.request, false)
	if base.status >= 400 {
		t.Fatalf("the scene fails: %s", base.text)
	}
	if again := f.observe(t, sc, sc.request, false); again.text != base.text {
		t.Fatalf("two runs of the same scene differ:\n%s\n\n%s", base.text, again.text)
	}
	defer func() {
		for _, more := range answering[name] {
			more.service = o.service
			f.observe(t, more, more.request, more.scoped)
		}
		for _, h := range o.answers {
			if !f.seen[h] && unanswered[name+" "+h] == "" && unanswered[o.service+" "+h] == "" {
				t.Errorf("the answer never has %s", h)
			}
		}
	}()
	first, firstBase := sc, base
	for _, p := range o.parameters {
		sc, base := first, firstBase
		if v, other := variant(name, p.name, sc); other {
			sc, base = v, f.observe(t, v, v.request, false)
			if base.status >= 400 {
				t.Fatalf("the scene of %s fails: %s", p.name, base.text)
			}
		}
		if why := exception(used, name, p.name); why != "" {
			continue
		}
		if len(p.values) == 1 {
			// The SDK sends this value only. Another one must be noticed.
			if exception(used, name, p.name+" "+p.values[0]) == "" {
				f.mustMatter(t, sc, base, p.name, probesOf(name, p.name, unknown))
			}
			continue
		}
		if len(p.values) > 1 {
			for _, v := range append(p.values, unknown) {
				switch {
				case exception(used, name, p.name+" "+v) != "":
				case sc.request.has(p.name, v):
					if f.observe(t, sc, sc.request.without(p.name), false).text == base.text {
						t.Errorf("%s: %s is accepted and ignored", p.name, v)
					}
				default:
					f.mustMatter(t, sc, base, p.name, []string{v})
				}
			}
			continue
		}
		f.mustMatter(t, sc, base, p.name, probesOf(name, p.name, ""))
	}
}

// mustMatter fails unless one of the values of a parameter changes what can be observed.
func (f *fixture) mustMatter(t *testing.T, sc scene, base answer, parameter string, values []string) {
	t.Helper()
	if len(values) == 0 {
		t.Errorf("%s: no value to try: add one to probes_test.go", parameter)
	}
	for _, v := range values {
		got := f.observe(t, sc, sc.request.with(parameter, v), strings.Contains(parameter, "scope"))
		if got.text != base.text {
			if got.status >= 500 && got.status != 501 {
				t.Errorf("%s: %s: %s", parameter, v, got.text)
			}
			return
		}
	}
	t.Errorf("%s: %s is accepted and ignored", parameter, strings.Join(values, " and "))
}
