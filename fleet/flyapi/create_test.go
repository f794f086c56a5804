package flyapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const (
	postMachine = "POST /v1/apps/app/machines"
	listMachine = "GET /v1/apps/app/machines"
)

// fly-go's transport repeats a POST after 502 and 503: a create that was carried out after all made a second machine.
func TestMachineCreateInDoubtIsLookedUpFirst(t *testing.T) {
	made := `[{"id":"m9","name":"main","state":"created","config":{"image":"i","guest":{"cpus":1},"env":{"A":"1"}}}]`
	for _, tc := range []struct {
		name   string
		listed string
		want   []string
		id     string // of the machine returned
		taken  string // id named by a name-taken error
	}{
		{"it was made", made, []string{postMachine, listMachine}, "m9", ""},
		{"it was not", `[]`, []string{postMachine, listMachine, postMachine}, "m1", ""},
		{"another has the name", `[{"id":"m7","name":"main","state":"started","config":{"image":"other"}}]`, []string{postMachine, listMachine}, "", "m7"},
		{"a destroyed one had it", `[{"id":"m7","name":"main","state":"destroyed","config":{"image":"i"}}]`, []string{postMachine, listMachine, postMachine}, "m1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, status := range []int{502, 503, 504} {
				s := &script{answer: func(c call, n int) answer {
					switch {
					case c.key() == listMachine:
						return ok(tc.listed)
					case n == 1:
						return answer{status: status}
					}
					return ok(`{"id":"m1","name":"main"}`)
				}}
				synctest.Test(t, func(t *testing.T) {
					m, err := client(t, s).CreateMachine(t.Context(), "app", flyapi.CreateRequest{
						Name: "main", Region: "ams", Config: json.RawMessage(`{"image":"i","env":{"A":"1"}}`),
					})
					if got := s.asked(); !slices.Equal(got, tc.want) {
						t.Errorf("%d: asked %v", status, got)
					}
					if tc.id != "" && (err != nil || m.ID != tc.id) {
						t.Errorf("%d: machine %+v, error %v", status, m, err)
					}
					if tc.taken != "" && (!flyapi.IsNameTaken(err) || flyapi.NameTakenBy(err) != tc.taken) {
						t.Errorf("%d: error %v", status, err)
					}
				})
			}
		})
	}
}

func TestNamelessCreateInDoubtIsNotRepeated(t *testing.T) {
	s := &script{answer: func(call, int) answer { return answer{status: 502} }}
	synctest.Test(t, func(t *testing.T) {
		_, err := client(t, s).CreateMachine(t.Context(), "app", flyapi.CreateRequest{Config: json.RawMessage(`{}`)})
		if err == nil || len(s.asked()) != 1 || !strings.Contains(err.Error(), "may have been created") {
			t.Fatalf("asked %v, error %v", s.asked(), err)
		}
	})
}

func TestNameClashNamesTheMachine(t *testing.T) {
	s := &script{answer: func(call, int) answer {
		return refuse(409, `already_exists: unique machine name violation, machine ID 148e21 already exists with name "main"`)
	}}
	_, err := client(t, s).CreateMachine(t.Context(), "app", flyapi.CreateRequest{Name: "main", Config: json.RawMessage(`{}`)})
	if !flyapi.IsNameTaken(err) || flyapi.NameTakenBy(err) != "148e21" || flyapi.IsVersionConflict(err) {
		t.Fatalf("error %v", err)
	}
}

func TestAppCreateInDoubtIsLookedUpFirst(t *testing.T) {
	const post, get = "POST /v1/apps", "GET /v1/apps/shop"
	app := func(org, network string) string {
		return fmt.Sprintf(`{"id":"x","name":"shop","network":%q,"organization":{"slug":%q}}`, network, org)
	}
	for _, tc := range []struct {
		name  string
		found string
		want  []string
		taken bool
	}{
		{"it was made", app("acme", "net"), []string{post, get}, false},
		{"another organization has it", app("other", "net"), []string{post, get}, true},
		{"on another network", app("acme", "default"), []string{post, get}, true},
		{"it was not", "", []string{post, get, post, get}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &script{answer: func(c call, n int) answer {
				switch {
				case c.key() == post && n == 1:
					return answer{status: 503}
				case c.key() == post:
					return ok(`{"id":"x"}`)
				case tc.found == "" && n == 1:
					return refuse(404, "app not found")
				case tc.found == "":
					return ok(app("acme", "net"))
				}
				return ok(tc.found)
			}}
			synctest.Test(t, func(t *testing.T) {
				got, err := client(t, s).CreateApp(t.Context(), "shop", "acme", "net")
				if !slices.Equal(s.asked(), tc.want) {
					t.Errorf("asked %v", s.asked())
				}
				if flyapi.IsNameTaken(err) != tc.taken || (!tc.taken && got.Network != "net") {
					t.Errorf("app %+v, error %v", got, err)
				}
			})
		})
	}
}

