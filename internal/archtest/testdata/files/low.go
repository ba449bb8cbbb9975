package files

type low struct {
	field int
	list  []low
}

func (low) method() { var _ = same }

const constant = 1

var variable = 2

func function() int { return constant }
