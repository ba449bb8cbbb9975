package metadata

import (
	"testing"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A member gets a vote only when it has the log, however short that is.
func TestHasLog(t *testing.T) {
	const commit = 1000
	for name, test := range map[string]struct {
		group   id.GroupID
		applied uint64
		failed  string
		commit  uint64
		want    bool
	}{
		"has all":                      {group: id.CatalogGroup, applied: commit, commit: commit, want: true},
		"is a little behind":           {group: id.CatalogGroup, applied: commit - maxCatalogLag, commit: commit, want: true},
		"is behind":                    {group: id.CatalogGroup, applied: commit - maxCatalogLag - 1, commit: commit},
		"has failed":                   {group: id.CatalogGroup, applied: commit, failed: "no", commit: commit},
		"has nothing":                  {group: id.CatalogGroup, commit: commit},
		"has nothing of a short log":   {group: id.CatalogGroup, commit: 5},
		"has a short log":              {group: id.CatalogGroup, applied: 1, commit: 5, want: true},
		"says nothing of its catalog":  {group: id.CatalogGroup + 1, applied: commit, commit: commit},
		"has nothing, and the log too": {group: id.CatalogGroup},
	} {
		s := &nodev1.NodeStatusResponse{
			Groups: []*nodev1.GroupStatus{{Group: uint64(test.group), AppliedIndex: test.applied, Failed: test.failed}},
		}
		if got := hasLog(s, test.commit); got != test.want {
			t.Errorf("one that %s: %v", name, got)
		}
	}
}
