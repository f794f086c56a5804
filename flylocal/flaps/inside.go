package flaps

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
)

func (a *api) insideRoutes() map[string]handler {
	const m = "/v1/apps/{app}/machines/{id}"
	return map[string]handler{
		"POST " + m + "/exec":             a.exec,
		"GET " + m + "/ps":                a.ps,
		"GET " + m + "/metadata":          a.getMetadata,
		"PUT " + m + "/metadata":          a.putMetadata(true),
		"PATCH " + m + "/metadata":        a.putMetadata(false),
		"GET " + m + "/metadata/{key}":    a.getMetadataKey,
		"POST " + m + "/metadata/{key}":   a.setMetadataKey,
		"DELETE " + m + "/metadata/{key}": a.deleteMetadataKey,
	}
}

func (a *api) exec(r *http.Request) (answer, error) {
	var in struct {
		Cmd     string   `json:"cmd"`
		Command []string `json:"command"`
		Stdin   string   `json:"stdin"`
		Timeout int      `json:"timeout"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	argv := in.Command
	if len(argv) == 0 {
		var err error
		if argv, err = splitWords(in.Cmd); err != nil {
			return answer{}, badRequest("cmd: " + err.Error())
		}
	}
	result, err := a.world.Exec(r.Context(), appOf(r), idOf(r), runner.ExecRequest{
		Argv: argv, Stdin: []byte(in.Stdin), Timeout: time.Duration(in.Timeout) * time.Second,
	})
	var o object
	o.val("exit_code", result.Code)
	o.val("exit_signal", result.Signal)
	o.str("stdout", string(result.Stdout))
	o.str("stderr", string(result.Stderr))
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) ps(r *http.Request) (answer, error) {
	processes, err := a.world.Ps(r.Context(), appOf(r), idOf(r))
	return answer{status: http.StatusOK, body: array(processes, processJSON)}, err
}

func processJSON(p runner.Process) []byte {
	sockets := array(p.Listen, func(s runner.ListenSocket) []byte {
		var o object
		o.str("proto", s.Proto)
		o.str("address", s.Address)
		return o.bytes()
	})
	var o object
	o.val("pid", p.PID)
	o.val("stime", p.CPUTime.Milliseconds())
	o.val("rtime", p.Started.Milliseconds())
	o.str("command", p.Command)
	o.str("directory", p.Directory)
	o.val("cpu", 0)
	o.val("rss", p.RSS)
	o.raw("listen_sockets", sockets)
	return o.bytes()
}

func (a *api) getMetadata(r *http.Request) (answer, error) {
	metadata, err := a.world.Metadata(appOf(r), idOf(r))
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(metadata)
	return answer{status: http.StatusOK, body: body}, err
}

func (a *api) getMetadataKey(r *http.Request) (answer, error) {
	metadata, err := a.world.Metadata(appOf(r), idOf(r))
	if err != nil {
		return answer{}, err
	}
	value, found := metadata[r.PathValue("key")]
	if !found {
		return answer{}, &engine.Refusal{Status: http.StatusNotFound, Text: "metadata key not found"}
	}
	var o object
	o.str("value", value)
	return ok(o.bytes())
}

func (a *api) setMetadataKey(r *http.Request) (answer, error) {
	var in struct {
		Value string `json:"value"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, a.world.SetMetadata(appOf(r), idOf(r), map[string]string{r.PathValue("key"): in.Value}, false, "")
}

func (a *api) deleteMetadataKey(r *http.Request) (answer, error) {
	return answer{status: http.StatusNoContent}, a.world.SetMetadata(appOf(r), idOf(r), map[string]string{r.PathValue("key"): ""}, false, "")
}

func (a *api) putMetadata(replace bool) handler {
	return func(r *http.Request) (answer, error) {
		var in struct {
			Metadata map[string]string `json:"metadata"`
			Version  string            `json:"machine_version"`
		}
		if err := decode(r, &in); err != nil {
			return answer{}, err
		}
		return answer{status: http.StatusNoContent}, a.world.SetMetadata(appOf(r), idOf(r), in.Metadata, replace, in.Version)
	}
}
