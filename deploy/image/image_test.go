package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The image is a layout whose blobs are named by their digests, and its only files
// are the binaries.
func TestWrite(t *testing.T) {
	binary := staticBinary(t)
	c := Config{Binary: []string{binary}, Ctl: []string{binary}, Name: "quorate/quorate:dev", Version: "v1"}
	var first, second bytes.Buffer
	digest, err := Write(&first, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(&second, c); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two runs gave different bytes")
	}

	files := untar(t, &first)
	for name, content := range files {
		if strings.HasPrefix(name, "blobs/sha256/") && len(content) > 0 && name != blob(content) {
			t.Errorf("%s has the digest %s", name, digestOf(content))
		}
	}
	var idx index
	decode(t, files["index.json"], &idx)
	if len(idx.Manifests) != 1 || idx.Manifests[0].Digest != digest {
		t.Fatalf("index = %+v, want the manifest %s alone", idx, digest)
	}
	if got := idx.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/quorate/quorate:dev" {
		t.Errorf("name for containerd = %q", got)
	}
	var m manifest
	decode(t, get(t, files, idx.Manifests[0]), &m)
	var conf imageConfig
	decode(t, get(t, files, m.Config), &conf)
	if conf.Config.User != "65532:65532" || conf.OS != "linux" || conf.Config.Entrypoint[0] != "/quorate" {
		t.Errorf("config = %+v", conf)
	}
	var docker []dockerManifest
	decode(t, files["manifest.json"], &docker)
	if files[docker[0].Config] == nil || files[docker[0].Layers[0]] == nil || docker[0].RepoTags[0] != c.Name {
		t.Errorf("manifest.json = %+v does not lead to the blobs", docker)
	}

	z, err := gzip.NewReader(bytes.NewReader(get(t, files, m.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if conf.RootFS.DiffIDs[0] != digestOf(plain) {
		t.Errorf("diff id = %s, want %s", conf.RootFS.DiffIDs[0], digestOf(plain))
	}
	if d := directory(t, bytes.NewReader(plain), "var/lib/quorate/"); d.Uid != 65532 || d.Gid != 65532 || d.Mode != 0o750 {
		t.Errorf("the directory of data: %+v", d)
	}
	root := untar(t, bytes.NewReader(plain))
	want, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if len(root) != 2 || !bytes.Equal(root["quorate"], want) || !bytes.Equal(root["quoratectl"], want) {
		t.Errorf("the layer holds %d files, want /quorate and /quoratectl, equal to the binaries", len(root))
	}
}

// An image for two processors has one name, which leads to an index with a whole image for each.
func TestWriteForTwo(t *testing.T) {
	arches := []string{"amd64", "arm64"}
	c := Config{Name: "quorate/quorate:1.0.0"}
	for _, arch := range arches {
		b := binaryFor(t, arch)
		c.Binary, c.Ctl = append(c.Binary, b), append(c.Ctl, b)
	}
	var out bytes.Buffer
	digest, err := Write(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, &out)
	var entry, all index
	decode(t, files["index.json"], &entry)
	if len(entry.Manifests) != 1 || entry.Manifests[0].Digest != digest || entry.Manifests[0].MediaType != typeIndex ||
		entry.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/quorate/quorate:1.0.0" {
		t.Fatalf("the entry point is %+v, want the index %s alone", entry, digest)
	}
	decode(t, get(t, files, entry.Manifests[0]), &all)
	if len(all.Manifests) != len(arches) {
		t.Fatalf("the index has %+v", all.Manifests)
	}
	for i, d := range all.Manifests {
		var m manifest
		decode(t, get(t, files, d), &m)
		var conf imageConfig
		decode(t, get(t, files, m.Config), &conf)
		if d.Platform == nil || d.Platform.Architecture != arches[i] || d.Platform.OS != "linux" || conf.Architecture != arches[i] {
			t.Errorf("image %d is for %+v, and its configuration for %s", i, d.Platform, conf.Architecture)
		}
		z, err := gzip.NewReader(bytes.NewReader(get(t, files, m.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(c.Binary[i])
		if err != nil {
			t.Fatal(err)
		}
		if root := untar(t, z); !bytes.Equal(root["quorate"], want) {
			t.Errorf("image %d does not hold the binary for %s", i, arches[i])
		}
	}
	c.Binary, c.Ctl = append(c.Binary, c.Binary[0]), append(c.Ctl, c.Ctl[0])
	if _, err := Write(io.Discard, c); err == nil || !strings.Contains(err.Error(), "two binaries are for amd64") {
		t.Errorf("one processor twice: %v", err)
	}
}

func TestRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "node")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no flags", nil, "-out is missing"},
		{"no binary", []string{"-out", "x", "-ctl", "x", "-name", "a/b:c"}, "-binary is missing"},
		{"no quoratectl", []string{"-out", "x", "-binary", "x", "-name", "a/b:c"}, "-ctl is missing"},
		{"two of one", []string{"-out", "x", "-binary", "x,y", "-ctl", "x", "-name", "a/b:c"}, "-binary names 2 files, and -ctl 1"},
		{"no tag", []string{"-out", "x", "-binary", "x", "-ctl", "x", "-name", "host:5000/node"}, `-name is "host:5000/node"`},
		{"a script", []string{"-out", filepath.Join(t.TempDir(), "x"), "-binary", text, "-ctl", text, "-name", "a/b:c"}, "is not a Linux (ELF) binary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"node:1":                       "docker.io/library/node:1",
		"quorate/node:1":               "docker.io/quorate/node:1",
		"registry.example/quorate:1":   "registry.example/quorate:1",
		"localhost/quorate/node:1":     "localhost/quorate/node:1",
		"10.0.0.1:5000/quorate/node:1": "10.0.0.1:5000/quorate/node:1",
	} {
		if got := (Config{Name: name}).FullName(); got != want {
			t.Errorf("FullName of %q = %q, want %q", name, got, want)
		}
	}
}

// staticBinary builds this command as it would be shipped.
func staticBinary(t *testing.T) string {
	t.Helper()
	return binaryFor(t, runtime.GOARCH)
}

// binaryFor does so for a processor.
func binaryFor(t *testing.T, arch string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "node")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}

// directory finds a directory.
func directory(t *testing.T, r io.Reader, name string) *tar.Header {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err != nil {
			t.Fatal(name, err)
		}
		if h.Name == name && h.Typeflag == tar.TypeDir {
			return h
		}
	}
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, files map[string][]byte, d descriptor) []byte {
	t.Helper()
	b := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if len(b) != d.Size || digestOf(b) != d.Digest {
		t.Fatalf("blob %s: %d bytes, want %d", d.Digest, len(b), d.Size)
	}
	return b
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// The operator's image has one file, and runs it.
func TestWriteOperator(t *testing.T) {
	binary := staticBinary(t)
	c := Config{Operator: []string{binary}, Name: "quorate/quorate-operator:dev"}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := Write(&out, c); err != nil {
		t.Fatal(err)
	}
	files := untar(t, &out)
	var docker []dockerManifest
	decode(t, files["manifest.json"], &docker)
	var conf imageConfig
	decode(t, files[docker[0].Config], &conf)
	if e := conf.Config.Entrypoint; len(e) != 1 || e[0] != "/quorate-operator" || len(conf.Config.Cmd) != 0 {
		t.Errorf("it runs %q with %q", e, conf.Config.Cmd)
	}
	z, err := gzip.NewReader(bytes.NewReader(files[docker[0].Layers[0]]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if len(names) != 1 || names[0] != "quorate-operator" {
		t.Errorf("it has the files %q", names)
	}
	if c.Binary = []string{binary}; c.Validate() == nil {
		t.Error("both kinds of image at once are accepted")
	}
}
