package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// user is the numeric user and group of the process: 65532 is what images without a
// user database call "nonroot".
const (
	user   = "65532:65532"
	userID = 65532
)

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Config describes the image.
type Config struct {
	// Binary and Ctl are the paths of the static binaries quorate and quoratectl, both for one processor after another. With
	// several the image is one for each of them, and a machine takes its own.
	Binary, Ctl []string
	// Operator are the paths of the static binary quorate-operator, for its own image, which holds nothing else.
	Operator []string
	Name     string // repository and tag: "quorate/quorate:dev"
	Version  string // label; empty is left out
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var faults []error
	operator, nodes := len(c.Operator) > 0, len(c.Binary) > 0 || len(c.Ctl) > 0
	if operator && nodes {
		faults = append(faults, errors.New("flag -operator makes an image of its own: leave -binary and -ctl out"))
	}
	if len(c.Binary) == 0 && !operator {
		faults = append(faults, errors.New("flag -binary is missing: name the static binary, for example bin/quorate"))
	}
	if len(c.Ctl) == 0 && !operator {
		faults = append(faults, errors.New("flag -ctl is missing: name the static binary, for example bin/quoratectl"))
	}
	if nodes && len(c.Binary) > 0 && len(c.Ctl) > 0 && len(c.Binary) != len(c.Ctl) {
		faults = append(faults, fmt.Errorf("flag -binary names %d files, and -ctl %d: name both for each processor, in the same order", len(c.Binary), len(c.Ctl)))
	}
	if i := strings.LastIndex(c.Name, ":"); i <= 0 || i == len(c.Name)-1 || strings.Contains(c.Name[i:], "/") {
		faults = append(faults, fmt.Errorf("flag -name is %q: want repository:tag, for example quorate/quorate:dev", c.Name))
	}
	return errors.Join(faults...)
}

// FullName returns the name with its registry, as kubelets look it up: a name
// without a registry is Docker Hub's.
func (c Config) FullName() string {
	first, _, many := strings.Cut(c.Name, "/")
	switch {
	case !many:
		return "docker.io/library/" + c.Name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return c.Name
	default:
		return "docker.io/" + c.Name
	}
}

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"` // in the index of an image for several processors
	Annotations map[string]string `json:"annotations,omitempty"`
}

// platform is what a manifest is for.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// manifest lists the parts of the image.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// index is the entry point of the layout.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// imageConfig is the configuration of the image.
type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

// runConfig is what a runtime does with the image, in the members of the OCI image specification.
type runConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	WorkingDir   string              `json:"WorkingDir"`
	StopSignal   string              `json:"StopSignal"`
	Labels       map[string]string   `json:"Labels"`
}

// rootFS lists the layers by the digests of their uncompressed bytes.
type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// dockerManifest is what `docker load` reads from the same file.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// built is the image for one processor.
type built struct {
	arch                    string
	manifest, config, layer []byte
}

// build makes the image of the i-th binaries.
func (c Config) build(i int) (b built, err error) {
	var files []file
	if b.arch, files, err = c.files(i); err != nil {
		return b, err
	}
	plain, packed, err := layer(len(c.Operator) == 0, files...)
	if err != nil {
		return b, err
	}
	b.layer = packed
	if b.config, err = json.Marshal(configOf(c, b.arch, digestOf(plain))); err != nil {
		return b, err
	}
	b.manifest, err = json.Marshal(manifest{
		SchemaVersion: 2, MediaType: typeManifest,
		Config: describe(typeConfig, b.config),
		Layers: []descriptor{describe(typeLayer, b.layer)},
	})
	return b, err
}

// Write packs the image and returns the digest of its manifest, or of its index if it is for several processors.
func Write(w io.Writer, c Config) (string, error) {
	var images []built
	var all index
	for i := range max(len(c.Binary), len(c.Operator)) {
		b, err := c.build(i)
		if err != nil {
			return "", err
		}
		for _, other := range images {
			if other.arch == b.arch {
				return "", fmt.Errorf("two binaries are for %s: name one for each processor", b.arch)
			}
		}
		d := describe(typeManifest, b.manifest)
		d.Platform = &platform{b.arch, "linux"}
		images, all.Manifests = append(images, b), append(all.Manifests, d)
	}
	all.SchemaVersion, all.MediaType = 2, typeIndex
	several, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	// Readers look for the one name in the entry point; what it leads to is a manifest, or an index of some.
	top, blobs := describe(typeIndex, several), [][]byte{several}
	if len(images) == 1 {
		top, blobs = describe(typeManifest, images[0].manifest), nil
	}
	for _, b := range images {
		blobs = append(blobs, b.manifest, b.config, b.layer)
	}
	return top.Digest, c.pack(w, top, images[0], blobs)
}

