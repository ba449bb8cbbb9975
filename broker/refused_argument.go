package broker

import (
	"errors"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
)

// fromArgument makes the first of the faults an *Error and names the others in its
// reason.
func fromArgument(err error, about failure.Error) error {
	var first *argument.Error
	if !errors.As(err, &first) {
		return failure.Translate(err, about)
	}
	about.Class, about.Arg, about.Value, about.Reason = failure.PreconditionFailed, first.Arg, first.Value, first.Reason
	about.Cause = err
	if first.OtherType {
		about.Problem = failure.ProblemQueueType
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
