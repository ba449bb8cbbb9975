package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name string
		in   string
		ok   bool
		want string
	}{
		{
			name: "all pass, in order of their numbers",
			in: `{"Action":"start","Package":"p"}
{"Action":"pass","Test":"TestT012","Elapsed":0.5}
{"Action":"attr","Test":"TestT011","Key":"case","Value":"the default exchange"}
{"Action":"pass","Test":"TestT011/bind","Elapsed":1}
{"Action":"pass","Test":"TestT011","Elapsed":1}
{"Action":"pass","Package":"p"}
`,
			ok: true,
			want: `T011 ok      1.00s  the default exchange
T012 ok      0.50s
2 passed, 0 failed, 0 skipped
`,
		},
		{
			name: "skips are counted with their reason",
			in: `{"Action":"output","Test":"TestT002","Output":"    a_test.go:9: needs users\n"}
{"Action":"skip","Test":"TestT002"}
{"Action":"output","Test":"TestT003/x","Output":"    a_test.go:12: needs AMQP\n"}
{"Action":"skip","Test":"TestT003/x"}
{"Action":"pass","Test":"TestT003"}
{"Action":"pass","Package":"p"}
`,
			ok: true,
			want: `T002 skip    0.00s  needs users
T003 skip    0.00s  needs AMQP
0 passed, 0 failed, 2 skipped
`,
		},
		{
			name: "a failure shows its output",
			in: `{"Action":"output","Test":"TestT004","Output":"    a_test.go:9: got 1, want 2\n"}
{"Action":"fail","Test":"TestT004","Elapsed":2}
{"Action":"fail","Package":"p"}
`,
			want: `T004 FAIL    2.00s
     |     a_test.go:9: got 1, want 2
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "a case that never ends has failed",
			in: `{"Action":"run","Test":"TestT005"}
{"Action":"output","Test":"TestT005","Output":"panic: x\n"}
`,
			want: `T005 FAIL    0.00s
     | panic: x
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "a package that does not build has failed",
			in: `{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`,
			want: `     | undefined: x
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "nothing at all has failed",
			in:   "",
			want: `no case ran: check that internal/cases has a TestT001
0 passed, 1 failed, 0 skipped
`,
		},
		{
			name: "plain text of the go command is shown",
			in:   "stat internal/cases: directory not found\n",
			want: `     | stat internal/cases: directory not found
no case ran: check that internal/cases has a TestT001
0 passed, 1 failed, 0 skipped
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := Report(strings.NewReader(tt.in), &out)
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok || out.String() != tt.want {
				t.Errorf("ok = %v, want %v\ngot:\n%s\nwant:\n%s", ok, tt.ok, out.String(), tt.want)
			}
		})
	}
}
