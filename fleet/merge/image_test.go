package merge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
)

const (
	oldImage = "registry.example/app@sha256:" + "1111111111111111111111111111111111111111111111111111111111111111"
	newImage = "registry.example/app@sha256:" + "2222222222222222222222222222222222222222222222222222222222222222"
)

// Every byte of any config outside the value of the top-level image is equal before and after.
func TestImageSwapKeepsEveryOtherByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{`"image"`, `"im\u0061ge"`}).Draw(t, "key")
		value := rapid.SampledFrom([]string{`"` + oldImage + `"`, `""`, `"\u0000"`, "null", `{"image":"x"}`}).Draw(t, "old")
		marked := objectText(3, []string{key + " : @@IMAGE@@"}).Draw(t, "config")
		marked = space().Draw(t, "before") + marked + space().Draw(t, "after")
		got, err := merge.SetImage(json.RawMessage(strings.Replace(marked, "@@IMAGE@@", value, 1)), newImage)
		if err != nil {
			t.Fatalf("SetImage: %v", err)
		}
		if want := strings.Replace(marked, "@@IMAGE@@", `"`+newImage+`"`, 1); string(got) != want {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}

// flyctl#1469, #1543, PR#1211, PR#1073, PR#1571 and PR#2070 lost env, mounts, metadata and fields that the tool did not
// know; flyctl#1906 changed the restart policy beside the image.
func TestImageSwapKeepsUnknownFields(t *testing.T) {
	config := ` {"init":{"swap_size_mb": 512}, "unknown_to_us":{"n":[1e400,9007199254740993,1.0],"z":"\u0000","a":{}},` +
		"\n\t" + `"image":"` + oldImage + `","restart":{"policy":"no"},"env":{"image":"not this","B":"<&>","A":"é"},"containers":[{"image":"nor this"}]}`
	got, err := merge.SetImage(json.RawMessage(config), newImage)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(config, oldImage, newImage, 1); string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestConfigThatNamesAKeyTwiceIsRefused(t *testing.T) {
	for _, config := range []string{
		`{"image":"a","image":"b"}`,
		`{"image":"a","im\u0061ge":"b"}`,
		`{"image":"a","env":{"K":"1","K":"topsecret"}}`,
		`{"image":"a","services":[{"ports":[{"port":1,"port":2}]}]}`,
	} {
		_, err := merge.SetImage(json.RawMessage(config), newImage)
		var dup *merge.DuplicateKeyError
		if !errors.As(err, &dup) {
			t.Errorf("%s: error %v, want a DuplicateKeyError", config, err)
			continue
		}
		if strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: the error shows a value: %v", config, err)
		}
	}
}

func TestConfigThatCannotBeEditedIsAnError(t *testing.T) {
	for config, want := range map[string]string{
		``:                            "JSON",
		`{"image":"a"`:                "JSON",
		`{"image":"a"} {}`:            "after its end",
		`[]`:                          "image",
		`"image"`:                     "neither an object nor a list",
		`{"env":{"image":"a"}}`:       merge.ErrNoImage.Error(),
		`{"image":"topsecret",x:"y"}`: "JSON at byte",
	} {
		_, err := merge.SetImage(json.RawMessage(config), newImage)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", config, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%q: the error shows a value: %v", config, err)
		}
	}
	if _, err := merge.SetImage(json.RawMessage(`{"image":"a"}`), ""); err == nil {
		t.Error("an empty image was accepted")
	}
}

func FuzzSetImage(f *testing.F) {
	f.Add([]byte(`{"image":"a","n":1e400,"s":"\u0000","o":{"image":1}}`))
	f.Add([]byte(" {\"im\\u0061ge\" : null , \"\xff\":[ ] } "))
	f.Add([]byte(`{"image":"a","image":"b"}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		before := string(config)
		got, err := merge.SetImage(config, newImage)
		if string(config) != before {
			t.Fatal("the argument was changed")
		}
		if err != nil {
			return
		}
		// Undoing the edit by text gives the input back, so nothing else moved.
		old, ok, err := merge.Get(config, "/image")
		if err != nil || !ok {
			t.Fatalf("edited, yet the old image is not found: %v", err)
		}
		i := strings.Index(string(got), `"`+newImage+`"`)
		for ; i >= 0; i = next(string(got), i) {
			if string(got[:i])+string(old)+string(got[i+len(newImage)+2:]) == before {
				return
			}
		}
		t.Fatalf("more than the image changed:\n%q\n%q", before, got)
	})
}

func next(s string, after int) int {
	i := strings.Index(s[after+1:], `"`+newImage+`"`)
	if i < 0 {
		return -1
	}
	return after + 1 + i
}
