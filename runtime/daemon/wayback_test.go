package daemon

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is missing or wrong is said before anything runs, and no key with it.
func TestWayBackSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", `{"upstreams": {"crm": {"url": "https://crm.example", "credential": {"name": "crm", "header": "Authorization", "template": "Bearer {credential}"}}}}`, 0o600)
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	short := base64.StdEncoding.EncodeToString([]byte("short-key"))
	open := write("open.key", key, 0o644)
	closed := write("closed.key", key+"\n", 0o600)
	const at, sealing = "https://runtime.example/", "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	for name, c := range map[string]struct {
		config  Config
		secrets Secrets
		want    string
	}{
		"no file":        {Config{Upstreams: filepath.Join(dir, "none"), CallbackURL: at}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_UPSTREAMS"},
		"a wrong file":   {Config{Upstreams: closed, CallbackURL: at}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_UPSTREAMS"},
		"no token key":   {Config{Upstreams: good, CallbackURL: at}, Secrets{SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"a short key":    {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: short, SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"no base64":      {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: "short-key!", SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"an open file":   {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: open, SealingKeys: sealing}, "chmod 600"},
		"no sealing key": {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: key}, "FLYFLEET_SEALING_KEYS"},
		"no URL":         {Config{Upstreams: good}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_CALLBACK_URL"},
		"no http":        {Config{Upstreams: good, CallbackURL: "runtime:8090"}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_CALLBACK_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newWayBack(c.config, c.secrets)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "short-key") || strings.Contains(err.Error(), key) {
				t.Errorf("error %v", err)
			}
		})
	}
	if none, err := newWayBack(Config{}, Secrets{}); none != nil || err != nil {
		t.Errorf("without a file: %+v, %v", none, err)
	}
	for _, keys := range []string{key, key + "," + key, closed} {
		back, err := newWayBack(Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: keys, SealingKeys: sealing})
		if err != nil {
			t.Fatal(err)
		}
		if back.driver().URL != "https://runtime.example/v1/proxy" || back.gateway().Keys == nil {
			t.Errorf("the way back is %+v", back)
		}
		flags := Config{Provider: "scripted", Agents: write("agents.json", `{"agents": {"all": {}, "none": {"upstreams": []}, "crm": {"upstreams": ["crm"]}}}`, 0o600)}
		all, err := newAgents(flags, Secrets{}, back)
		if err != nil {
			t.Fatal(err)
		}
		for name, may := range map[string]bool{"all": true, "none": false, "crm": true} {
			if agent, err := all.Agent(name); err != nil || (agent.Calls != nil) != may {
				t.Errorf("agent %s: %+v, %v", name, agent.Calls, err)
			}
		}
		if _, err := newAgents(flags, Secrets{}, nil); err == nil || !strings.Contains(err.Error(), "FLYFLEET_UPSTREAMS") {
			t.Errorf("agents with upstreams where there are none: %v", err)
		}
		flags.Agents = write("wrong.json", `{"agents": {"a": {"upstreams": ["hr"]}}}`, 0o600)
		if _, err := newAgents(flags, Secrets{}, back); err == nil || !strings.Contains(err.Error(), `"hr"`) {
			t.Errorf("an agent with an upstream that is not there: %v", err)
		}
	}
}
