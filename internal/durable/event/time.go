package event

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// lastYear bounds times: a property of a table has years of four digits.
const lastYear = 9999

// CheckTime fails for a time that a row cannot hold.
func CheckTime(t *timestamppb.Timestamp) error {
	if err := t.CheckValid(); err != nil {
		return err
	}
	if at := t.AsTime(); at.Year() > lastYear || at.Before(time.Unix(0, 0)) {
		return fmt.Errorf("the time %v is not between 1970 and %d", at, lastYear)
	}
	return nil
}
