package logstore

import "iter"

// Merge returns the lines of several queries in the order of time; lines with the same time in the order of the
// arguments. The first error ends it.
func Merge(queries ...iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		type source struct {
			next func() (Entry, error, bool)
			head Entry
		}
		var sources []*source
		// advance reads a source's next line, and reports whether it has one.
		advance := func(s *source) (more bool, err error) {
			s.head, err, more = s.next()
			return more, err
		}
		for _, q := range queries {
			next, stop := iter.Pull2(q)
			defer stop()
			s := &source{next: next}
			more, err := advance(s)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if more {
				sources = append(sources, s)
			}
		}
		for len(sources) > 0 {
			first := 0
			for i, s := range sources {
				if s.head.Time.Before(sources[first].head.Time) {
					first = i
				}
			}
			if !yield(sources[first].head, nil) {
				return
			}
			more, err := advance(sources[first])
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !more {
				sources = append(sources[:first], sources[first+1:]...)
			}
		}
	}
}
