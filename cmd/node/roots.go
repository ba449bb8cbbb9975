package main

// The image has no files of a system, and so no public authorities. Without these a node could not reach there an issuer of
// tokens, a directory or a collector of traces whose certificate is of a public authority. Those of the system come first.
// Certificates of nodes and clients are not concerned: their authorities are always named.
import _ "golang.org/x/crypto/x509roots/fallback"
