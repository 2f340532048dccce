package parameters

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// odd are values that no parameter is made for, beside those of probes.
var odd = []string{"", "0", "-1", "99999999999999999999", "*", "true", "None", lease, otherLease, "{etag}",
	"{snapshot}", "{version}", "{future}", "{past}", "bytes=0-0", "bytes=9-1", "bytes=0-18446744073709551615",
	"AAAAAAAAAAA=", md5Of("one"), md5Of(page), "a=1&b=2", "\"x\"", "\u00e9", strings.Repeat("x", 9<<10)}

// TestCombinations sends each operation with parameters that no other test has together: those that clients send with
// it, and those of other operations of the service, two to five at a time. An answer of 500 or more is an error, but
// for 501; so is a refused request after which a read differs. By default it tries few, the same in each run.
func TestCombinations(t *testing.T) {
	t.Parallel()
	f := open(t)
	tries := 16
	if os.Getenv("LAZULI_TEST_FULL") != "" {
		tries = 60
	}
	pools := map[string][]parameter{} // by service
	operations := load(t)
	for _, o := range operations {
		pools[o.service] = append(pools[o.service], o.parameters...)
	}
	for _, o := range operations {
		name := o.service + " " + o.name
		for _, sc := range []scene{scenes[name], renames[name]} {
			if sc.request.method == "" {
				continue
			}
			sc.service = o.service
			h := fnv.New64()
			_, _ = h.Write([]byte(name))
			c := combiner{f: f, sc: sc, own: o.parameters, foreign: pools[o.service],
				rand: rand.New(rand.NewPCG(h.Sum64(), uint64(len(sc.request.target))))}
			t.Run(name, func(t *testing.T) { c.run(t, tries) })
			if o.service == "dfs" { // on blobs of an account without directories, too
				c.flat = true
				t.Run(name+" (flat)", func(t *testing.T) { c.run(t, tries) })
			}
		}
	}
}

// combiner tries combinations for a scene.
type combiner struct {
	f            *fixture
	sc           scene
	own, foreign []parameter
	rand         *rand.Rand
	flat         bool // of the dfs endpoint, on an account without a hierarchical namespace
}

// stage prepares the scene. It returns nil if the account cannot have it, as some of trees in flat accounts.
func (c *combiner) stage(t *testing.T) *stage {
	of := c.sc.service
	if c.flat {
		of = "blob"
	}
	s := c.f.stage(t, of, c.sc.scoped)
	s.service = c.sc.service
	for _, r := range c.sc.prepare {
		if a := s.send(t, r); a.status >= 400 {
			if !c.flat {
				t.Fatalf("preparing %s %s: %s", r.method, r.target, a.text)
			}
			return nil
		}
	}
	return s
}

// run sends the request of the scene with combinations of parameters. A stage serves until a request succeeds.
func (c *combiner) run(t *testing.T, tries int) {
	var s *stage
	var before string
	for range tries {
		if s == nil {
			if s = c.stage(t); s == nil {
				return
			}
			before = c.look(t, s)
		}
		r := c.combine()
		a := s.send(t, r)
		if a.status >= 500 && a.status != 501 {
			t.Errorf("%s %s %v: %s", r.method, r.target, r.header, a.text)
		}
		if a.status < 400 {
			if r.method != "HEAD" && (r.method != "GET" || len(c.sc.after) > 0) { // it may have changed something
				s = nil
			}
			continue
		}
		if now := c.look(t, s); now != before {
			t.Fatalf("%s %s %v was refused:\n%s\nand had an effect:\n%s\nbefore:\n%s", r.method, r.target, r.header, a.text,
				now, before)
		}
	}
}

// look returns what the reads of the scene say, with the entity tags and versions that differ from run to run.
func (c *combiner) look(t *testing.T, s *stage) string {
	var b strings.Builder
	for _, r := range c.sc.after {
		a := s.send(t, r)
		b.WriteString(r.method + " " + r.target + "\n" + a.text + "\n")
		for _, h := range []string{"Etag", "Last-Modified", "X-Ms-Version-Id"} {
			b.WriteString(h + ": " + a.header.Get(h) + "\n")
		}
	}
	return b.String()
}

// combine returns the request of the scene with two to five parameters, of which one may be missing instead.
func (c *combiner) combine() request {
	r := c.sc.request
	if names := slices.Sorted(maps.Keys(r.header)); len(names) > 0 && c.rand.IntN(6) == 0 {
		r = r.without("header " + names[c.rand.IntN(len(names))])
	}
	for range 2 + c.rand.IntN(4) {
		pool := c.own
		if len(pool) == 0 || c.rand.IntN(4) == 0 {
			pool = c.foreign
		}
		p := pool[c.rand.IntN(len(pool))]
		kind, name, _ := strings.Cut(p.name, " ")
		switch {
		case kind == "element", strings.EqualFold(name, "Content-Length"), kind == "query" && (name == "comp" ||
			name == "restype" || name == "resource" || name == "action"):
			continue // another operation, or no header that a client sets
		}
		if name == "x-ms-meta-" {
			p.name += "a"
		}
		values := append(slices.Clone(p.values), probes[p.name]...)
		values = append(values, probes[p.name]...)
		if len(values) == 0 || c.rand.IntN(3) == 0 {
			values = odd
		}
		v := values[c.rand.IntN(len(values))]
		if kind == "query" && len(v) > 100 {
			continue
		}
		if kind == "query" {
			v = strings.NewReplacer("\"", "%22", "\u00e9", "%C3%A9", "&", "%26").Replace(v)
		}
		r = r.with(p.name, v)
	}
	return r
}