// pack writes the layout. Docker's own list, which older ones read, has room for one processor: the first.
func (c Config) pack(w io.Writer, top descriptor, first built, blobs [][]byte) error {
	top.Annotations = map[string]string{
		"io.containerd.image.name":          c.FullName(),
		"org.opencontainers.image.ref.name": c.Name[strings.LastIndex(c.Name, ":")+1:],
	}
	idx, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]dockerManifest{
		{Config: blob(first.config), RepoTags: []string{c.Name}, Layers: []string{blob(first.layer)}},
	})
	if err != nil {
		return err
	}
	entries := []entry{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", idx},
		{"manifest.json", docker},
	}
	for _, b := range blobs {
		entries = append(entries, entry{blob(b), b})
	}
	return pack(w, entries)
}

// files returns the i-th executables of the image, and the processor that they are for.
func (c Config) files(i int) (arch string, files []file, err error) {
	if len(c.Operator) > 0 {
		arch, err = architecture(c.Operator[i])
		return arch, []file{{operatorName, c.Operator[i]}}, err
	}
	binary, ctl := c.Binary[i], c.Ctl[i]
	if arch, err = architecture(binary); err != nil {
		return "", nil, err
	}
	if other, err := architecture(ctl); err != nil || other != arch {
		return "", nil, errors.Join(err, fmt.Errorf("%s is for %s, and %s for %q: build both for one architecture", binary, arch, ctl, other))
	}
	return arch, []file{{"quorate", binary}, {"quoratectl", ctl}}, nil
}

// operatorName is the operator's executable.
const operatorName = "quorate-operator"

// configOf returns the configuration of the image. It has no build time, so equal binaries give
// equal bytes and the same digest.
func configOf(c Config, arch, diffID string) imageConfig {
	labels := map[string]string{
		"org.opencontainers.image.title":    "quorate",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	if c.Version != "" {
		labels["org.opencontainers.image.version"] = c.Version
	}
	if len(c.Operator) > 0 {
		labels["org.opencontainers.image.title"] = operatorName
		return imageConfig{
			Created: time.Unix(0, 0).UTC(), Architecture: arch, OS: "linux",
			Config: runConfig{
				User: user, ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
				Entrypoint: []string{"/" + operatorName}, WorkingDir: "/", StopSignal: "SIGTERM", Labels: labels,
			},
			RootFS: rootFS{Type: "layers", DiffIDs: []string{diffID}},
		}
	}
	return imageConfig{
		Created: time.Unix(0, 0).UTC(), Architecture: arch, OS: "linux",
		Config: runConfig{
			User:         user,
			ExposedPorts: map[string]struct{}{"5672/tcp": {}, "7070/tcp": {}, "7071/tcp": {}, "7072/tcp": {}, "7072/udp": {}, "7073/tcp": {}},
			Entrypoint:   []string{"/quorate"},
			Cmd:          []string{"node", "--config", "/etc/quorate/node.yaml"},
			WorkingDir:   "/",
			StopSignal:   "SIGTERM",
			Labels:       labels,
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{diffID}},
	}
}

// file is an executable of the image: its name in the root directory, and its path on this machine.
type file struct{ name, path string }

// dataDir is where nodes keep their data, if nothing else is set.
const dataDir = "var/lib/quorate/"

// layer returns a file system with only the binaries and, with data, the directory of data, as a tar and compressed. The
// directory belongs to the process's user: a new volume that Docker mounts there takes its owner over.
func layer(data bool, files ...file) (plain, packed []byte, err error) {
	var t bytes.Buffer
	tw := tar.NewWriter(&t)
	dirs := []tar.Header{{Name: "var/", Mode: 0o755}, {Name: "var/lib/", Mode: 0o755}, {Name: dataDir, Mode: 0o750, Uid: userID, Gid: userID}}
	if !data {
		dirs = nil
	}
	for _, d := range dirs {
		d.Typeflag, d.ModTime = tar.TypeDir, time.Unix(0, 0)
		if err := tw.WriteHeader(&d); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range files {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return nil, nil, err
		}
		h := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0)}
		if err := errors.Join(tw.WriteHeader(h), write(tw, content)); err != nil {
			return nil, nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, nil, err
	}
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	if err := errors.Join(write(zw, t.Bytes()), zw.Close()); err != nil {
		return nil, nil, err
	}
	return t.Bytes(), z.Bytes(), nil
}

// entry is a file of the layout.
type entry struct {
	name    string
	content []byte
}

// pack writes the files as a tar, with the directories that some readers need.
func pack(w io.Writer, entries []entry) error {
	tw := tar.NewWriter(w)
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: time.Unix(0, 0)}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
	}
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: time.Unix(0, 0)}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if err := write(tw, e.content); err != nil {
			return err
		}
	}
	return tw.Close()
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digestOf(b), Size: len(b)}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blob returns the path of the content in the layout.
func blob(b []byte) string { return "blobs/sha256/" + strings.TrimPrefix(digestOf(b), "sha256:") }
