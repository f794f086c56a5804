package remote

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// oddNames break who reads listings by line, or takes a part of a name for an end.
var oddNames = []string{
	"a", "a\nb", "\n", "end\n", "a/\n", "x/\nl 81a4 1 1 1 1 1 y", "e ENOENT x", "sp ace ", "-n", "%s//", "\xff\xfe", "a/b/c", "trailing/",
	strings.Repeat("n", 255), "t ", "z ", "//", "/", "///\n", "b//\n", "c/\n/d",
}

// said is how a script says records of names.
func said(names []string) []byte {
	var b bytes.Buffer
	for i, name := range names {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, "l 81a4 %d %d 0 10000 1 %s//\n", i, 1600000000+i, name)
		case 1:
			fmt.Fprintf(&b, "e ENOENT %s//\n", name)
		case 2:
			fmt.Fprintf(&b, "d %s//\n", name)
		}
	}
	return b.Bytes()
}

func checkSaid(t *testing.T, names []string) {
	t.Helper()
	got, err := records(said(names))
	if err != nil || len(got) != len(names) {
		t.Fatalf("%d records of %d: %v", len(got), len(names), err)
	}
	for i, r := range got {
		if r.name != names[i] {
			t.Fatalf("record %d has name %q, not %q", i, r.name, names[i])
		}
		if i%3 == 0 && (r.info.Size != int64(i) || r.info.Modified.Unix() != int64(1600000000+i) || r.info.GID != 10000) {
			t.Fatalf("record %d: %+v", i, r.info)
		}
	}
}

func TestRecordsHoldAnyName(t *testing.T) {
	var names []string
	for _, name := range oddNames {
		names = append(names, spell(name))
	}
	checkSaid(t, names)
}

// FuzzRecordsOfNames: whatever the names are, once spelled they come back.
func FuzzRecordsOfNames(f *testing.F) {
	f.Add([]byte(strings.Join(oddNames, "\x00")))
	f.Add([]byte("a\x00a/\x00a//\x00//\n"))
	f.Fuzz(func(t *testing.T, list []byte) {
		var names []string
		for name := range strings.SplitSeq(string(list), "\x00") {
			if checkName(name) == nil {
				names = append(names, spell(name))
			}
		}
		checkSaid(t, names)
	})
}

// FuzzRecords: no answer makes the reader panic, and what it takes it takes whole.
func FuzzRecords(f *testing.F) {
	f.Add(said(oddNames))
	f.Add([]byte("x 0 1600000000//\nt //\nz //\n"))
	f.Add([]byte("l 41ed 0 -1 0 0 2 .//\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		all, err := records(answer)
		if err != nil && !errors.Is(err, errTorn) {
			t.Fatal(err)
		}
		if err == nil && len(all) != bytes.Count(answer, recordEnd) {
			t.Fatalf("%d records of %q", len(all), answer)
		}
		_, _ = listOf(answer)
		_, _ = statsOf(answer)
		_, _, _ = statusOf(answer)
	})
}

func TestTornRecordsAreNoRecords(t *testing.T) {
	for _, torn := range []string{
		"l 81a4 1 1 1 1 1 name//", "l 81a4 1 1 1 1 name//\n", "l xyz 1 1 1 1 1 n//\n", "q 1//\n", "e EFANTASY n//\n", "l\n", "//\n", "x 1//\n", "x y z//\n",
		"l 81a4 1 1 1 1 1 //\n", "d //\n", "t more//\n",
	} {
		if _, err := records([]byte(torn)); !errors.Is(err, errTorn) {
			t.Errorf("%q: %v", torn, err)
		}
	}
}

func TestASpelledNameIsThePathItWas(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "-n": "./-n", "(": "./(", "!": "./!", "a//b": "a/b", "///": "/", "//x//": "/x/", " x": "./ x", ".": ".", "../x": "../x", "\xff": "\xff", "a\nb//": "a\nb/",
	} {
		if got := spell(name); got != want {
			t.Errorf("%q is spelled %q, not %q", name, got, want)
		}
	}
}

func TestContentsAreToldApartByWhatIsSaidBeside(t *testing.T) {
	gnu := "= ok\n0+1 records in\n0+1 records out\n5 bytes copied, 0.0001 s, 1 kB/s\n= ENOENT\n= ok\n0+0 records in\n0+0 records out\n0 bytes copied, 1e-05 s, 0.0 kB/s\n= ok\n2+0 records in\n2+0 records out\n3 bytes (3 B) copied, 1 s\n"
	got, err := contentsOf([]byte("12345abc"), []byte(gnu), 4)
	if err != nil || string(got[0].Content) != "12345" || !errors.Is(got[1].Err, syscall.ENOENT) || got[2].Content == nil || len(got[2].Content) != 0 || string(got[3].Content) != "abc" {
		t.Errorf("%v %v", got, err)
	}
	busybox := "= ok\n0+1 records in\n0+1 records out\n2 bytes (2B) copied, 0.000012 seconds, 162.8KB/s\n= EACCES\n= ok\ndd: read error: Input/output error\n= EIO\n"
	got, err = contentsOf([]byte("hi"), []byte(busybox), 3)
	if err != nil || string(got[0].Content) != "hi" || !errors.Is(got[1].Err, syscall.EACCES) || !errors.Is(got[2].Err, syscall.EIO) {
		t.Errorf("%v %v", got, err)
	}
	for _, wrong := range []string{"", "= ok\n9 bytes copied\n", "= ok\n1 bytes copied\n", "= ok\n2 bytes copied\n= ok\n", "= EFANTASY\n", "= ok\n2 bytes\n2 bytes\n"} {
		if got, err := contentsOf([]byte("hi"), []byte(wrong), 1); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
}

func TestAModeIsTheKernels(t *testing.T) {
	for raw, want := range map[uint32]string{
		0x81a4: "-rw-r--r--", 0x41ed: "drwxr-xr-x", 0xa1ff: "Lrwxrwxrwx", 0x11a4: "prw-r--r--", 0x2190: "Dcrw--w----", 0x61b0: "Drw-rw----", 0xc1ed: "Srwxr-xr-x",
		0x89ed: "urwxr-xr-x", 0x43ff: "dtrwxrwxrwx",
	} {
		if got := modeOf(raw).String(); got != want {
			t.Errorf("%x is %s, not %s", raw, got, want)
		}
	}
}
