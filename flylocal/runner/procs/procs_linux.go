package procs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// List reads the processes of the /proc that is mounted here. Processes that end meanwhile are left out.
func List() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	uptime := readUptime()
	var out []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := read(pid, uptime); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// AddSockets fills in Listen and Directory, which cost a look at every descriptor. It sees the sockets of the caller's
// network namespace.
func AddSockets(list []Process) {
	sockets := listening()
	for i := range list {
		dir := procPath(list[i].PID, "")
		list[i].Directory, _ = os.Readlink(dir + "cwd")
		fds, err := os.ReadDir(dir + "fd")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			link, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil {
				continue
			}
			if s, ok := sockets[link]; ok {
				list[i].Listen = append(list[i].Listen, s)
			}
		}
	}
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func read(pid int, uptime time.Duration) (Process, bool) {
	stat, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return Process{}, false
	}
	// The name in parentheses may hold anything, so the fields are counted from the last parenthesis:
	// proc_pid_stat(5): state is field 3, ppid 4, utime 14, stime 15, starttime 22, rss 24.
	end := bytes.LastIndexByte(stat, ')')
	begin := bytes.IndexByte(stat, '(')
	if begin < 0 || end < begin {
		return Process{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 22 {
		return Process{}, false
	}
	field := func(n int) int64 {
		v, _ := strconv.ParseInt(fields[n-3], 10, 64)
		return v
	}
	p := Process{
		PID: pid, Parent: int(field(4)), State: fields[0][0],
		CPUTime: ticks(field(14) + field(15)),
		Started: max(0, uptime-ticks(field(22))),
		RSS:     field(24) * int64(os.Getpagesize()),
		Command: string(stat[begin+1 : end]),
	}
	if line, err := os.ReadFile(procPath(pid, "cmdline")); err == nil && len(line) > 0 {
		p.Command = string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
	}
	return p, true
}

func ticks(n int64) time.Duration { return time.Duration(n) * time.Second / ticksPerSecond }

func readUptime() time.Duration {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// listening maps "socket:[inode]" to the listening sockets of this network namespace.
func listening() map[string]Socket {
	out := map[string]Socket{}
	for _, t := range []struct{ file, proto, state string }{
		{"tcp", "tcp", "0A"}, {"tcp6", "tcp", "0A"}, {"udp", "udp", "07"}, {"udp6", "udp", "07"},
	} {
		b, err := os.ReadFile("/proc/net/" + t.file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != t.state {
				continue
			}
			if addr, ok := parseAddr(f[1]); ok {
				out["socket:["+f[9]+"]"] = Socket{t.proto, addr}
			}
		}
	}
	return out
}

// parseAddr reads "0100007F:1F90": the address in 32-bit words of the machine's byte order, and the port.
func parseAddr(s string) (string, bool) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	p, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(raw)%4 != 0 {
		return "", false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return "", false
	}
	return netip.AddrPortFrom(addr, uint16(p)).String(), true
}
