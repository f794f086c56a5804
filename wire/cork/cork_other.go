//go:build !linux

package cork

import "net"

// Conn leaves a connection as it is: only Linux holds back what it is told to.
func Conn(c net.Conn, _ int) net.Conn { return c }

func accepted(c net.Conn) net.Conn { return c }
