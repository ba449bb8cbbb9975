package page

import (
	"html/template"
	"io/fs"
	"log/slog"
	"path"
	"runtime"
	"strings"
	"testing"
)

// All files share one set of templates: in it a name that two files define would be the later one's, without an error. Each
// page has its own part.
func TestTemplates(t *testing.T) {
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil || len(files) < len(views()) {
		t.Fatal(files, err)
	}
	definedIn := map[string]string{}
	for _, file := range files {
		text, err := templateFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range template.Must(template.New("").Funcs(functions(newAssets())).Parse(string(text))).Templates() {
			if other := definedIn[x.Name()]; other != "" && x.Name() != "" {
				t.Errorf("%q is defined in %s and %s", x.Name(), other, file)
			}
			definedIn[x.Name()] = file
		}
	}
	all := parsePages(newAssets())
	for _, x := range views() {
		if all.Lookup(contentOf+x.file) == nil {
			t.Errorf("%s: no template %q", x.path, contentOf+x.file)
		}
	}
	for name, file := range definedIn {
		if page, is := strings.CutPrefix(name, contentOf); is && page != path.Base(file) {
			t.Errorf("%s has the part of %s", file, page)
		}
	}
}

// A node whose page nobody opens has no template in memory: parsed they take megabytes.
func TestNoTemplatesWithoutVisitors(t *testing.T) {
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what the first one has finalised
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	site := New(Config{Logger: slog.New(slog.DiscardHandler)})
	after := live()
	if after > before+512<<10 {
		t.Errorf("a site without visitors takes %d bytes", after-before)
	}
	runtime.KeepAlive(site)
}
