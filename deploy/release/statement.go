package main

import (
	"encoding/json"
	"errors"
	"fmt"
)

// These pages define the statement's types.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	repository    = "https://github.com/quorate/quorate"
	buildType     = repository + "/blob/main/Makefile#release"
)

// digests are hashes by algorithm, in hexadecimal.
type digests map[string]string

// resource is a subject or dependency, in the members of in-toto's ResourceDescriptor.
type resource struct {
	Name   string  `json:"name,omitempty"`
	URI    string  `json:"uri,omitempty"`
	Digest digests `json:"digest,omitempty"`
}

// provenance is the predicate of SLSA provenance v1.
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]any    `json:"internalParameters"` // the build information in each binary
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// inTotoStatement is the envelope that ties a predicate to the files that it describes.
type inTotoStatement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// statement describes binaries, which must have one Go version.
func statement(built []binary, of *source) ([]byte, error) {
	if len(built) == 0 {
		return nil, errors.New("there is no binary")
	}
	s := inTotoStatement{Type: statementType, PredicateType: predicateType}
	first := &built[0]
	d := &s.Predicate.BuildDefinition
	d.InternalParameters = map[string]any{}
	for i := range built {
		b := &built[i]
		if b.goVersion != first.goVersion {
			return nil, fmt.Errorf("%s was built by %s, %s by %s: build all of them again", b.name, b.goVersion, first.name, first.goVersion)
		}
		settings := map[string]string{"path": b.path}
		for _, x := range b.settings {
			settings[x.key] = x.value
		}
		d.InternalParameters[b.name] = settings
		s.Subject = append(s.Subject, resource{Name: b.name, Digest: digests{"sha256": b.sum}})
	}
	d.BuildType = buildType
	d.ExternalParameters = map[string]string{"version": of.version, "flags": of.flags}
	if of.modified() {
		d.ExternalParameters["modified"] = "true"
	}
	d.ResolvedDependencies = []resource{
		{URI: "git+" + repository, Digest: digests{"gitCommit": of.commit}},
		{Name: "go", URI: "pkg:golang/toolchain@" + first.goVersion},
	}
	s.Predicate.RunDetails.Builder.ID = buildType
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}
