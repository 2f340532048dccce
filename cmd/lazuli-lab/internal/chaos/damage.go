package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
)

// damageAll damages copies of a folder and looks what becomes of each. The models are those of the folder.
func (r *run) damageAll(ctx context.Context, round int, folder string) error {
	rnd := rand.New(rand.NewPCG(r.Seed, uint64(round)<<16)) // the same for a seed whatever the clients do
	baseline, err := r.fsck(ctx, folder)
	if err != nil {
		return err
	}
	normal := map[string]bool{}
	for _, f := range baseline.Findings {
		normal[f.String()] = true
	}
	for i := range r.Damage {
		dir := filepath.Join(r.Folder, fmt.Sprintf("damaged-%d-%d", round, i))
		if err := copyFolder(dir, folder); err != nil {
			return err
		}
		what, err := r.damageOne(dir, rnd)
		if err != nil {
			return err
		}
		found, err := r.foundByFsck(ctx, dir, normal)
		if err != nil {
			return err
		}
		outcome, err := r.examine(ctx, dir, found)
		if err != nil {
			return err
		}
		if !found && (outcome == refused || outcome == readError) {
			r.report.Damage.Missed++
			what += ", not found by fsck"
		}
		r.say("round %d: damage: %s: %s", round, what, outcome)
		if outcome == servedWrong {
			// The server may have changed it; damaged again in the same way, it shows what was tried.
			r.report.Findings = append(r.report.Findings, &Finding{round, Wrong, "damage: " + what})
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// owner is a client that knows data which the server must have.
type owner interface {
	// sample returns some bytes of acknowledged data as they are stored, nil if it finds none.
	sample(rnd *rand.Rand) []byte
}

// damageOne flips a bit of a folder: one time in two in live data, otherwise anywhere. It says of which file.
func (r *run) damageOne(dir string, rnd *rand.Rand) (string, error) {
	if rnd.IntN(2) == 0 {
		return damage(dir, rnd)
	}
	for range 20 {
		c, ok := r.clients[rnd.IntN(len(r.clients))].(owner)
		if !ok {
			continue
		}
		text := c.sample(rnd)
		if text == nil {
			continue
		}
		what, err := damageText(dir, text, rnd)
		if what != "" || err != nil {
			r.report.Damage.Aimed++
			return what, err
		}
	}
	return damage(dir, rnd)
}

// damageText flips a bit in one of the places where a folder has a text, which databases and logs have more than once.
// It returns "" if it is absent.
func damageText(dir string, text []byte, rnd *rand.Rand) (what string, err error) {
	type place struct {
		path string
		at   int
	}
	var places []place
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// All places, as a database keeps old pages and a log old records: a flip in one that is no longer read is the case
		// "unaffected".
		for at := 0; ; at++ {
			i := bytes.Index(content[at:], text)
			if i < 0 {
				return nil
			}
			at += i
			places = append(places, place{path, at})
		}
	})
	if err != nil || len(places) == 0 {
		return "", err
	}
	p := places[rnd.IntN(len(places))]
	return flip(dir, p.path, p.at+rnd.IntN(len(text)), rnd.IntN(8))
}

// flip inverts a bit of a file of the folder, and says of which.
func flip(dir, path string, at, bit int) (what string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	content[at] ^= 1 << bit
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, bit %d of byte %d", name, bit, at), os.WriteFile(path, content, 0o600)
}

// generation holds what differs between names of files of one kind.
var generation = lazyregexp.New(`[0-9a-fA-F]{8,}|[0-9]+|chaos[0-9]+|[A-Z0-9]{20,}`)

// damage flips a bit of a file, of each kind of file with the same probability, and says of which.
func damage(dir string, rnd *rand.Rand) (string, error) {
	files := map[string][]string{} // by kind
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		name, err := filepath.Rel(dir, path)
		kind := generation().ReplaceAllString(name, "#")
		if !strings.HasPrefix(name, "reserve") && name != "LOCK" {
			files[kind] = append(files[kind], path)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	kinds := slices.Sorted(maps.Keys(files))
	for range 100 {
		of := files[kinds[rnd.IntN(len(kinds))]]
		path := of[rnd.IntN(len(of))]
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		used := len(bytes.TrimRight(content, "\x00"))
		if used == 0 {
			continue // it has space only
		}
		return flip(dir, path, rnd.IntN(used), rnd.IntN(8))
	}
	return "", errors.New("no file of the folder has content")
}

// foundByFsck reports whether fsck finds in a copy of the folder what is not normal.
func (r *run) foundByFsck(ctx context.Context, dir string, normal map[string]bool) (bool, error) {
	copied := dir + "-fsck"
	if err := copyFolder(copied, dir); err != nil {
		return false, err
	}
	defer os.RemoveAll(copied)
	report, err := r.fsck(ctx, copied)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		return true, nil // it refuses the folder
	}
	return slices.ContainsFunc(report.Findings, func(f fsck.Finding) bool { return !normal[f.String()] }), nil
}

// Outcomes of damage.
const (
	refused     = "refused at the start"
	readError   = "error at read"
	foundByFsck = "found by fsck"
	unaffected  = "unaffected"
	servedWrong = "SERVED WRONG"
)

// examine starts a server on a damaged folder and compares what it has with the models.
func (r *run) examine(ctx context.Context, dir string, found bool) (outcome string, err error) {
	d := &r.report.Damage
	p, err := r.start(ctx, dir)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		// A refusal says why. A trace of goroutines is a panic, which is not an answer to damage.
		if errors.Is(err, killrig.ErrNotReady) && p.Output() != "" && !strings.Contains(p.Output(), "goroutine ") {
			d.Refused++
			return refused, nil
		}
		r.say("%v", err)
		d.Wrong++
		return servedWrong, nil
	}
	defer p.kill()
	if err := r.connect(p); err != nil {
		return "", err
	}
	out := &checker{damaged: true}
	// The checker is lenient in one way: on damage an error is a right answer, a wrong value is not.
	r.checkAll(ctx, out, false)
	switch {
	// Data that is missing and that fsck did not find is the worst case: no one would know. Wrong values are never
	// allowed.
	case !p.Running(), out.has(Wrong), out.has() && !found:
		for _, f := range out.findings {
			r.say("%v", f)
		}
		if !p.Running() {
			r.say("the server ended: %v\n%s", p.Err(), p.Output())
		}
		d.Wrong++
		return servedWrong, nil
	case out.errors > 0:
		d.ReadError++
		return readError, nil
	case out.has():
		d.Found++
		return foundByFsck, nil
	}
	d.Unaffected++
	return unaffected, nil
}
