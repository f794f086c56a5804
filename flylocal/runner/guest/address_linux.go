package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// privateBits is the prefix of a machine's own block of its network.
const privateBits = 112

// bringUpLoopback brings up the machine's only interface and gives it an address, if there is one to give.
func bringUpLoopback(private netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configure lo: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("configure lo: %w", err)
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	if !private.Is6() {
		return nil
	}
	if err := addAddress(private); err != nil {
		return fmt.Errorf("give lo the address %s: %w", private, err)
	}
	return nil
}

// addAddress asks the kernel by netlink, because only so an address is usable at once: by ioctl it would be tentative
// for a moment, in which an entrypoint could not listen on it.
func addAddress(addr netip.Addr) error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, newAddress(addr, lo.Index), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("netlink send", err)
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return os.NewSyscallError("netlink receive", err)
	}
	// The answer to a request with NLM_F_ACK is an NLMSG_ERROR, whose number is 0 for success.
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("netlink: an unexpected answer")
	}
	errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])))
	if errno != 0 && errno != unix.EEXIST {
		return errno
	}
	return nil
}

// newAddress is the message RTM_NEWADDR: struct nlmsghdr, struct ifaddrmsg, and two attributes (rtnetlink(7)).
func newAddress(addr netip.Addr, index int) []byte {
	order := binary.NativeEndian
	ip := addr.As16()
	var b []byte
	b = order.AppendUint32(b, 0) // length, set below
	b = order.AppendUint16(b, unix.RTM_NEWADDR)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	b = order.AppendUint32(b, 1) // sequence
	b = order.AppendUint32(b, 0) // to the kernel
	b = append(b, unix.AF_INET6, privateBits, 0, unix.RT_SCOPE_UNIVERSE)
	b = order.AppendUint32(b, uint32(index))
	b = order.AppendUint16(b, uint16(unix.SizeofRtAttr+len(ip)))
	b = order.AppendUint16(b, unix.IFA_ADDRESS)
	b = append(b, ip[:]...)
	b = order.AppendUint16(b, unix.SizeofRtAttr+4)
	b = order.AppendUint16(b, unix.IFA_FLAGS)
	b = order.AppendUint32(b, unix.IFA_F_NODAD|unix.IFA_F_PERMANENT)
	order.PutUint32(b, uint32(len(b)))
	return b
}
