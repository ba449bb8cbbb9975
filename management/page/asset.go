package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// assetPrefix is where scripts, styles and pictures are served.
const assetPrefix = "/ui/static/"

// assets serves files under addresses that change with their content, so that browsers keep them for good.
type assets struct{ version string }

// newAssets computes the version of the embedded files.
func newAssets() assets {
	sum := sha256.New()
	_ = fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := staticFiles.ReadFile(name)
		sum.Write([]byte(name))
		sum.Write(b)
		return err
	}) // the files are part of the program, and can be read
	return assets{hex.EncodeToString(sum.Sum(nil)[:8])}
}

// path is the address of a file.
func (a assets) path(name string) string { return assetPrefix + a.version + "/" + name }

// handler serves the files of this version. Those of another one are not there: a node of another release has them.
func (a assets) handler() http.Handler {
	files, _ := fs.Sub(staticFiles, "static") // the path is well-formed
	server := http.StripPrefix(assetPrefix+a.version+"/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, assetPrefix+a.version+"/") || strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		server.ServeHTTP(w, r)
	})
}
