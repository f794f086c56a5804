//go:build !linux

// Package control is the line between the platform and a process inside a namespace; it exists on Linux only.
package control
