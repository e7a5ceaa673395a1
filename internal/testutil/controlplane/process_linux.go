package controlplane

import "syscall"

// diesWithParent puts the child into its own process group, so that Ctrl-C reaches only the test, and makes the kernel
// kill it when the test dies.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
