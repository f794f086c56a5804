package netdoor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// The numbers of RFC 1928 and RFC 1929.
const (
	version5       = 5
	authVersion    = 1
	methodNone     = 0x00
	methodPassword = 0x02
	methodRefused  = 0xff

	commandConnect = 1
	addrIPv4       = 1
	addrName       = 3
	addrIPv6       = 4
)

// reply is the REP field of RFC 1928 section 6.
type reply byte

const (
	replyOK              reply = 0
	replyGeneral         reply = 1
	replyForbidden       reply = 2
	replyHostUnreachable reply = 4
	replyRefused         reply = 5
	replyTTLExpired      reply = 6
	replyBadCommand      reply = 7
	replyBadAddress      reply = 8
)

// replyTo says which reply an error of connect becomes.
func replyTo(err error) reply {
	switch {
	case err == nil:
		return replyOK
	case errors.Is(err, ErrForbidden):
		return replyForbidden
	case errors.Is(err, ErrNoName):
		return replyHostUnreachable
	case errors.Is(err, ErrNotListening):
		return replyTTLExpired
	case errors.Is(err, ErrNoMachine):
		return replyRefused
	}
	return replyGeneral
}

// request is a client's wish after the greeting.
type request struct {
	// user is the user name of RFC 1929, empty without one.
	user string
	host string
	port int
}

// protocolError is a request that cannot be served; code answers it.
type protocolError struct {
	code reply
	text string
}

func (e *protocolError) Error() string { return e.text }

// handshake reads greeting, credentials and request. After an error of type *protocolError the client may still be
// answered; after any other it has broken off or does not speak SOCKS5.
func handshake(r *bufio.Reader, w io.Writer) (request, error) {
	var req request
	user, err := greet(r, w)
	if err != nil {
		return req, err
	}
	req.user = user
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return req, fmt.Errorf("read the request: %w", err)
	}
	if head[0] != version5 {
		return req, fmt.Errorf("the request has SOCKS version %d, not 5", head[0])
	}
	if req.host, req.port, err = readAddress(r, head[3]); err != nil {
		return req, err
	}
	if head[1] != commandConnect {
		return req, &protocolError{replyBadCommand, fmt.Sprintf("command %d: only CONNECT is served", head[1])}
	}
	return req, nil
}

// greet agrees on a method: the user name where the client offers one, none otherwise.
func greet(r *bufio.Reader, w io.Writer) (user string, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", fmt.Errorf("read the greeting: %w", err)
	}
	if head[0] != version5 {
		return "", fmt.Errorf("the greeting has SOCKS version %d, not 5", head[0])
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return "", fmt.Errorf("read the methods: %w", err)
	}
	method := byte(methodRefused)
	for _, m := range methods {
		if m == methodPassword || (m == methodNone && method == methodRefused) {
			method = m
		}
	}
	if _, err := w.Write([]byte{version5, method}); err != nil {
		return "", fmt.Errorf("answer the greeting: %w", err)
	}
	switch method {
	case methodPassword:
		return readCredentials(r, w)
	case methodRefused:
		return "", errors.New("the client offers neither no authentication nor a user name")
	}
	return "", nil
}

// readCredentials reads the user name and drops the password: networks are names, not secrets, and the door is on
// loopback.
func readCredentials(r *bufio.Reader, w io.Writer) (string, error) {
	v, err := r.ReadByte()
	if err != nil {
		return "", fmt.Errorf("read the credentials: %w", err)
	}
	if v != authVersion {
		return "", fmt.Errorf("the credentials have version %d, not 1", v)
	}
	user, err := readShort(r)
	if err != nil {
		return "", fmt.Errorf("read the user name: %w", err)
	}
	if _, err := readShort(r); err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if _, err := w.Write([]byte{authVersion, 0}); err != nil {
		return "", fmt.Errorf("answer the credentials: %w", err)
	}
	return user, nil
}

// readShort reads a string with one byte of length before it.
func readShort(r *bufio.Reader) (string, error) {
	n, err := r.ReadByte()
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	return string(b), nil
}

func readAddress(r *bufio.Reader, kind byte) (host string, port int, err error) {
	switch kind {
	case addrName:
		host, err = readShort(r)
	case addrIPv4, addrIPv6:
		raw := make([]byte, 4)
		if kind == addrIPv6 {
			raw = make([]byte, 16)
		}
		if _, err = io.ReadFull(r, raw); err == nil {
			addr, _ := netip.AddrFromSlice(raw)
			host = addr.String()
		}
	default:
		return "", 0, &protocolError{replyBadAddress, fmt.Sprintf("address type %d is unknown", kind)}
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the address: %w", err)
	}
	p := make([]byte, 2)
	if _, err := io.ReadFull(r, p); err != nil {
		return "", 0, fmt.Errorf("read the port: %w", err)
	}
	return host, int(binary.BigEndian.Uint16(p)), nil
}

// answer writes a reply; the bound address is always zero, as clients of a CONNECT have no use for it.
func answer(w net.Conn, code reply) error {
	_, err := w.Write([]byte{version5, byte(code), 0, addrIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
