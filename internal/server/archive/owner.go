package archive

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// A place belongs to one server. The files owner/<epoch> say to which: that of the highest epoch counts, the others are
// history. Each is created once, on condition that it does not exist, and never changed. So of two servers that want
// the same epoch one gets it, and a server that looks for the next epoch of its own and does not find it was the owner
// when it began to look.
const (
	ownerFolder = "owner/"
	ownerKind   = "lazuli archive owner, format"
	serverName  = "server"
	serverKind  = "lazuli archive server, format"

	// Lease is the time for which a server with Options.Fence acknowledges writes after a look that has found no later
	// epoch. looks are made more often, so that one that fails does no harm.
	Lease = 10 * time.Second
	looks = Lease / 5
	// maxBehind is the age of the newest moment in the place at which a server with Options.Fence stops to acknowledge
	// writes: what is lost with the machine is younger. fencedEvery is its longest interval of segments.
	maxBehind   = 15 * time.Second
	fencedEvery = 5 * time.Second
	// fencedNodeEvery is that interval on a node of a cluster: one that does not send learns of the newest moment later,
	// and another one sends only when the first was silent for some intervals.
	fencedNodeEvery = 2 * time.Second

	// claimTimeout bounds the wait for the place at a start.
	claimTimeout = 10 * time.Second
	lockPause    = 20 * time.Millisecond
)

// pointClaimed is the moment at which tests kill a process that has taken a place.
var pointClaimed = fault.Declare("logarchive/claimed")

// Errors about the owner of a place.
var (
	// ErrOwned: the place belongs to another server. The error names it and says what to do.
	ErrOwned = errors.New("belongs to another server")
	// ErrEmptied: what the place had before is not there. A folder may be the mount point of a share that is gone.
	ErrEmptied = errors.New("the archive has lost the record of its owner: is it mounted?")
	// ErrUnconfirmed: the place has not said for some time that it still belongs to this server.
	ErrUnconfirmed = errors.New("it is not known whether this server still owns its archive")
)

// Owner is the server to which a place belongs from an epoch on.
type Owner struct {
	Epoch uint64 `json:"epoch"`
	// Server is the identity of the server's data folder; "" if the place is free. Name is for people.
	Server string `json:"server"`
	Name   string `json:"name"`
	// Since is the time by the clock of the server, for people.
	Since time.Time `json:"since"`
	// Lease is the time in nanoseconds for which the server acknowledges writes after it has looked for a later epoch; 0
	// if it acknowledges them whether it can look or not.
	Lease time.Duration `json:"lease"`
}

func (o *Owner) refusal(p backup.Place) error {
	return fmt.Errorf("the archive %s %w: %s, since %s. Two servers would mix their histories: give this one another "+
		"place. If the other one is gone, or must not write any more, `lazuli backup log release %s` "+
		"frees the place", p, ErrOwned,
		cmp.Or(o.Name, o.Server), o.Since.Format(time.RFC3339), p)
}

func ownerName(epoch uint64) string { return fmt.Sprintf("%s%016x", ownerFolder, epoch) }

// timelineName is the file with the timeline to which the owner of an epoch writes. A former owner that has not heard
// of its end yet writes that of its own epoch.
func timelineName(epoch uint64) string { return ownerName(epoch) + ".timeline" }

// readOwner returns the record of an epoch. Errors: backup.ErrAbsent, those of the place.
func readOwner(ctx context.Context, p backup.Place, epoch uint64) (o Owner, err error) {
	text, err := p.Get(ctx, ownerName(epoch))
	if err == nil {
		err = sumfile.Decode(text, ownerKind, format, &o)
	}
	if err == nil && o.Epoch != epoch {
		err = fmt.Errorf("%w: %s: %s is another record", ErrDamaged, p, ownerName(epoch))
	}
	return o, err
}

