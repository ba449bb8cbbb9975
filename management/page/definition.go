package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// importPath is where the form with a document is sent: no action, as its answer is a page.
const importPath = "/ui/definitions/import"

const (
	// MaxDocumentBytes bounds a document of definitions that is sent to the page, as the API does.
	MaxDocumentBytes = 128 << 20
	// maxDocuments bounds the documents that the page has in memory at the same time.
	maxDocuments = 1
	// documentTime is how long a browser may take to send a document.
	documentTime = 10 * time.Minute
)

// definitionViews are the pages about documents of definitions.
func definitionViews() []view {
	return []view{{path: "/ui/definitions", file: "definitions.html", title: "Definitions", load: loadDefinitions}}
}

// definitionsPage is what the page of definitions shows.
type definitionsPage struct {
	VHosts []string
	VHost  string // the document is imported into; "": its own
	Text   string // the document that was pasted, for browsers without scripts
	Result *imported
}

func loadDefinitions(v *visit) (any, error) {
	if !v.Can("administrator") {
		return nil, errNotAdministrator
	}
	names, err := v.vhosts()
	return definitionsPage{VHosts: names}, err
}

// exportDefinitions has the API send its document to the browser, which stores it as a file.
func (s *site) exportDefinitions(w http.ResponseWriter, r *http.Request) {
	v := s.enter(w, r)
	if v == nil {
		return
	}
	path, file := "/api/definitions", "definitions.json"
	if vhost := r.FormValue("vhost"); vhost != "" {
		path, file = apiPath("/api/definitions/%s", vhost), "definitions-"+strings.ReplaceAll(vhost, "/", "_")+".json"
	}
	in, err := request(r.Context(), r, v.token, http.MethodGet, path+"?"+url.Values{"download": {file}}.Encode(), nil)
	if err != nil {
		s.refuse(v, err)
		return
	}
	s.API.ServeHTTP(w, in)
}

// upload is a form with a document.
type upload struct {
	fields   url.Values
	document []byte
	chosen   bool // it is a file, not a text that was pasted
}

// hash distinguishes documents, so that the one that is applied is the one that was compared.
func (u *upload) hash() string {
	sum := sha256.Sum256(u.document)
	return hex.EncodeToString(sum[:])
}

// maxField bounds the other fields of a form with a document, in bytes.
const maxField = 4 << 10

// readUpload reads a form with a document into memory.
func (v *visit) readUpload() (*upload, error) {
	parts, err := v.MultipartReader()
	if err != nil {
		return nil, badForm("document", "the form must be multipart/form-data: "+err.Error())
	}
	u := &upload{fields: url.Values{}}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.addPart(part)
		}
		if err != nil {
			return nil, badForm("document", "could not be read; it may have at most "+byteSize(MaxDocumentBytes)+": "+err.Error())
		}
	}
	if len(bytes.TrimSpace(u.document)) == 0 {
		return nil, badForm("document", "paste a document, or choose a file")
	}
	return u, nil
}

// addPart reads a part of the form. A file counts more than a text.
func (u *upload) addPart(part *multipart.Part) error {
	name := part.FormName()
	if name != "file" && name != "text" {
		b, err := io.ReadAll(io.LimitReader(part, maxField))
		u.fields.Add(name, string(b))
		return err
	}
	b, err := io.ReadAll(part)
	if err == nil && len(b) > 0 && !u.chosen {
		u.document, u.chosen = b, name == "file"
	}
	return err
}

// importDefinitions compares a document with what exists, or applies it.
func (s *site) importDefinitions(w http.ResponseWriter, r *http.Request) {
	v := s.enter(w, r)
	if v == nil {
		return
	}
	p, err := v.importUpload()
	if err != nil {
		s.refuse(v, err)
		return
	}
	s.render(w, v, http.StatusOK, "definitions.html", "Definitions", p)
}

