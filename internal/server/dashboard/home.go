package dashboard

import (
	"net/http"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// homePage holds what the home page shows.
type homePage struct {
	Health      string // why the services do not serve everything
	Rates       requestlog.Rates
	Chart       string // the points of a line of 300 by 60 units
	Memory      int64
	Up          string
	Folder      string
	InMemory    bool
	Free, Size  int64       // of the disk, -1 where it is not known
	Tier        *tier.Stats // nil without a tier of content
	Connections []connection
	Failures    []*requestlog.Request
	Contents    []contents
	Archive     *archiveLine // nil without an archive
	Standby     *archiveLine // nil unless this is a standby
}

// archiveLine says how far an archive or a standby is behind.
type archiveLine struct{ Place, Behind, Problem string }

// newArchiveLine makes the line of a place whose newest moment is until; zero says that there is no moment.
func newArchiveLine(place string, until time.Time, problem string) *archiveLine {
	l := &archiveLine{place, "no moment yet", problem}
	if !until.IsZero() {
		l.Behind = display.Short(time.Since(until)) + " behind"
	}
	return l
}

func (homePage) Template() string { return "home" }

// tiered is a Backend that may have a tier of content.
type tiered interface{ ContentTier() *tier.Stats }

// home shows whether the server is well, and what to do next.
func (d *dashboard) home(w http.ResponseWriter, r *http.Request) error {
	b := d.options.Backend()
	data := homePage{Rates: d.options.Requests.Rates(), Up: display.Short(time.Since(d.started)), Folder: b.Path(),
		InMemory: d.options.InMemory,
		Free:     -1,
		Failures: d.options.Requests.Latest(requestlog.Filter{Failed: true}, 5, 0)}
	if err := b.Ready(); err != nil {
		data.Health = err.Error()
	}
	if t, ok := b.(tiered); ok {
		data.Tier = t.ContentTier()
	}
	if sent, ok := b.ArchiveSent(); ok {
		data.Archive = newArchiveLine(sent.Place, sent.Until, sent.Problem)
	}
	if s, err := b.StandbyStatus(); err == nil {
		data.Standby = newArchiveLine(s.Place, s.Until, s.Problem)
	}
	data.Chart = points(data.Rates)
	data.Memory = memory()
	if !d.options.InMemory {
		data.Free, data.Size = diskSize(data.Folder)
	}
	names, _ := d.ShownAccounts("")
	for _, name := range names {
		data.Connections = append(data.Connections, connectionOf(b, name))
	}
	for _, name := range names[:min(len(names), countedAccounts)] {
		of := r.Clone(r.Context())
		of.SetPathValue("account", name)
		if c, err := d.contents(of); err == nil {
			data.Contents = append(data.Contents, c)
		}
	}
	return d.Show(w, r, "Home", nil, data)
}

// points are the coordinates of the line of requests per second.
func points(r requestlog.Rates) string {
	var out strings.Builder
	top := max(r.Most, 1)
	for i, n := range r.Seconds {
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(strconv.Itoa(i) + "," + strconv.Itoa(58-n*56/top))
	}
	return out.String()
}

// memory returns the bytes that the process has from the operating system.
func memory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
