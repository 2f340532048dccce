package tier

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Two copies of a data folder have the same identity. Each would remove the objects that only the other one needs. So
// each start takes the next generation by creating its object: a folder whose last generation is not the newest one has
// a copy that was started later, and does not start; one that runs copies and removes nothing from then on.

// Errors of Attach.
var (
	// ErrOwned means that a copy of the folder was started later.
	ErrOwned = errors.New("a copy of this data folder was started with the same tier later: one of the two must end, " +
		"and only the one that was started last may go on")
	// ErrNotPlace means that the store does not have the content of this folder.
	ErrNotPlace = errors.New("the object store is another one: it does not have the content of this data folder")
	// ErrKey means that the content of the store was encrypted with another key.
	ErrKey = errors.New("the content of the object store was encrypted with another key, or with none")
)

const (
	stateName    = "state"
	stateKind    = "lazuli tier state, format"
	stateVersion = 1

	// sweepEvery is the interval of the searches for objects that nothing needs.
	sweepEvery = time.Hour
)

// state is stored in the folder of the tier.
type state struct {
	// Place is the store, without secrets.
	Place string `json:"place"`
	// Generation is the last one that this folder took, or was about to take, and Nonce what it has written there.
	Generation uint64 `json:"generation"`
	Nonce      string `json:"nonce"`
	// Taken means that the object of the generation was created.
	Taken bool `json:"taken"`
	// Folder is the identity of the folder of extents, and Key tells the key from another one. Owner has the generations.
	Folder string `json:"folder"`
	Owner  string `json:"owner,omitempty"`
	Key    string `json:"key"`
	// Unneeded has since when objects are not needed, by their names, in Unix seconds.
	Unneeded map[string]int64 `json:"unneeded"`
}

