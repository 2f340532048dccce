package dashboard

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// liveEvery is the interval at which the stream of an open page reports changes.
const liveEvery = time.Second

// live is the event stream of the pages that keep themselves current. An event is the number of changes so far; the
// page fetches itself again when it differs from the one before. An event does not say what changed: the page asks for
// what it shows, while it is visible, and never more often than its cost allows.
func (d *dashboard) live(w http.ResponseWriter, r *http.Request) error {
	// Bounded: each page holds a connection, and a browser of many tabs would use those that the services need.
	end, ok := d.options.Requests.Watch()
	if !ok {
		return frame.NewProblem(http.StatusServiceUnavailable, "Too many pages follow the server", "Close one of them.")
	}
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	last, silent := d.options.Requests.Changed(), time.Duration(0)
	// At once: the page learns the number that its content is of. A change before the first tick would be missed
	// otherwise.
	fmt.Fprintf(w, "data: %d\n\n", last)
	for {
		// An error means that the browser is gone.
		if control.Flush() != nil {
			return nil
		}
		for waiting := true; waiting; {
			select {
			case <-r.Context().Done():
				return nil
			case <-tick.C:
			}
			// Lines of comment keep proxies from closing a connection that seems idle.
			silent += liveEvery
			if n := d.options.Requests.Changed(); n != last {
				last, silent, waiting = n, 0, false
				fmt.Fprintf(w, "data: %d\n\n", n)
			} else if silent >= keepAlive {
				silent, waiting = 0, false
				fmt.Fprint(w, ": no changes\n\n")
			}
		}
	}
}
