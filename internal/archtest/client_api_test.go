package archtest

import (
	"go/types"
	"slices"
	"strings"
	"testing"
)

// No exported signature, field or variable of the client mentions a type of the API's messages, however deep:
// they may change with the API, and the client may not.
func TestClientExportsNothingOfTheAPI(t *testing.T) {
	const client = "client"
	// Read as source too, so that the result is cached by the client's files.
	if !slices.ContainsFunc(load(t), func(s *source) bool { return s.path == client }) {
		t.Fatalf("no package %s", client)
	}
	p, err := compiled(t, []string{client}).Import(module + "/" + client)
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		objects++
		w := apiWalk{t: t, in: name, seen: map[types.Type]bool{}}
		w.walk(o.Type())
		if named, ok := o.Type().(*types.Named); ok {
			w.methods(named)
		}
	}
	if objects < 100 {
		t.Errorf("%d exported objects were looked at", objects)
	}
	w := apiWalk{t: t, in: "a probe", seen: map[types.Type]bool{}}
	if !w.foreign(types.NewPackage(module+"/proto/broker/v1", "brokerv1")) {
		t.Error("the API's package counts as none of it")
	}
}

// apiWalk goes through all that a user of an exported object can name.
type apiWalk struct {
	t    *testing.T
	in   string
	seen map[types.Type]bool
}

// foreign reports whether a package is of the API or of protobuf.
func (apiWalk) foreign(p *types.Package) bool {
	return p != nil && (strings.HasPrefix(p.Path(), module+"/proto/") || strings.HasPrefix(p.Path(), "google.golang.org/protobuf") ||
		strings.HasPrefix(p.Path(), "google.golang.org/genproto"))
}

func (w *apiWalk) walk(x types.Type) {
	if w.seen[x] {
		return
	}
	w.seen[x] = true
	switch x := x.(type) {
	case *types.Alias:
		w.walk(types.Unalias(x))
	case *types.Named:
		if p := x.Obj().Pkg(); w.foreign(p) {
			w.t.Errorf("%s: %s", w.in, x)
		} else if p != nil && p.Path() != module+"/client" {
			for a := range x.TypeArgs().Types() {
				w.walk(a)
			}
			return
		}
		for a := range x.TypeArgs().Types() {
			w.walk(a)
		}
		w.walk(x.Underlying())
	case *types.Signature:
		w.tuple(x.Params())
		w.tuple(x.Results())
	case *types.Struct:
		for f := range x.Fields() {
			if f.Exported() {
				w.walk(f.Type())
			}
		}
	case *types.Interface:
		for m := range x.Methods() {
			w.walk(m.Type())
		}
	case *types.Map:
		w.walk(x.Key())
		w.walk(x.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		w.walk(x.Elem())
	}
}

func (w *apiWalk) tuple(all *types.Tuple) {
	for v := range all.Variables() {
		w.walk(v.Type())
	}
}

// methods looks at the exported methods, those of embedded types included.
func (w *apiWalk) methods(named *types.Named) {
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if m.Obj().Exported() {
			w.in = named.Obj().Name() + "." + m.Obj().Name()
			w.walk(m.Type())
		}
	}
}