func readState(dir string) (s state, err error) {
	err = sumfile.Read(filepath.Join(dir, stateName), stateKind, stateVersion, &s)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// PlaceOf returns the store that a folder of a tier was last used with; "" if the folder had no tier.
func PlaceOf(dir string) (string, error) {
	s, err := readState(dir)
	return s.Place, err
}

func (t *Tier) saveState() error {
	if err := sumfile.Write(t.o.FS, filepath.Join(t.o.Dir, stateName), stateKind, stateVersion, &t.state); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	return nil
}

// checkKey compares the key with that of before.
func (t *Tier) checkKey() error {
	if t.state.Generation > 0 && t.state.Key != checkOf(t.o.Key, t.state.Folder) {
		return ErrKey
	}
	return nil
}

// owner is the content of the object of a generation.
type owner struct {
	Nonce string `json:"nonce"`
	Key   string `json:"key"`
}

// folder is the folder of the objects; "" for a cluster that has none yet.
func (t *Tier) folder() string { return t.extents.FolderID() }

// owner is the folder of the generations, with a slash at its end.
func (t *Tier) owner() string {
	if t.shared != nil {
		return fmt.Sprintf("%s/owner-%06x/", t.folder(), t.shared.Number())
	}
	return t.folder() + "/owner/"
}

func (t *Tier) ownerName(generation uint64) string { return t.owner() + idText(generation) }

// settle makes sure that the store and the key are those of the other nodes of the cluster. The first node creates the
// object that tells the store from another one, before any node can rely on it.
func (t *Tier) settle(ctx context.Context) error {
	folder, key := t.shared.Agreed()
	if folder == "" {
		mine := rand.Text()
		err := t.o.Objects.Create(ctx, mine+placeName, strings.NewReader(placeText), int64(len(placeText)))
		if err != nil {
			return err
		}
		if folder, key, err = t.shared.Agree(mine, checkOf(t.o.Key, mine)); err != nil {
			return err
		}
		// Another node was faster.
		if folder != mine {
			if err := t.o.Objects.Remove(ctx, mine+placeName); err != nil {
				return err
			}
		}
	}
	if key != checkOf(t.o.Key, folder) {
		return ErrKey
	}
	p := make([]byte, len(placeText))
	err := t.o.Objects.Range(ctx, folder+placeName, 0, p)
	if errors.Is(err, ErrAbsent) {
		return fmt.Errorf("%w (%s)", ErrNotPlace, t.o.Objects)
	}
	return err
}

const (
	placeName = "/place"
	placeText = "content of a shard of a Lazuli cluster\n"
)

// newest returns the newest generation in the store; 0 before the first.
func (t *Tier) newest(ctx context.Context) (generation uint64, o owner, err error) {
	var size int64
	err = t.o.Objects.List(ctx, t.owner(), func(name string, n int64) error {
		if g, ok := parseID(name[strings.LastIndexByte(name, '/')+1:]); ok && g > generation {
			generation, size = g, n
		}
		return nil
	})
	if err != nil || generation == 0 {
		return 0, o, err
	}
	p := make([]byte, min(size, 4096))
	if err = t.o.Objects.Range(ctx, t.ownerName(generation), 0, p); err == nil {
		err = json.Unmarshal(p, &o)
	}
	return generation, o, err
}

// claim takes the next generation, once for each start.
func (t *Tier) claim(ctx context.Context) error {
	t.claiming.Lock()
	defer t.claiming.Unlock()
	if t.claimed {
		return nil
	}
	if t.shared != nil {
		if err := t.settle(ctx); err != nil {
			return err
		}
	}
	// The newest generation must be the last one of this folder. The step at which the last start was killed decides
	// which one that is.
	s := &t.state
	// A node that has another number, or a folder that has become that of a node, begins with generations of its own.
	if t.shared != nil && s.Owner != t.owner() {
		*s = state{Owner: t.owner()}
	}
	found, o, err := t.newest(ctx)
	switch {
	case err != nil:
		return err
	// A process that was killed between the object and the note of it finds its own nonce.
	case found == s.Generation && found > 0 && o.Nonce == s.Nonce && o.Key == checkOf(t.o.Key, t.folder()):
	case found == s.Generation && found > 0 && o.Nonce == s.Nonce:
		return ErrKey
	case found == 0 && s.Generation == 0:
	case found+1 == s.Generation && !s.Taken: // killed before the object
	case found < s.Generation:
		return fmt.Errorf("%w (%s)", ErrNotPlace, t.o.Objects)
	default:
		return fmt.Errorf("%w (%s)", ErrOwned, t.ownerName(found))
	}
	s.Place = t.o.Objects.String()
	s.Folder = t.folder()
	s.Key = checkOf(t.o.Key, t.folder())
	// The note comes first: after a kill between the two, the next start would take an object without a note for the
	// object of a copy of this folder, and would refuse to start.
	s.Generation = found + 1
	s.Nonce = rand.Text()
	s.Taken = false
	if err := errors.Join(t.saveState(), fault.Point(pointClaiming)); err != nil {
		return err
	}
	text, err := json.Marshal(owner{s.Nonce, s.Key})
	if err == nil {
		err = t.o.Objects.Create(ctx, t.ownerName(s.Generation), bytes.NewReader(text), int64(len(text)))
	}
	if errors.Is(err, ErrExists) {
		return fmt.Errorf("%w (%s)", ErrOwned, t.ownerName(s.Generation))
	}
	if err = errors.Join(err, fault.Point(pointClaimed)); err != nil {
		return err
	}
	s.Taken = true
	t.claimed = true
	return t.saveState()
}

var (
	pointClaiming = fault.Declare("tier/claiming")
	pointClaimed  = fault.Declare("tier/claimed")
)

// stillOwner returns nil while no copy of the folder was started. The caller holds claiming.
func (t *Tier) stillOwner(ctx context.Context) error {
	found, o, err := t.newest(ctx)
	if err == nil && (found != t.state.Generation || o.Nonce != t.state.Nonce) {
		t.claimed = false
		err = fmt.Errorf("%w (%s)", ErrOwned, t.ownerName(found))
	}
	return err
}

// Sweep removes the objects that no extent has needed for Options.Keep, and the generations of former starts. Objects
// of other names are left alone.
func (t *Tier) Sweep(ctx context.Context) (removed int, err error) {
	if err := t.claim(ctx); err != nil {
		return 0, err
	}
	t.claiming.Lock()
	defer t.claiming.Unlock()
	if err := t.stillOwner(ctx); err != nil {
		return 0, err
	}
	var names []string
	folder, owned := t.folder()+"/", t.owner()
	err = t.o.Objects.List(ctx, folder, func(name string, _ int64) error { names = append(names, name); return nil })
	if err != nil {
		return 0, fmt.Errorf("tier: list %s: %w", t.o.Objects, err)
	}
	// Also after the list: the note of an object of another node may be in the log, and not applied here.
	if t.shared != nil {
		if err := t.shared.Refresh(); err != nil {
			return 0, fmt.Errorf("tier: %w", err)
		}
	}
	// After the list: an extent exists before its object does, and no id is used twice.
	exists := map[uint64]bool{}
	for _, x := range t.extents.Stats() {
		exists[x.ID] = true
	}
	// An object must have been found without an extent before, at least Keep ago. The time of its death is not known, and
	// that of its creation says nothing.
	now := t.o.Now()
	unneeded := map[string]int64{}
	var gone []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, owned); ok {
			// Only the newest generation says who the owner is.
			if g, ok := parseID(rest); ok && g < t.state.Generation {
				gone = append(gone, name)
			}
			continue
		}
		id, ok := parseID(strings.TrimPrefix(name, folder))
		if !ok || exists[id] || t.shared != nil && !t.shared.Mine(id) {
			continue
		}
		since, known := t.state.Unneeded[name]
		if !known {
			since = now.Unix()
		}
		if known || t.o.Keep < 0 {
			if now.Sub(time.Unix(since, 0)) >= t.o.Keep {
				gone = append(gone, name)
				continue
			}
		}
		unneeded[name] = since
	}
	// The note comes first. A process that is killed before an object is removed notes it again.
	t.state.Unneeded = unneeded
	if err := t.saveState(); err != nil {
		return 0, err
	}
	for _, name := range gone {
		if err := t.o.Objects.Remove(ctx, name); err != nil {
			return removed, fmt.Errorf("tier: remove %s: %w", name, err)
		}
		if !strings.HasPrefix(name, owned) {
			removed++
			t.removed.Add(1)
		}
		if err := fault.Point(pointSwept); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

var _ io.ReaderAt = (*object)(nil)
