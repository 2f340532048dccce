package archive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The moments at which tests kill a standby that is promoted.
var (
	pointTaken    = fault.Declare("standby/taken")
	pointSealed   = fault.Declare("standby/sealed")
	pointFilled   = fault.Declare("standby/filled")
	pointPromoted = fault.Declare("standby/promoted")
)

// A standby takes over in four steps, each of which can be repeated after a crash:
//
//	Take     creates the next epoch of the place, so that the other server finds it and does not renew its lease
//	wait     for the lease of the other server
//	Seal     reads what that has sent meanwhile, and creates the segment that would be its next one
//	Finish   makes the files those of a single server
//
// The other server acknowledges nothing that a look does not cover that began before the epoch was created. So by its
// own clock its last acknowledgement is earlier than Lease after that. The wait here begins after the epoch was created
// and is longer by rateMargin: enough for clocks whose rates differ by less than a tenth. The times that clocks show do
// not matter.
const rateMargin = 10

// Errors of a promotion, and of a server that was promoted or had a fence.
var (
	// ErrNoFence: the server that owns the place does not stop when the place is taken.
	ErrNoFence = errors.New("the server that owns the archive has no archive-fence: it would go on to acknowledge writes")
	// ErrBehind: the standby does not have everything that the place has.
	ErrBehind = errors.New("the standby does not follow the archive")
	// ErrFenced: the server of a data folder had Options.Fence, and would run without the archive. The error says what to
	// do.
	ErrFenced = errors.New("the server of this data folder had archive-fence")
)

// Take takes the place for this standby and returns the time to wait until the other server has stopped. force does so
// although that has no fence, or although the standby could not read all that the place has. Errors: ErrNoFence,
// ErrBehind, those of the place. Nothing was taken then, unless the error is one of the place.
func (f *Follower) Take(ctx context.Context, force bool) (wait time.Duration, err error) {
	if !f.Consistent() {
		return 0, fmt.Errorf("%w: it has no moment yet", ErrBehind)
	}
	if p := f.Status().Problem; p != "" && !force {
		return 0, fmt.Errorf("%w: %s", ErrBehind, p)
	}
	for {
		o, err := OwnerOf(ctx, f.o.Place)
		if err != nil {
			return 0, err
		}
		if o.Server != f.server {
			if o.Lease == 0 && !force {
				return 0, fmt.Errorf("%w (%s, epoch %d)", ErrNoFence, o.Name, o.Epoch)
			}
			next := Owner{Epoch: o.Epoch + 1, Server: f.server, Name: displayName(f.dir), Since: f.o.Now().UTC(), Lease: Lease}
			err := next.create(ctx, f.o.Place)
			if errors.Is(err, backup.ErrExists) {
				continue
			}
			if err = errors.Join(err, fault.Point(pointTaken)); err != nil {
				return 0, err
			}
		}
		// If it was taken by a former call, how long ago is not known: the whole time again.
		return Lease + Lease/rateMargin, nil
	}
}

// Wait waits for the time that Take has returned.
func (f *Follower) Wait(ctx context.Context, d time.Duration) error { return f.o.Sleep(ctx, d) }

// Seal creates the segment that would be the next one of the other server, so that it sends no more. sealed is false if
// there is one that was not read yet. The standby has taken the place.
func (f *Follower) Seal(ctx context.Context) (sealed bool, err error) {
	if f.state.Filled { // by a former call, and Step reads no more
		return true, nil
	}
	file, _, err := encodeSegment(header{Timeline: f.state.Timeline, Number: f.state.Next, Prev: f.state.Tail,
		Until: f.state.Complete, Sealed: true}, nil)
	if err != nil {
		return false, err
	}
	err = f.o.Place.Create(ctx, segmentName(f.state.Timeline, f.state.Next), file)
	if errors.Is(err, backup.ErrExists) {
		return false, nil
	}
	return err == nil, errors.Join(err, fault.Point(pointSealed))
}

// Finish makes the files those of a single server, with everything that was read. The services are closed. It returns
// the moment up to which the files have every write. It may be called again after a crash.
func (f *Follower) Finish() (until time.Time, err error) {
	moment := max(f.state.Until, f.state.Complete)
	if !f.state.Filled {
		// Groups that are later than the last complete moment were acknowledged, too.
		if err := f.apply(math.MaxInt64, moment); err != nil {
			return until, err
		}
	}
	note := func() error {
		f.state.Filled = true
		return errors.Join(f.save(), fault.Point(pointFilled))
	}
	if err := backup.FinishStandby(f.d, f.have, f.state.Filled, note, f.o.Now()); err != nil {
		return until, err
	}
	f.state.Promoted = f.o.Now().UTC()
	if err := errors.Join(f.save(), fault.Point(pointPromoted)); err != nil {
		return until, err
	}
	f.publish(nil)
	err = os.Remove(filepath.Join(f.dir, coverageName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return time.Unix(0, moment).UTC(), errors.Join(err, f.dropSegments())
}

// CheckUnfenced returns an ErrFenced if the server of a data folder must not write without its archive, whose folder
// dir is: another server may have taken that over, which only the place knows.
func CheckUnfenced(dir string) error {
	s, err := loadState(dir, "")
	if err != nil {
		return err
	}
	place := s.Place
	if place == "" { // a promotion that was killed has no state of the archive yet
		var f follow
		err := sumfile.Read(filepath.Join(dir, followName), followKind, format, &f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		place = f.Place
	} else if s.Lease == 0 && !s.Fenced {
		return nil
	}
	if place == "" {
		return nil
	}
	return fmt.Errorf("%w, and another one may have taken over its archive since: start it with that archive, %s. If it "+
		"is to go on without one, and no other server has taken over, or to look at what it has, remove the folder %s first",
		ErrFenced, place, dir)
}
