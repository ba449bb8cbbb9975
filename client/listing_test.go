package client

import (
	"errors"
	"slices"
	"testing"
)

// A listing asks for the next page when the one before is used up. It ends when its user has enough, and with an error.
func TestPages(t *testing.T) {
	broken := errors.New("broken")
	var asked []string
	listing := pages(func(token string) ([]int, string, error) {
		asked = append(asked, token)
		switch token {
		case "":
			return []int{1, 2}, "second", nil
		case "second":
			return nil, "third", nil
		case "third":
			return []int{3}, "fourth", nil
		}
		return []int{4}, "", broken
	})
	for n, err := range listing {
		if err != nil {
			t.Fatal(err)
		}
		if n == 2 {
			break
		}
	}
	if !slices.Equal(asked, []string{""}) {
		t.Errorf("asked for the pages %q before they were needed", asked)
	}
	all, err := Collect(listing)
	if !slices.Equal(all, []int{1, 2, 3}) || !errors.Is(err, broken) || !slices.Equal(asked, []string{"", "", "second", "third", "fourth"}) {
		t.Errorf("%v, %v, asked for %q", all, err, asked)
	}
}
