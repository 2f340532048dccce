package frame

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

// What is counted of a container or table, at most: 50,000 items, and as many as a second allows.
const (
	countedItems = 50_000
	countedSpan  = time.Second
)

// Size has the items and bytes of a container or table. More means that it has more than was counted.
type Size struct {
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"`
	More  bool   `json:"more"`
	Count string `json:"count"` // for people: "50,000+"
	Text  string `json:"size"`  // of the bytes, "" for a table
}

// Counting runs a listing until it ends, or enough is counted. page adds a page and reports whether there are more.
func Counting(ctx context.Context, s *Size, page func(context.Context) (more bool, err error)) error {
	end := time.Now().Add(countedSpan)
	for s.More = true; s.More && s.Items < countedItems && time.Now().Before(end); {
		var err error
		if s.More, err = page(ctx); err != nil {
			return err
		}
	}
	s.Count = display.AtLeast(s.Items, s.More)
	return nil
}
