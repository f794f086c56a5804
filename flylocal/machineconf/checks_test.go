package machineconf

import "testing"

// fly.toml and the tools that read it write methods in lower case; HTTP knows GET only.
func TestCheckMethodIsUpperCase(t *testing.T) {
	config, err := Parse([]byte(`{"image":"x","checks":{"web":{"type":"http","port":8080,"method":"get"}},"services":[{"internal_port":80,"checks":[{"type":"http"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, check := range config.AllChecks() {
		names[check.Name] = check.Method
	}
	if names["web"] != "GET" || names["servicecheck-00-http-80"] != "GET" || len(names) != 2 {
		t.Errorf("checks %v, want GET for web and servicecheck-00-http-80", names)
	}
}