// confirm returns an ErrEmptied unless the place has the record of an epoch, which is never removed: what is absent in
// an empty folder may be in the place all the same.
func (a *Shard) confirm(ctx context.Context, epoch uint64) error {
	_, err := readOwner(ctx, a.o.Place, epoch)
	if errors.Is(err, backup.ErrAbsent) {
		return fmt.Errorf("%w (%s, epoch %d). If its content was removed on purpose, stop the server and remove the folder "+
			"%s", ErrEmptied, a.o.Place, epoch, a.dir)
	}
	return err
}

// OwnerOf returns to whom a place belongs. The zero value is a place that no server has used.
func OwnerOf(ctx context.Context, p backup.Place) (o Owner, err error) {
	newest := uint64(0)
	if err := p.List(ctx, ownerFolder, func(name string) error {
		if n, err := strconv.ParseUint(strings.TrimPrefix(name, ownerFolder), 16, 64); err == nil {
			newest = max(newest, n)
		}
		return nil
	}); err != nil || newest == 0 {
		return o, err
	}
	return readOwner(ctx, p, newest)
}

// create makes a server the owner from an epoch on. Errors: backup.ErrExists if there is the epoch already.
func (o *Owner) create(ctx context.Context, p backup.Place) error {
	text, err := sumfile.Encode(ownerKind, format, o)
	if err != nil {
		return err
	}
	return p.Create(ctx, ownerName(o.Epoch), text)
}

// Release takes a place from its owner, which stops to write to it and, with a lease, stops to acknowledge writes by
// the end of that. The next server that starts with the place gets it.
func Release(ctx context.Context, p backup.Place, now time.Time) (former Owner, err error) {
	for {
		former, err = OwnerOf(ctx, p)
		if err != nil || former.Server == "" {
			return former, err
		}
		free := Owner{Epoch: former.Epoch + 1, Since: now.UTC(), Lease: former.Lease}
		if err = free.create(ctx, p); !errors.Is(err, backup.ErrExists) {
			return former, err
		}
	}
}

// loadServer returns the identity of the server of a folder, which it makes at the first call.
func loadServer(dir string) (id string, err error) {
	path := filepath.Join(dir, serverName)
	err = sumfile.Read(path, serverKind, format, &id)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return id, err
	}
	id = strings.ToLower(rand.Text())
	return id, sumfile.Write(disk.OS, path, serverKind, format, id)
}

// server returns the name of the server of a data folder, for people.
func displayName(dir string) string {
	host, _ := os.Hostname()
	return host + " " + filepath.Dir(dir)
}

// title returns the name of the server, for people.
func (a *Shard) title() string {
	if a.shared.on {
		return a.server
	}
	return displayName(a.dir)
}

// lease returns the lease that the options ask for.
func (a *Shard) lease() time.Duration {
	if a.o.Fence {
		return Lease
	}
	return 0
}

// FenceName identifies the place of an archive with a fence; "" without one. It does not tell the place.
func (a *Archive) FenceName() string {
	if !a.o.Fence {
		return ""
	}
	s := sha256.Sum256([]byte("lazuli archive fence " + a.o.Place.String()))
	return hex.EncodeToString(s[:12])
}

// leases reports whether this server can have the place with an owner's lease without another epoch. Of a cluster one
// node alone cannot say that all of them have a fence: see raise.
func (a *Shard) leases(lease time.Duration) bool {
	return lease == a.lease() || a.shared.on && (lease == 0 || a.o.Fence)
}

// errLeased refuses a node that would acknowledge writes which the others don't.
var errLeased = errors.New("the archive of this cluster has a fence, and this node has not: start it with " +
	"archive-fence. To take the fence away, stop all nodes, run `lazuli backup log release`, and start them without it")

