//go:build !linux

package supervise

func becomeSubreaper() error { return nil }
