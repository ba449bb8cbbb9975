package main

// The image has no files of a system, and so no public authorities. Without these a backup could not reach S3 from there, nor
// nodes whose certificate is of a public authority. Those of the system come first.
import _ "golang.org/x/crypto/x509roots/fallback"
