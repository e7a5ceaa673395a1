//go:build !linux

package controlplane

import "syscall"

// diesWithParent does what it can: without a death signal, processes of a killed
// test stay behind on these systems.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
