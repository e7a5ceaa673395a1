//go:build !linux

package controlplane

import "syscall"

// diesWithParent cannot set a parent-death signal: processes of a killed test keep running on these systems.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