// raise says in the place that all nodes have a fence, so that a standby can take over. It comes after
// [Node.Current]: the nodes of the majority that has answered are connected to this one, so they have the same fence,
// and refuse nodes without it. Those can have no majority from then on, since the majority of the nodes finds the
// lease in the place, and does not start without a fence. The caller holds cutting.
func (a *Shard) raise(ctx context.Context) error {
	if a.in.keeper != a { // a cluster with more than one shard has no fence
		return nil
	}
	if !a.o.Fence || a.state.Lease > 0 {
		return nil
	}
	if err := a.shared.node.Fenced(); err != nil {
		a.warnFence(err)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	next := Owner{Epoch: a.state.Epoch + 1, Server: a.server, Name: a.title(), Since: a.o.Now().UTC(), Lease: Lease}
	// The timeline comes before the epoch, whose nodes would find none.
	text, err := sumfile.Encode(timelineKind, format, a.state.Timeline)
	if err == nil {
		err = a.o.Place.Put(ctx, timelineName(next.Epoch), text)
	}
	if err == nil {
		err = next.create(ctx, a.o.Place)
	}
	if err != nil && !errors.Is(err, backup.ErrExists) {
		return err
	}
	return a.own(ctx) // this node or another one has created it
}

// warnFence says once why a standby cannot take over.
func (a *Shard) warnFence(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.shared.warned {
		a.shared.warned = true
		a.o.Log.Warn("a standby of this cluster cannot take over yet", "err", err)
	}
}

// claim takes the place for this server, or finds that this server owns it already. The caller holds cutting, or is
// alone. Errors: ErrOwned, ErrEmptied, backup.ErrNotPlace, those of the place.
func (a *Shard) claim(ctx context.Context) error {
	if a.state.Epoch > 0 { // before anything is created
		if err := a.confirm(ctx, a.state.Epoch); err != nil {
			return err
		}
	}
	err := a.prepare(ctx)
	for errors.Is(err, backup.ErrLocked) && ctx.Err() == nil {
		// Another process marks the place, or makes a backup in it.
		select {
		case <-ctx.Done():
		case <-time.After(lockPause):
			err = a.prepare(ctx)
		}
	}
	if err != nil {
		return err
	}
	waited := false
	for {
		began := a.o.Now()
		o, err := OwnerOf(ctx, a.o.Place)
		switch {
		case err != nil:
			return err
		case o.Server != a.server && o.Server != "":
			return o.refusal(a.o.Place)
		case o.Server == "" && o.Lease > 0 && !waited:
			// Its former owner may not have heard yet that the place was released, and acknowledges writes for a lease. This
			// server waits before it takes the place, so that one that is killed meanwhile waits as well.
			a.o.Log.Warn("the archive was released: its former owner may acknowledge writes for some seconds, and this server "+
				"starts after them", "to", a.o.Place.String(), "wait", (Lease + Lease/rateMargin).String())
			a.o.Sleep(Lease + Lease/rateMargin)
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
			defer cancel()
			waited = true
			continue
		case o.Server == a.server && a.shared.on && o.Lease > 0 && !a.o.Fence:
			return errLeased
		case o.Server != a.server || !a.leases(o.Lease):
			// A server that changes its lease takes another epoch: who would take the place from it reads the lease of the
			// epoch that it ends.
			next := Owner{Epoch: max(o.Epoch, a.state.Epoch) + 1, Server: a.server, Name: a.title(),
				Since: a.o.Now().UTC(), Lease: a.lease()}
			if a.shared.on {
				next.Lease = 0
			}
			err := next.create(ctx, a.o.Place)
			if errors.Is(err, backup.ErrExists) {
				continue
			}
			if err = errors.Join(err, fault.Point(pointClaimed)); err != nil {
				return err
			}
			o = next
		}
		if o.Epoch != a.state.Epoch {
			a.state.Announced = "" // each epoch has its own file
		}
		a.state.Epoch, a.state.Lease, a.state.Fenced = o.Epoch, o.Lease, a.o.Fence
		a.epoch.Store(o.Epoch)
		a.looked.Store(&began)
		return a.state.save(a.dir)
	}
}

// prepare creates the place, and its parts.
func (a *Shard) prepare(ctx context.Context) error {
	if a.parts > 1 {
		return backup.PrepareShards(ctx, a.o.Place, a.parts)
	}
	return backup.Prepare(ctx, a.o.Place)
}

// lose notes that the place belongs to another server, as an error says, and returns that.
func (a *Shard) lose(err error) error {
	if a.lost.CompareAndSwap(nil, &err) {
		a.o.Log.Error("the archive belongs to another server: this one writes nothing to it any more", "err", err)
	}
	return err
}

// look asks the place whether it still belongs to this server. Errors: ErrOwned, ErrEmptied,
// those of the place.
func (a *Shard) look(ctx context.Context) error {
	if err := a.lost.Load(); err != nil {
		return *err
	}
	for {
		// The time comes first: if the next epoch is not found, it did not exist then.
		began, epoch := a.o.Now(), a.epoch.Load()
		o, err := readOwner(ctx, a.o.Place, epoch+1)
		switch {
		case errors.Is(err, backup.ErrAbsent):
			if err := a.confirm(ctx, epoch); err != nil {
				return err
			}
			a.looked.Store(&began)
			return nil
		case err != nil:
			return err
		case o.Server != a.server || !a.shared.on:
			return a.lose(o.refusal(a.o.Place))
		case !a.leases(o.Lease):
			return a.lose(errLeased)
		}
		// Another node of the cluster has begun the epoch.
		a.epoch.CompareAndSwap(epoch, o.Epoch)
	}
}

// own makes sure that the place belongs to this server. The caller holds cutting.
func (a *Shard) own(ctx context.Context) error {
	if k := a.in.keeper; k != a {
		return a.ownAs(ctx, k)
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if a.epoch.Load() == 0 { // the place did not answer at the start
		err := a.claim(ctx)
		if errors.Is(err, ErrOwned) || errors.Is(err, errLeased) {
			return a.lose(err)
		}
		return err
	}
	if err := a.look(ctx); err != nil || a.epoch.Load() == a.state.Epoch {
		return err
	}
	return a.claim(ctx)
}

// ownAs is own of a shard whose place the keeper has.
func (a *Shard) ownAs(ctx context.Context, k *Shard) error {
	// Without its lock if possible: no shard waits for the requests of another one.
	bounded, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	var err error
	if k.epoch.Load() == 0 || k.shared.on { // another node may have begun an epoch, which the keeper notes
		k.cutting.Lock()
		err = k.own(ctx)
		k.cutting.Unlock()
	} else {
		err = k.look(bounded)
	}
	if epoch := k.epoch.Load(); err == nil && epoch != a.state.Epoch {
		a.state.Epoch, a.state.Announced = epoch, "" // each epoch has its own file
	}
	return err
}

// keepLooking renews the lease until ctx ends.
func (a *Shard) keepLooking(ctx context.Context) {
	tick := time.NewTicker(looks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A look that hangs must not keep the next one from being made: it ends with the lease that it would renew.
		bounded, cancel := context.WithTimeout(ctx, Lease)
		if err := a.look(bounded); err != nil {
			a.o.Log.Debug("the owner of the archive is not confirmed", "err", err)
		}
		cancel()
	}
}

// Allow implements [store.Archive]: without Options.Fence writes are always allowed. With it they end once another
// server may have the place, and before more than maxBehind of them would be lost with this machine.
func (a *Shard) Allow() error {
	if !a.o.Fence {
		return nil
	}
	k := a.in.keeper
	if err := k.lost.Load(); err != nil {
		return *err
	}
	now := a.o.Now()
	if at := k.looked.Load(); at == nil || elapsed(*at, now) >= Lease {
		return fmt.Errorf("%w: %s has not answered for %s", ErrUnconfirmed, a.o.Place, Lease)
	}
	// Between the open of the databases and Attach nothing is sent, and no request is served.
	since := a.attached.Load()
	if s := a.position.Load(); since != nil && s.Until > 0 {
		if from := time.Unix(0, max(s.Until, since.UnixNano())); now.Sub(from) > maxBehind {
			return fmt.Errorf("%w: the newest moment in %s is more than %s old", ErrUnconfirmed, a.o.Place, maxBehind)
		}
	}
	return nil
}

// elapsed returns the time between two readings of a clock. The monotonic clock of Linux stands still while the machine
// sleeps, and the other one may be set: the longer time counts, which at worst ends a lease too early.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
