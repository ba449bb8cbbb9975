package main

import (
	"debug/elf"
	"fmt"
)

// architecture returns the Go name of the processor that the binary is for. It refuses a binary
// that cannot run in an empty image: one that is not for Linux, or that needs a dynamic linker.
func architecture(file string) (string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return "", fmt.Errorf("binary %s is not a Linux (ELF) binary: %w", file, err)
	}
	defer f.Close() //nolint:errcheck // opened for reading, nothing is lost
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("binary %s needs a dynamic linker, which the image lacks: build it with CGO_ENABLED=0", file)
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("binary %s is for %s: images are built for amd64 and arm64", file, f.Machine)
	}
}
