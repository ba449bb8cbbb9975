package chaos

import "syscall"

// childAttributes make a node die with the thread that started it, and keep the
// terminal's signals away from it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
