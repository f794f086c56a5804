//go:build linux

package controlserver_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// daytonaio/daytona#4230, cloudflare/sandbox#30: line-oriented framing broke here-documents.
func TestHereDocumentIsOneCommand(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("cat <<'E' > f\none\ntwo $x\nE\ncat f")); got.stdout != "one\ntwo $x\n" {
		t.Fatalf("got %q, %q", got.stdout, got.stderr)
	}
}

// daytonaio/daytona#3770: a program that reads stdin hung where none was given.
func TestNoStdinIsAnImmediateEnd(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("cat; echo end")); got.stdout != "end\n" {
		t.Fatalf("got %q", got.stdout)
	}
}

// earendil-works/gondolin#130, truefoundry/trueforge#416, computesdk/computesdk#783: a file of 100 KiB as
// base64 in an argument met the kernel's limit of 128 KiB; the report echoed it all.
func TestArgumentTooLongForTheKernelIsData(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	content := bytes.Repeat([]byte("secret\xff\x00\n\n"), 10<<10)
	encoded := base64.StdEncoding.EncodeToString(content)
	got := run(t, c, shell(`echo "$1" | base64 -d >file`, encoded)).Exit
	if got.GetStartFailure() != wirev1.StartFailure_START_FAILURE_ARGUMENTS_TOO_LONG || got.GetCode() != 126 {
		t.Fatalf("got %v", got)
	}
	if strings.Contains(got.GetMessage()+m.Log(), encoded[:16]) {
		t.Fatal("the argument is quoted")
	}
	// Content goes through stdin, which has no limit.
	var file bytes.Buffer
	result, err := c.Run(limited(t), client.Command{Spec: piped(shell("cat >file && cat file")), Follow: client.Follow{Stdin: bytes.NewReader(content)}}, client.Writers(&file, nil))
	if err != nil || result.Exit.GetCode() != 0 || !bytes.Equal(file.Bytes(), content) {
		t.Fatalf("%v, %v, %d of %d bytes", err, result.Exit, file.Len(), len(content))
	}
}

// opencoredev/sandbox-sdk#9, bytedance/deer-flow#4980, openai/openai-agents-python#4708, martian56/raven#656,
// OSC/ondemand#2624: names with newlines, blanks, leading dashes or bytes that are no text.
func TestAnyNameSurvivesTheWire(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	names := []string{"a\nb", "trail ", "-rf", "it's", "x -> y", "b\xffad", "\xe2\x89", `back\slash`, "$(touch no)"}
	for _, name := range names {
		run(t, c, shell(`printf 'content of %s' "$1" >"./$1"`, name))
	}
	got := run(t, c, shell("find . -mindepth 1 -maxdepth 1 -print0"))
	have := strings.Split(strings.TrimSuffix(got.stdout, "\x00"), "\x00")
	for i := range have {
		have[i] = strings.TrimPrefix(have[i], "./")
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		t.Fatalf("have %q, want %q", have, names)
	}
	for _, name := range have {
		if got := run(t, c, shell(`cat -- "./$1"`, name)); got.stdout != "content of "+name {
			t.Fatalf("%q holds %q, %q", name, got.stdout, got.stderr)
		}
	}
	spec := shell(`printf '%s' "$V"; pwd`)
	spec.Env = []*wirev1.EnvVar{{Name: []byte("V"), Value: []byte("a\xffb")}}
	run(t, c, shell("mkdir 'd\xff'"))
	spec.Cwd = []byte("d\xff")
	if got := run(t, c, spec); !strings.HasPrefix(got.stdout, "a\xffb") || !strings.HasSuffix(got.stdout, "d\xff\n") {
		t.Fatalf("got %q", got.stdout)
	}
}

// madarco/agentbox#359: three thousand paths in one argument met a limit; they travel on stdin.
func TestThousandsOfPathsTravelOnStdin(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	var paths strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&paths, "./a path with blanks and\na newline, number %04d, long enough to be past the kernel's limit of 128 KiB\x00", i)
	}
	spec := shell("xargs -0 -n 500 sh -c 'for p; do printf \"%s\\0\" \"$p\"; done' sh")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	var out bytes.Buffer
	got, err := c.Run(limited(t), client.Command{Spec: spec, Follow: client.Follow{Stdin: strings.NewReader(paths.String())}}, client.Writers(&out, nil))
	if err != nil || got.Exit.GetCode() != 0 || out.String() != paths.String() {
		t.Fatalf("got %v, %v, %d of %d bytes", got.Exit, err, out.Len(), paths.Len())
	}
}

// QwenLM/qwen-code#7256, devswha/gajae-code-app#121: children inherited the daemon's secrets.
func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{Env: []string{"TOKEN=of-the-daemon", "FLY_API_TOKEN=x", "LD_PRELOAD="}})
	c := m.Client(machinetest.ClientOptions{})
	spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte("/usr/bin/env"), []byte("-0")}}
	spec.Env = []*wirev1.EnvVar{{Name: []byte("GIVEN"), Value: []byte("1")}}
	spec.SecretEnv = []*wirev1.EnvVar{{Name: []byte("HUSH"), Value: []byte("hush-hush")}}
	got := run(t, c, spec)
	var names []string
	for _, line := range strings.Split(strings.TrimSuffix(got.stdout, "\x00"), "\x00") {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"GIVEN", "HOME", "HUSH", "LANG", "PATH", "USER", "WORKSPACE"}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	parent := run(t, c, shell(`cat /proc/$PPID/environ 2>/dev/null | tr '\0' '\n' | grep -c -e TRUST -e of-the-daemon`))
	if strings.TrimSpace(parent.stdout) != "0" {
		t.Fatalf("a command reads the control server's environment: %q", parent.stdout)
	}
	if files := spoolText(t, m); strings.Contains(files, "hush-hush") || strings.Contains(m.Log(), "hush-hush") {
		t.Fatal("a secret value is on the disk or in the log")
	}
}

func TestInlineStdinArrivesWhole(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	content := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
	spec := shell("cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_INLINE, Inline: content}
	if got := run(t, c, spec); got.stdout != string(content) {
		t.Fatalf("got %d of %d bytes", len(got.stdout), len(content))
	}
}

func spoolText(t *testing.T, m *machinetest.Machine) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(m.Data, "spool"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "out" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(&all, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
