package failure

import (
	"errors"

	"github.com/quorate/quorate/argument"
)

// FromArgument makes an *Error of the first fault, and adds the others to its reason.
func FromArgument(err error, about Error) error {
	var first *argument.Error
	if !errors.As(err, &first) {
		return Translate(err, about)
	}
	about.Class, about.Arg, about.Value, about.Reason = PreconditionFailed, first.Arg, first.Value, first.Reason
	about.Cause = err
	if first.OtherType {
		about.Problem = ProblemQueueType
	}
	for _, f := range Faults(err)[1:] {
		about.Reason += "; also " + f.Error()
	}
	return &about
}

// Faults returns joined errors as a flat list.
func Faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Faults(e)...)
	}
	return all
}
