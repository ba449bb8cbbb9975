// Package helm holds the Helm chart of Quorate, for programs that render it themselves.
package helm

import (
	"embed"
	"io/fs"
)

// Names of helpers begin with an underscore, which embed leaves out of directories unless it names all.
//
//go:embed all:quorate
var chart embed.FS

// Chart returns the files of the chart, by their names in it, such as Chart.yaml and templates/services.yaml. It fails only
// if this package was built without them.
func Chart() (fs.FS, error) { return fs.Sub(chart, "quorate") }
