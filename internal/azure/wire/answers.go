package wire

import "reflect"

// Answers maps the errors of the packages below a service's handlers to the errors that answer them. A service has one;
// a test of package lint looks for a row of every error that those packages export.
type Answers map[error]*Error

// Of returns the answer to err: its own if the first error in its tree that has one is of the protocol already, or that
// error's row. It returns err itself if no error in the tree has an answer, which is a defect.
func (a Answers) Of(err error) error {
	if found := a.find(err); found != nil {
		return found
	}
	return err
}

func (a Answers) find(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	// A key of a map must be comparable, and errors need not be: an error of a slice would panic here.
	if reflect.TypeOf(err).Comparable() {
		if e := a[err]; e != nil {
			return e
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return a.find(e.Unwrap())
	case interface{ Unwrap() []error }:
		// errors.Join has no order of importance; the first one that has an answer is answered.
		for _, e := range e.Unwrap() {
			if found := a.find(e); found != nil {
				return found
			}
		}
	}
	return nil
}
