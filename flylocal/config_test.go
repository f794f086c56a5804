package flylocal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// odd are values that a decode into Go values and back would change.
var odd = []string{
	`9007199254740993`, `1e400`, `1.0`, `-0`, `0.10`, `1E+2`, `"\u0000"`, `"\u003c\/script>&"`, `"é \ud83d\ude00"`, `null`, `[]`, `{}`,
	`[1 , 2,3 ]`, "{ \"b\":1,\n\"a\":2}", `""`, `true`,
}

func oddConfig(t *rapid.T) string {
	var members []string
	n := rapid.IntRange(0, 8).Draw(t, "members")
	for i := range n {
		key := rapid.SampledFrom([]string{"future", "x_y", "\\u0061", "processes_v2", "ümlaut"}).Draw(t, "key")
		value := rapid.SampledFrom(odd).Draw(t, "value")
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		members = append(members, fmt.Sprintf(`%s"%s%d"%s:%s%s`, space, key, i, space, space, value))
	}
	known := []string{
		`"image":"` + image + `"`, `"env":{"A":"1","B":"\u0000"}`, `"metadata":{ "z":"1" ,"a":"2"}`,
		`"services":[{"internal_port":8080,"protocol":"tcp","autostop":false,"ports":[{"port":8080}],"unknown":1.50}]`,
	}
	members = append(members, known[0])
	for _, k := range known[1:] {
		if rapid.Bool().Draw(t, k[:6]) {
			members = append(members, k)
		}
	}
	if rapid.Bool().Draw(t, "guest") {
		members = append(members, `"guest":{"memory_mb":512,"cpu_kind":"shared","cpus":1,"later":1e2}`)
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
}

// A config is its sender's text. Answers show those bytes; only a missing guest is added, at the end.
func TestConfigComesBackByteForByte(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		sent := oddConfig(r)
		want := sent
		if !strings.Contains(sent, `"guest"`) {
			want = strings.TrimSuffix(sent, "}") + `,"guest":{"cpu_kind":"shared","cpus":1,"memory_mb":256}}`
		}
		created := must(t, p, "POST", "/v1/apps/app/machines", fmt.Sprintf(`{"skip_launch":true,"name":"m%d","config":%s}`, n, sent))
		var m machine
		created.decode(t, &m)
		if string(m.Config) != want {
			r.Fatalf("create answered\n%s\nwant\n%s", m.Config, want)
		}
		m = settled(t, p, "app", m.ID)
		if string(m.Config) != want {
			r.Fatalf("get answered\n%s\nwant\n%s", m.Config, want)
		}
		path := "/v1/apps/app/machines/" + m.ID
		next := oddConfig(r)
		must(t, p, "POST", path, fmt.Sprintf(`{"skip_launch":true,"config":%s}`, next))
		m = settled(t, p, "app", m.ID)
		if !bytes.HasPrefix(m.Config, []byte(strings.TrimSuffix(next, "}"))) {
			r.Fatalf("update kept\n%s\nsent\n%s", m.Config, next)
		}
		must(t, p, "DELETE", path, nil)
	})
}

func TestMetadataChangesNoOtherByteAndNoVersion(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	sent := `{ "n":9007199254740993, "metadata" : {"b":"1"}, "image":"` + image + `","guest":{"cpus":1 ,"cpu_kind":"shared","memory_mb":256} }`
	m := newMachine(t, p, "app", `{"config":`+sent+`}`)
	path := "/v1/apps/app/machines/" + m.ID
	must(t, p, "POST", path+"/metadata/a", `{"value":"<x>"}`)
	want := strings.Replace(sent, `{"b":"1"}`, `{"b":"1","a":"<x>"}`, 1)
	if got := get(t, p, "app", m.ID); string(got.Config) != want || got.InstanceID != m.InstanceID || got.State != "started" {
		t.Errorf("got %s, want %s", got.Config, want)
	}
	if got := call(t, p, "PATCH", path+"/metadata", `{"metadata":{"b":""},"machine_version":"01OLD"}`); got.status != 412 {
		t.Errorf("a metadata write for another version: %d %s", got.status, got.body)
	}
	must(t, p, "PATCH", path+"/metadata", `{"metadata":{"b":""},"machine_version":"`+m.InstanceID+`"}`)
	must(t, p, "DELETE", path+"/metadata/a", nil)
	var left map[string]string
	must(t, p, "GET", path+"/metadata", nil).decode(t, &left)
	if len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestAMountByNameIsFilledInWithItsVolume(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	var v struct{ ID string }
	must(t, p, "POST", "/v1/apps/app/volumes", `{"name":"data","region":"fra"}`).decode(t, &v)
	m := newMachine(t, p, "app", `{"config":{"image":"`+image+`","mounts":[{"name":"data","path":"/data","x":1.0}],"guest":{"memory_mb":256}}}`)
	want := `{"image":"` + image + `","mounts":[{"name":"data","path":"/data","x":1.0,"volume":"` + v.ID + `"}],"guest":{"memory_mb":256}}`
	if string(m.Config) != want || m.Region != "fra" {
		t.Errorf("region %s, config %s, want %s", m.Region, m.Config, want)
	}
	if got := call(t, p, "POST", "/v1/apps/app/machines/"+m.ID, `{"config":{"image":"`+image+`"}}`); got.status != 400 {
		t.Errorf("an update without the mount: %d %s", got.status, got.body)
	}
	must(t, p, "POST", "/v1/apps/app/machines/"+m.ID, `{"config":{"image":"`+image+`","mounts":[{"volume":"`+v.ID+`","path":"/elsewhere"}]}}`)
}

func TestASizeStandsForItsGuest(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	m := newMachine(t, p, "app", `{"config":{"image":"`+image+`","size":"shared-cpu-2x"}}`)
	var c struct {
		Guest struct {
			CPUs     int
			MemoryMB int `json:"memory_mb"`
		}
	}
	if err := json.Unmarshal(m.Config, &c); err != nil || c.Guest.CPUs != 2 || c.Guest.MemoryMB != 512 {
		t.Errorf("%s, %v", m.Config, err)
	}
}