func TestVolumeCreateInDoubtIsLookedUpFirst(t *testing.T) {
	const post, get = "POST /v1/apps/app/volumes", "GET /v1/apps/app/volumes"
	synctest.Test(t, func(t *testing.T) {
		row := func(id string, size int, attached string, age time.Duration) string {
			at := "null"
			if attached != "" {
				at = `"` + attached + `"`
			}
			return fmt.Sprintf(`{"id":%q,"name":"data","region":"ams","size_gb":%d,"state":"created","attached_machine_id":%s,"created_at":%q}`,
				id, size, at, time.Now().Add(-age).UTC().Format(time.RFC3339))
		}
		for _, tc := range []struct {
			name string
			rows []string
			want []string
			id   string
		}{
			{"it was made", []string{row("v9", 1, "", 0)}, []string{post, get}, "v9"},
			{"an old one of the name", []string{row("v0", 1, "", time.Hour)}, []string{post, get, post}, "v1"},
			{"one of another size", []string{row("v0", 2, "", 0)}, []string{post, get, post}, "v1"},
			{"one that is attached", []string{row("v0", 1, "m0", 0)}, []string{post, get, post}, "v1"},
			{"two that fit", []string{row("v7", 1, "", 0), row("v8", 1, "", 0)}, []string{post, get}, ""},
		} {
			s := &script{answer: func(c call, n int) answer {
				switch {
				case c.key() == get:
					return ok("[" + strings.Join(tc.rows, ",") + "]")
				case n == 1:
					return answer{status: 502}
				}
				return ok(row("v1", 1, "", 0))
			}}
			v, err := client(t, s).CreateVolume(t.Context(), "app", flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1})
			if !slices.Equal(s.asked(), tc.want) || v.ID != tc.id || (err == nil) != (tc.id != "") {
				t.Errorf("%s: asked %v, volume %q, error %v", tc.name, s.asked(), v.ID, err)
			}
		}
	})
}

func TestAddressInDoubtIsLookedUpByItsNetworkOnly(t *testing.T) {
	const post, get = "POST /v1/apps/app/ip_assignments", "GET /v1/apps/app/ip_assignments"
	for _, tc := range []struct {
		kind   string
		listed string
		want   []string
		ip     string
	}{
		{flyapi.AddressPrivateV6, `{"ips":[{"ip":"fdaa:0:1::9","network":"rt"}]}`, []string{post, get}, "fdaa:0:1::9"},
		{flyapi.AddressPrivateV6, `{"ips":[{"ip":"fdaa:0:1::9","network":"other"},{"ip":"2a09::1"}]}`, []string{post, get, post}, "fdaa:0:1::1"},
		{flyapi.AddressV6, ``, []string{post}, ""},
	} {
		s := &script{answer: func(c call, n int) answer {
			switch {
			case c.key() == get:
				return ok(tc.listed)
			case n == 1:
				return answer{status: http.StatusBadGateway}
			}
			return ok(`{"ip":"fdaa:0:1::1"}`)
		}}
		synctest.Test(t, func(t *testing.T) {
			a, err := client(t, s).AssignAddress(t.Context(), "app", flyapi.AssignRequest{Type: tc.kind, Network: "rt"})
			if !slices.Equal(s.asked(), tc.want) || a.IP != tc.ip || (err == nil) != (tc.ip != "") {
				t.Errorf("%s: asked %v, address %+v, error %v", tc.kind, s.asked(), a, err)
			}
		})
	}
}

func TestConfigCoversWhatWasSent(t *testing.T) {
	for _, tc := range []struct {
		remote, sent string
		want         bool
	}{
		{`{"image":"i","guest":{"cpus":1}}`, `{"image":"i"}`, true},
		{`{"image":"i"}`, `{"image":"i","env":null}`, true},
		{`{"image":"i"}`, `{"image":"i","env":{"A":"1"}}`, false},
		{`{"image":"j"}`, `{"image":"i"}`, false},
		{`{"mounts":[{"volume":"v","path":"/d","name":"n"}]}`, `{"mounts":[{"volume":"v","path":"/d"}]}`, true},
		{`{"mounts":[]}`, `{"mounts":[{"volume":"v"}]}`, false},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		{`not json`, `{}`, false},
	} {
		if got := flyapi.ConfigCovers(json.RawMessage(tc.remote), json.RawMessage(tc.sent)); got != tc.want {
			t.Errorf("%s covers %s: %v", tc.remote, tc.sent, got)
		}
	}
}
