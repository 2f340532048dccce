package chart

import "time"

// Bar is the place of a step in the time of an instance, in thousandths.
type Bar struct{ From, Width int }

// Place returns the bar of a time that begins after a part of the whole.
func Place(after, took, whole time.Duration) Bar {
	const least = 6 // thousandths that can be seen
	whole = max(whole, 1)
	width := max(least, int(min(took, whole)*1000/whole))
	return Bar{From: max(0, min(int(after*1000/whole), 1000-width)), Width: width}
}
