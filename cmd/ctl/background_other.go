//go:build !linux

package main

// lowerPriority is not known here.
func lowerPriority(int) {}
