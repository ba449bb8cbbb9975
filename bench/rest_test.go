package main

import "testing"

func TestMegabytes(t *testing.T) {
	const status = "Name:\tnode\nVmHWM:\t 9001 kB\nVmRSS:\t  9000 kB\nRssAnon:\t  2000 kB\nRssFile:\t 7000 kB\n"
	for name, want := range map[string]float64{"VmRSS": 9.216, "RssAnon": 2.048} {
		if mb, err := megabytesIn(status, name); err != nil || mb != want {
			t.Errorf("%s: %g MB, %v, want %g", name, mb, err, want)
		}
	}
	for _, wrong := range []string{"", "VmRSS", "Name:\tnode\nVmRSS:\n", "Name:\tnode\nVmRSS:\t9 MB\n", "Name:\tnode\nRssAnon:\t9 kB\n"} {
		if mb, err := megabytesIn(wrong, "VmRSS"); err == nil {
			t.Errorf("%q is %g MB", wrong, mb)
		}
	}
}
