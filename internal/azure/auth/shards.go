package auth

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// addedShards is the number of maps of added accounts. A change copies one of them, so that adding 100,000 accounts one
// by one copies some hundred entries each time.
const addedShards = 256

// shards are values by name that are added and removed one by one. Reading takes no lock.
type shards[V any] struct {
	n    atomic.Int64 // how many there are
	maps [addedShards]atomic.Pointer[map[string]*V]

	mu sync.Mutex // held during changes
}

var shardSeed = maphash.MakeSeed()

func shardOf(name string) int { return int(maphash.String(shardSeed, name) % addedShards) }

// get returns the named value, or nil.
func (s *shards[V]) get(name string) *V {
	if s.n.Load() == 0 {
		return nil // no process that has only configured accounts pays for the hash
	}
	if values := s.maps[shardOf(name)].Load(); values != nil {
		return (*values)[name]
	}
	return nil
}

// put adds or replaces a value; nil removes it. mu is held.
func (s *shards[V]) put(name string, value *V) {
	shard := &s.maps[shardOf(name)]
	next := map[string]*V{}
	if old := shard.Load(); old != nil {
		next = maps.Clone(*old)
	}
	before := len(next)
	if value != nil {
		next[name] = value
	} else {
		delete(next, name)
	}
	shard.Store(&next)
	s.n.Add(int64(len(next) - before))
}

// replace replaces all values. mu is held.
func (s *shards[V]) replace(all map[string]*V) {
	var parts [addedShards]map[string]*V
	for i := range parts {
		parts[i] = map[string]*V{}
	}
	for name, value := range all {
		parts[shardOf(name)][name] = value
	}
	for i, part := range parts {
		s.maps[i].Store(&part)
	}
	s.n.Store(int64(len(all)))
}

// each calls fn with the names. mu is held.
func (s *shards[V]) each(fn func(name string)) {
	for i := range s.maps {
		if values := s.maps[i].Load(); values != nil {
			for name := range *values {
				fn(name)
			}
		}
	}
}
