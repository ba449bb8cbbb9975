package main

import (
	"testing"

	"github.com/quorate/quorate/internal/publicroots"
)

// Where the system trusts nobody, as in the image, there are public authorities all the same.
func TestPublicAuthorities(t *testing.T) { publicroots.Trusted(t, nil) }
