package chaos

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

const (
	sharedName  = "shared" // partition and container of the keys that all clients write
	counterName = "counter"
	registers   = 3 // of each kind
)

// write is a write of a shared register. Times are those of shared.clock.
type write struct {
	begun, ended int // ended is 0 while the write is not acknowledged
}

// register is the model of a key that all clients overwrite without conditions.
type register struct {
	writes map[int]*write // by value; 0 is the absent value
}

// shared is the model of the keys that all clients write.
type shared struct {
	mu        sync.Mutex // guards what follows
	clock     int
	registers map[string]*register
	issued    map[int]bool // values of all writes of registers
	counter   map[int]bool // values of the counter whose increment was acknowledged
	base      int          // value of the counter when it was last compared
	doubts    int          // increments in doubt since
}

func newShared() *shared {
	s := &shared{registers: map[string]*register{}, issued: map[int]bool{}, counter: map[int]bool{}}
	for i := range registers {
		for _, kind := range []string{"entity", "blob"} {
			s.registers[kind+strconv.Itoa(i)] = &register{map[int]*write{0: {0, 0}}}
		}
	}
	return s
}

// begin returns the value of a new write of a register.
func (s *shared) begin(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	s.registers[name].writes[s.clock] = &write{begun: s.clock}
	s.issued[s.clock] = true
	return s.clock
}

func (s *shared) end(name string, value int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	s.registers[name].writes[value].ended = s.clock
}

// compare compares a register with the model. The value may be that of a write in doubt, or of one that no write
// follows which began after its end and was acknowledged.
func (s *shared) compare(name string, got int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.registers[name]
	// writes holds those that may still be the value: a write that an acknowledged later one replaced is dropped at a
	// comparison.
	w := r.writes[got]
	if w == nil && got == 0 {
		return broken(Lost, "shared: %s is absent", name)
	}
	if w == nil && s.issued[got] {
		return broken(Stale, "shared: %s has value %d, which was replaced before the last comparison", name, got)
	}
	if w == nil {
		return broken(Wrong, "shared: %s has value %d, which no request wrote", name, got)
	}
	// A write in doubt may have happened at any time until now, so nothing can be later than it.
	if got == 0 || w.ended > 0 {
		for value, later := range r.writes {
			// Later means begun after the end of the other. Two that overlapped may have happened in either order.
			if later.ended > 0 && later.begun > w.ended {
				if got == 0 {
					return broken(Lost, "shared: %s is absent, value %d was acknowledged", name, value)
				}
				return broken(Stale, "shared: %s has value %d, which the acknowledged value %d replaced", name, got, value)
			}
		}
	}
	return nil
}

// adopt makes a value the only one that was written.
func (s *shared) adopt(name string, got int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock += 2
	s.registers[name].writes = map[int]*write{got: {s.clock - 1, s.clock}}
	if got == 0 {
		s.registers[name].writes[0] = &write{}
	}
}

// sharedClient is one of the clients that write the shared keys.
type sharedClient struct {
	*shared
	first     bool // this one compares for all of them
	table     *aztables.Client
	container *container.Client
}

func (c *sharedClient) connect(p *process) (err error) {
	if c.table, err = openTable(p); err != nil {
		return err
	}
	c.container, err = openContainer(p, sharedName)
	return err
}

type sharedEntity struct {
	PartitionKey, RowKey string
	Value                int
}

func sharedBody(name string, value int) []byte {
	p, err := json.Marshal(sharedEntity{sharedName, name, value})
	if err != nil {
		panic(err)
	}
	return p
}

func (c *sharedClient) setup(ctx context.Context) error {
	if !c.first {
		return nil
	}
	if _, err := c.table.CreateTable(ctx, nil); err != nil && status(err) != http.StatusConflict {
		return err
	}
	if _, err := c.container.Create(ctx, nil); err != nil {
		return err
	}
	_, err := c.table.AddEntity(ctx, sharedBody(counterName, 0), nil)
	return err
}

func (c *sharedClient) step(ctx context.Context, rnd *rand.Rand) (err error) {
	i := strconv.Itoa(rnd.IntN(registers))
	switch rnd.IntN(3) {
	case 0:
		return c.increment(ctx)
	case 1:
		value := c.begin("entity" + i)
		if _, err = c.table.UpsertEntity(ctx, sharedBody("entity"+i, value), nil); err == nil {
			c.end("entity"+i, value)
		}
	default:
		value := c.begin("blob" + i)
		content := body(sharedBody("blob"+i, value))
		if _, err = c.container.NewBlockBlobClient("blob"+i).Upload(ctx, content, &blockblob.UploadOptions{}); err == nil {
			c.end("blob"+i, value)
		}
	}
	return err
}

func (c *sharedClient) read(ctx context.Context, name string) (value int, etag azcore.ETag, err error) {
	a, err := c.table.GetEntity(ctx, sharedName, name, nil)
	if err != nil {
		return 0, "", err
	}
	var e sharedEntity
	if err := json.Unmarshal(a.Value, &e); err != nil || e.RowKey != name {
		return 0, "", broken(Wrong, "shared: entity %s reads as %.200s", name, a.Value)
	}
	return e.Value, a.ETag, nil
}

// increment adds 1 to the counter if no other client has changed it since it was read.
func (c *sharedClient) increment(ctx context.Context) error {
	value, etag, err := c.read(ctx, counterName)
	if err != nil {
		return err
	}
	_, err = c.table.UpdateEntity(ctx, sharedBody(counterName, value+1),
		&aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeReplace})
	if status(err) == http.StatusPreconditionFailed {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.doubts++
		return err
	}
	if c.counter[value+1] {
		return broken(Doubled, "shared: two increments of the counter to %d were acknowledged", value+1)
	}
	c.counter[value+1] = true
	return nil
}

func (c *sharedClient) check(ctx context.Context, out *checker, _ bool) {
	if !c.first {
		return
	}
	out.add(c.checkCounter(ctx, out.damaged))
	for name := range c.registers {
		value, err := c.value(ctx, name)
		if err == nil {
			if err = c.compare(name, value); err == nil {
				c.adopt(name, value)
			}
		}
		out.add(err)
	}
}

func (c *sharedClient) checkCounter(ctx context.Context, damaged bool) error {
	value, _, err := c.read(ctx, counterName)
	if status(err) == http.StatusNotFound {
		return broken(Lost, "shared: the counter is absent")
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch least, most := c.base+len(c.counter), c.base+len(c.counter)+c.doubts; {
	case value < least:
		return broken(Lost, "shared: the counter is %d, and %d were acknowledged", value, least)
	case value > most:
		return broken(Doubled, "shared: the counter is %d, at most %d is right", value, most)
	}
	if !damaged {
		c.base, c.doubts = value, 0
		clear(c.counter)
	}
	return nil
}

// value returns the value of a register, 0 if it is absent.
func (c *sharedClient) value(ctx context.Context, name string) (int, error) {
	if name[0] == 'e' {
		value, _, err := c.read(ctx, name)
		if status(err) == http.StatusNotFound {
			return 0, nil
		}
		return value, err
	}
	r, err := c.container.NewBlobClient(name).DownloadStream(ctx, nil)
	if status(err) == http.StatusNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	p, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	var e sharedEntity
	// The name is in the content: a blob under another blob's name reads well otherwise.
	if err := json.Unmarshal(p, &e); err != nil || e.RowKey != name || e.Value == 0 {
		return 0, broken(Wrong, "shared: blob %s reads as %.200q", name, p)
	}
	return e.Value, nil
}