// importUpload reads the form and does what it asks for. One document at a time is in memory.
func (v *visit) importUpload() (*definitionsPage, error) {
	if !v.Can("administrator") {
		return nil, &fault{Code: http.StatusForbidden, Kind: "not_authorized", Reason: "only administrators import definitions"}
	}
	select {
	case v.site.documents <- struct{}{}:
		defer func() { <-v.site.documents }()
	default:
		return nil, &fault{Code: http.StatusServiceUnavailable, Kind: "unavailable", Reason: "this node reads another document at the moment; try again soon"}
	}
	conn := http.NewResponseController(v.w)
	_ = conn.SetReadDeadline(time.Now().Add(documentTime))      // every connection of a server has one
	_ = conn.SetWriteDeadline(time.Now().Add(2 * documentTime)) // for the import behind it, and the answer
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	v.Body = http.MaxBytesReader(v.w, v.Body, MaxDocumentBytes+MaxFormBytes)
	u, err := v.readUpload()
	if err != nil {
		return nil, err
	}
	v.Form = u.fields
	if !v.genuine() {
		return nil, errNotGenuine
	}
	apply := u.fields.Get("act") == "apply"
	if apply && u.fields.Get("compared") != u.hash() {
		return nil, badForm("document", "nothing was done: the document is not the one that was compared; compare it again")
	}
	p := &definitionsPage{VHost: u.fields.Get("vhost")}
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	if p.Result, err = v.importDocument(u, p.VHost, apply); err != nil {
		return nil, err
	}
	if !u.chosen && !v.byScript() {
		p.Text = string(u.document)
	}
	return p, nil
}

// imported is the API's answer to an import, or to the plan for one.
type imported struct {
	Total     int        `json:"total"`
	Created   int        `json:"created"`
	Unchanged int        `json:"unchanged"`
	Different int        `json:"different"`
	Refused   int        `json:"refused"`
	Skipped   int        `json:"skipped"`
	Failed    int        `json:"failed"`
	Objects   []*imposed `json:"objects"` // not those that are unchanged
	Applied   bool       // it is done, not only planned
	Hash      string     // of the document
}

// Listed counts the objects that a whole list would have.
func (i *imported) Listed() int { return i.Total - i.Unchanged }

// imposed is an object of a document.
type imposed struct {
	Kind     string   `json:"kind"`
	VHost    string   `json:"vhost"`
	Name     string   `json:"name"`
	Path     string   `json:"path"` // in the document, such as $.queues[3]
	Outcome  string   `json:"outcome"`
	Reason   string   `json:"reason"`
	Warnings []string `json:"warnings"`
	// Fields are those in which the document differs from what exists.
	Fields []fieldChange
}

// Badge is the colour of the outcome.
func (o *imposed) Badge() string {
	switch o.Outcome {
	case "created":
		return "done"
	case "refused", "failed":
		return "failed"
	}
	return "running"
}

// importDocument sends the document to the API, which answers 400 also for a plan or an import of which some objects are
// refused.
func (v *visit) importDocument(u *upload, vhost string, apply bool) (*imported, error) {
	path := "/api/definitions"
	if vhost != "" {
		path = apiPath("/api/definitions/%s", vhost)
	}
	q := url.Values{"created": {"true"}}
	if !apply {
		q.Set("dry_run", "true")
	}
	a, err := v.exchange(http.MethodPost, path+"?"+q.Encode(), nil, bytes.NewReader(u.document))
	if a == nil {
		return nil, err
	}
	out := &imported{Total: -1}
	if bad := json.Unmarshal(a.body.Bytes(), out); bad != nil || out.Total < 0 {
		if err == nil {
			err = bad
		}
		return nil, err
	}
	out.Applied, out.Hash = apply, u.hash()
	if out.Different == 0 {
		return out, nil
	}
	err = v.compareFields(u.document, vhost, out.Objects)
	if err != nil && apply { // what was done counts, not what cannot be shown of it
		v.site.Logger.Warn("the fields of imported definitions could not be compared", "error", err)
		return out, nil
	}
	return out, err
}
