package broker

import (
	"errors"

	"github.com/quorate/quorate/argument"
)

// fromArgument makes the first of the faults an *Error and names the others in its
// reason.
func fromArgument(err error, about Error) error {
	var first *argument.Error
	if !errors.As(err, &first) {
		return translate(err, about)
	}
	about.Class, about.Arg, about.Value, about.Reason = PreconditionFailed, first.Arg, first.Value, first.Reason
	about.cause = err
	if first.OtherType {
		about.Problem = ProblemQueueType
	}
	for _, f := range faults(err)[1:] {
		about.Reason += "; also " + f.Error()
	}
	return &about
}

// faults flattens joined errors.
func faults(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, faults(e)...)
	}
	return all
}
