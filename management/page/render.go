package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
)

//go:embed templates
var templateFiles embed.FS

// contentOf begins the name of the template with a page's own part; the name of its file follows. All files share one
// set of templates: with a set for each page, layout and shared parts would be in memory as often as there are pages.
const contentOf = "content of "

// parsePages parses the embedded templates. They are part of the program, so an error is a panic, which every test of
// this package would see.
func parsePages(a assets) *template.Template {
	return template.Must(template.New("").Funcs(functions(a)).ParseFS(templateFiles, "templates/*.html"))
}

// shown is what a template gets.
type shown struct {
	*visit
	Title   string
	Theme   string // dark, light, or empty for the browser's own
	Notice  string
	Data    any
	Content template.HTML // the page's own part, for the layout
}

// User is the user's name; "" without logins.
func (s shown) User() string { return s.who.Name }

// Entered reports whether the visitor is past the login, if there is one.
func (s shown) Entered() bool { return s.token != "" || !s.site.Guard.Asks() }

// LoggedIn reports whether there is a session to end.
func (s shown) LoggedIn() bool { return s.token != "" }

// FormToken goes into every form.
func (s shown) FormToken() string { return formToken(s.token) }

// Silent names the nodes whose part of the page is missing.
func (s shown) Silent() string {
	nodes := slices.Clone(s.silent)
	slices.Sort(nodes)
	return strings.Join(slices.Compact(nodes), ", ")
}

// Here reports whether the page is one of a menu's.
func (s shown) Here(menu string) bool {
	at := strings.TrimPrefix(s.URL.Path, "/ui/")
	one := strings.TrimSuffix(menu, "s")
	if many, is := strings.CutSuffix(menu, "ies"); is {
		one = many + "y"
	}
	return at == menu || menu != "" && (at == one || strings.HasPrefix(at, menu+"/") || strings.HasPrefix(at, one+"/"))
}

// Address is the page's own address, with its query.
func (s shown) Address() string { return s.URL.RequestURI() }

// IsOneOf reports whether the page's path is one of several with spaces between; nil is none.
func (s shown) IsOneOf(paths any) bool {
	all, _ := paths.(string)
	return slices.Contains(strings.Fields(all), s.URL.Path)
}

// Query returns a parameter of the page's address.
func (s shown) Query(name string) string { return s.URL.Query().Get(name) }

// With returns the page's own address with parameters changed: names and values in turn; an empty value removes one.
func (s shown) With(pairs ...any) string {
	q := s.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := fmt.Sprint(pairs[i+1]); v == "" {
			q.Del(fmt.Sprint(pairs[i]))
		} else {
			q.Set(fmt.Sprint(pairs[i]), v)
		}
	}
	if len(q) == 0 {
		return s.URL.Path
	}
	return s.URL.Path + "?" + q.Encode()
}

// themeCookie is set by the page's script.
const themeCookie = "quorate_theme"

// render answers with a page.
func (s *site) render(w http.ResponseWriter, v *visit, code int, file, title string, data any) {
	out := shown{visit: v, Title: title, Data: data, Notice: v.takeNotice()}
	if c, err := v.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		out.Theme = c.Value
	}
	var content, page bytes.Buffer
	err := s.pages().ExecuteTemplate(&content, contentOf+file, out)
	if err == nil {
		out.Content = template.HTML(content.String()) //nolint:gosec // a template has written it, and escaped what it was given
		err = s.pages().ExecuteTemplate(&page, "layout", out)
	}
	if err != nil {
		s.Logger.Error("a page could not be rendered", "page", file, "error", err)
		http.Error(w, "This page could not be rendered; the node's log has the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if _, err := w.Write(page.Bytes()); err != nil {
		s.Logger.Debug("a page could not be sent", "error", err)
	}
}

// refuse answers with an error: in a form's place if a script asks, otherwise as a page. Who has to log in is sent there.
func (s *site) refuse(v *visit, err error) {
	f, is := errors.AsType[*fault](err)
	if !is {
		s.Logger.Error("a page could not be made", "path", v.URL.Path, "error", err)
		f = &fault{Code: http.StatusInternalServerError, Kind: "internal_error", Reason: "this page could not be made; the node's log has the reason"}
	}
	switch {
	case f.Code == http.StatusUnauthorized:
		setCookie(v.w, v.Request, sessionCookie, "", 0)
		v.token = ""
		to := address("/ui/login", "next", v.backHere())
		if v.byScript() {
			v.w.Header().Set("HX-Redirect", to)
			v.w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Redirect(v.w, v.Request, to, http.StatusSeeOther)
	case v.byScript():
		v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		v.w.Header().Set("HX-Retarget", "#notice")
		v.w.Header().Set("HX-Reswap", "innerHTML")
		v.w.Header().Set("HX-Reselect", ".fault")
		v.w.WriteHeader(f.Code)
		if err := s.pages().ExecuteTemplate(v.w, "fault", f); err != nil {
			s.Logger.Debug("an error could not be sent", "error", err)
		}
	default:
		s.render(v.w, v, f.Code, "fault.html", http.StatusText(f.Code), f)
	}
}

// backHere is the address to return to after a login: that of a page, since a form would have to be sent again.
func (v *visit) backHere() string {
	if v.Method == http.MethodGet {
		return v.URL.RequestURI()
	}
	return ""
}

// jsonText writes a value as indented JSON.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the template escapes
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}
