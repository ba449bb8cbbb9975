package page_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/management/page"
)

// sends sends a document in a form, as a file or as a text.
func (x *browser) sends(as, document string, fields url.Values) (code int, body string) {
	x.t.Helper()
	b := &bytes.Buffer{}
	form := multipart.NewWriter(b)
	var err error
	write := func(name, value string) {
		if err == nil {
			err = form.WriteField(name, value)
		}
	}
	write("form_token", x.form)
	if as == "file" {
		w, failed := form.CreateFormFile("file", "definitions.json")
		if err = failed; err == nil {
			_, err = w.Write([]byte(document))
		}
		write("text", "")
	} else {
		write("text", document)
	}
	for name := range fields {
		write(name, fields.Get(name))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		x.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.base+"/ui/definitions/import", b)
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	code, body, _ = x.do(r)
	return code, body
}

// document has a queue that is there, one that differs, one that is new, a user that differs and one that is refused.
const document = `{"queues":[
	{"name":"same","vhost":"/","durable":true,"type":"quorum","arguments":{"x-queue-type":"quorum"}},
	{"name":"other","vhost":"/","durable":true,"type":"quorum","arguments":{"x-queue-type":"quorum","x-max-length":5}},
	{"name":"<u>new","vhost":"/","durable":true,"type":"quorum","arguments":{"x-queue-type":"quorum"}}],
	"users":[{"name":"guest","password_hash":"secret-hash","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["management"]},{"name":"a:b","tags":[],"password":"p"}]}`

var comparedField = regexp.MustCompile(`name="compared" value="([0-9a-f]{64})"`)

// A document is compared before it is applied, and only the one that was compared is applied.
func TestDefinitions(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	for _, name := range []string{"same", "other"} {
		x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {name}})
	}
	if page.MaxDocumentBytes != definitions.MaxBytes {
		t.Errorf("the page takes %d bytes, the API %d", page.MaxDocumentBytes, definitions.MaxBytes)
	}
	for _, as := range []string{"file", "text"} {
		code, body := x.sends(as, document, url.Values{"act": {"compare"}})
		if code != http.StatusOK {
			t.Fatalf("%d\n%s", code, body)
		}
		for _, want := range []string{"What would be done", "&lt;u&gt;new", ">new<", ">different<", "<code>arguments.x-max-length</code>", ">refused<", "<code>tags</code>", "another one"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in\n%s", want, body)
			}
		}
		if strings.Contains(body, "<u>") || as == "file" && strings.Contains(body, "secret-hash") || strings.Contains(body, "argon2id$") {
			t.Errorf("shows what it must not:\n%s", body)
		}
		if code, _, _ := x.get("/ui/queue?vhost=%2F&name=%3Cu%3Enew"); code != http.StatusNotFound {
			t.Fatalf("comparing has made the queue: %d", code)
		}
	}
	_, body := x.sends("text", document, url.Values{"act": {"compare"}})
	found := comparedField.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("nothing to apply in\n%s", body)
	}
	apply := url.Values{"act": {"apply"}, "compared": {found[1]}}
	if code, body := x.sends("text", document+" ", apply); code != http.StatusBadRequest || !strings.Contains(body, "not the one that was compared") {
		t.Errorf("another document: %d\n%s", code, body)
	}
	if code, body := x.sends("file", document, apply); code != http.StatusOK || !strings.Contains(body, "What was done") || !strings.Contains(body, ">made<") {
		t.Errorf("%d\n%s", code, body)
	}
	x.shows("/ui/queue?vhost=%2F&name=%3Cu%3Enew", "&lt;u&gt;new")
	if code, body := x.sends("file", `{"queues":[`, url.Values{"act": {"compare"}}); code != http.StatusBadRequest || !strings.Contains(body, "nothing is imported") {
		t.Errorf("half a document: %d\n%s", code, body)
	}
	if code, body := x.sends("text", " ", url.Values{"act": {"compare"}}); code != http.StatusBadRequest || !strings.Contains(body, "choose a file") {
		t.Errorf("no document: %d\n%s", code, body)
	}
	testExport(t, x)
	testForgedImport(t, s)
}

// testExport downloads what there is, whole and of a vhost, and finds it unchanged.
func testExport(t *testing.T, x *browser) {
	for path, into := range map[string]string{"/ui/definitions/export": "", "/ui/definitions/export?vhost=%2F": "/"} {
		code, exported, _ := x.get(path)
		if code != http.StatusOK || !strings.Contains(exported, `"name": "<u>new"`) {
			t.Fatalf("%s: %d\n%s", path, code, exported)
		}
		if code, body := x.sends("file", exported, url.Values{"act": {"compare"}, "vhost": {into}}); code != http.StatusOK || !strings.Contains(body, "Everything in the document is there already") {
			t.Errorf("%s: %d\n%s", path, code, body)
		}
	}
}

// testForgedImport sends documents without the session's token, and without a right.
func testForgedImport(t *testing.T, s site) {
	x := s.login("guest", "guest")
	x.form = "wrong"
	if code, _ := x.sends("file", document, url.Values{"act": {"compare"}}); code != http.StatusForbidden {
		t.Errorf("a forged form: %d", code)
	}
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	if code, body := w.sends("file", document, url.Values{"act": {"compare"}}); code != http.StatusForbidden || !strings.Contains(body, "administrator") {
		t.Errorf("%d\n%s", code, body)
	}
}
