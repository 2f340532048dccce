package demo

import (
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/orders"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
)

// Stories are those of a report, if it has any.
func Stories(report any) (list []*story.Story) {
	switch r := report.(type) {
	case *rig.Report:
		if r != nil && r.Story != nil {
			list = append(list, r.Story)
		}
	case *orders.Report:
		if r != nil && r.Story != nil {
			list = append(list, r.Story)
		}
	case *lesson.Lesson:
		for _, m := range r.Mistakes {
			if m.Story != nil {
				list = append(list, m.Story)
			}
		}
		list = append(list, Stories(r.Pattern)...)
	}
	return list
}
