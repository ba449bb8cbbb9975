package main

// The image has no files of a system, and so no public authorities, by which the certificate of a cluster may be verified.
// Those of the system come first.
import _ "golang.org/x/crypto/x509roots/fallback"
