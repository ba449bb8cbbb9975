package replica

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
)

// taken takes so many members, or all for a negative number, and returns them in order.
func (d *demand) taken(count int) (all []id.QueueUID) {
	for len(all) != count {
		uid, some := d.next()
		if !some {
			break
		}
		all = append(all, uid)
	}
	return all
}

// Members that somebody waits for go first, also if they were in line already, and each is opened once.
func TestDemand(t *testing.T) {
	d := newDemand()
	for _, uid := range []id.QueueUID{1, 2, 3, 4} {
		d.add(uid, false)
	}
	d.add(5, true)
	d.add(3, true)
	d.add(5, true)
	d.add(3, false) // it stays in front
	d.add(1, false)
	if got, want := d.taken(-1), []id.QueueUID{5, 3, 1, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("opened %v, want %v", got, want)
	}
	if len(d.asked)+len(d.waited)+len(d.others) > 0 {
		t.Errorf("%+v is left", d)
	}
}

// One that was opened may be asked for again, whatever is left of it in line.
func TestDemandAgain(t *testing.T) {
	d := newDemand()
	d.add(1, false)
	d.add(2, false)
	d.add(2, true)
	if got := d.taken(1); !slices.Equal(got, []id.QueueUID{2}) {
		t.Fatalf("opened %v first", got)
	}
	d.add(2, false)
	d.add(3, false)
	if got, want := d.taken(-1), []id.QueueUID{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("opened %v, want %v", got, want)
	}
}

// However many somebody waits for, the others come too, though seldom.
func TestDemandStarvesNobody(t *testing.T) {
	d := newDemand()
	const other = 1_000_000
	for i := range id.QueueUID(10 * waitedInRow) {
		d.add(other+i, false)
		d.add(1+i, true)
	}
	for range 10 {
		got := d.taken(waitedInRow + 1)
		behind := slices.IndexFunc(got, func(uid id.QueueUID) bool { return uid >= other })
		if len(got) != waitedInRow+1 || behind != waitedInRow {
			t.Fatalf("opened %v, want %d that somebody waits for and then another one", got, waitedInRow)
		}
	}
	left := d.taken(-1)
	if len(left) != 10*waitedInRow-10 || left[0] != other+10 || !slices.IsSorted(left) {
		t.Errorf("left are %v", left)
	}
}
