//go:build !linux

package chaos

import "syscall"

// childAttributes keep the terminal's signals away from a node. Only Linux can tie its
// life to its parent's.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
