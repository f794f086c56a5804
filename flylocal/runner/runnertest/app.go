package runnertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// AppArg is the first argument of a test binary that runs as a machine's program.
const AppArg = "as-machine-app"

// App plays the machine's program when the process is one, and exits; TestMain calls it. Verbs:
//
//	serve ADDRESS       answers each line sent to it with the line, in capitals; ends with code 7 on SIGTERM
//	stubborn ADDRESS    the same, but ignores SIGTERM and SIGINT
//	exit CODE           ends
//	connect ADDRESS     ends with code 0 when somebody accepts and echoes there, 1 otherwise
//	env                 prints its environment as JSON on one line, then serves nothing
func App() {
	if len(os.Args) < 3 || os.Args[1] != AppArg {
		return
	}
	os.Exit(app(os.Args[2], os.Args[3:]))
}

func app(verb string, args []string) int {
	switch verb {
	case "serve", "stubborn":
		return serve(verb == "stubborn", listenAddress(args))
	case "exit":
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return 99
		}
		return code
	case "connect":
		c, err := net.DialTimeout("tcp", args[0], 5*time.Second) //nolint:noctx // bounded by itself
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer c.Close()
		if answer, err := Say(c, "hello"); err != nil || answer != "HELLO" {
			fmt.Fprintln(os.Stderr, answer, err)
			return 1
		}
		return 0
	case "env":
		if err := json.NewEncoder(os.Stdout).Encode(os.Environ()); err != nil {
			return 99
		}
		return 0
	}
	fmt.Fprintln(os.Stderr, "unknown verb", verb)
	return 99
}

// listenAddress honours a translated address, as our control server does.
func listenAddress(args []string) string {
	if a := os.Getenv("FLYFLEET_LISTEN"); a != "" {
		return a
	}
	return args[0]
}

func serve(stubborn bool, address string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ln, err := net.Listen("tcp", address) //nolint:noctx // the process lives as long as its listener
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	fmt.Fprintln(os.Stdout, "listening")
	go Echo(ln)
	for range signals {
		if !stubborn {
			return 7
		}
	}
	return 0
}

// Echo answers each line on each connection with the line in capitals, until ln is closed.
func Echo(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				if _, err := io.WriteString(c, strings.ToUpper(lines.Text())+"\n"); err != nil {
					return
				}
			}
		}()
	}
}

// Say sends one line to a serving app and returns the answer.
func Say(c net.Conn, line string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}
