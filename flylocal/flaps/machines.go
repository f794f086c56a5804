package flaps

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func (a *api) machineRoutes() map[string]handler {
	const m = "/v1/apps/{app}/machines/{id}"
	return map[string]handler{
		"POST /v1/apps/{app}/machines": a.createMachine,
		"GET /v1/apps/{app}/machines":  a.listMachines,
		"GET " + m:                     a.getMachine,
		"POST " + m:                    a.updateMachine,
		"DELETE " + m:                  a.destroyMachine,
		"POST " + m + "/start":         a.startMachine,
		"POST " + m + "/stop":          a.stopMachine,
		"POST " + m + "/restart":       a.restartMachine,
		"POST " + m + "/suspend":       a.suspendMachine,
		"POST " + m + "/signal":        a.signalMachine,
		"POST " + m + "/cordon":        a.cordon(true),
		"POST " + m + "/uncordon":      a.cordon(false),
		"GET " + m + "/wait":           a.wait,
		"GET " + m + "/events":         a.events,
		"GET " + m + "/versions":       a.versions,
		"GET " + m + "/lease":          a.getLease,
		"POST " + m + "/lease":         a.acquireLease,
		"DELETE " + m + "/lease":       a.releaseLease,
	}
}

// machineInput reads the body of a create or update. config is taken as the bytes that were sent.
func machineInput(r *http.Request) (engine.MachineInput, error) {
	var in struct {
		Name                    string          `json:"name"`
		Region                  string          `json:"region"`
		Config                  json.RawMessage `json:"config"`
		SkipLaunch              bool            `json:"skip_launch"`
		SkipServiceRegistration bool            `json:"skip_service_registration"`
		SkipSecrets             bool            `json:"skip_secrets"`
		MinSecretsVersion       *uint64         `json:"min_secrets_version"`
		LeaseTTL                int             `json:"lease_ttl"`
		CurrentVersion          string          `json:"current_version"`
	}
	if err := decode(r, &in); err != nil {
		return engine.MachineInput{}, err
	}
	out := engine.MachineInput{
		Name: in.Name, Region: in.Region, Config: in.Config, SkipLaunch: in.SkipLaunch,
		SkipServiceRegistration: in.SkipServiceRegistration, SkipSecrets: in.SkipSecrets, LeaseTTL: in.LeaseTTL, CurrentVersion: in.CurrentVersion,
	}
	if in.MinSecretsVersion != nil {
		out.MinSecretsVersion = *in.MinSecretsVersion
	}
	return out, nil
}

func (a *api) createMachine(r *http.Request) (answer, error) {
	in, err := machineInput(r)
	if err != nil {
		return answer{}, err
	}
	m, err := a.world.CreateMachine(appOf(r), in)
	return answer{status: http.StatusOK, body: machineJSON(m, shape{nonce: true})}, err
}

func (a *api) updateMachine(r *http.Request) (answer, error) {
	in, err := machineInput(r)
	if err != nil {
		return answer{}, err
	}
	m, err := a.world.UpdateMachine(appOf(r), idOf(r), nonceOf(r), in)
	return answer{status: http.StatusOK, body: machineJSON(m, shape{})}, err
}

func shapeOf(r *http.Request) shape {
	q := r.URL.Query()
	return shape{summary: truth(q.Get("summary")), nonce: truth(q.Get("include_leases"))}
}

func (a *api) listMachines(r *http.Request) (answer, error) {
	rows, err := a.world.Machines(appOf(r), filterOf(r))
	s := shapeOf(r)
	return answer{status: http.StatusOK, body: array(rows, func(m engine.MachineView) []byte { return machineJSON(m, s) })}, err
}

func (a *api) getMachine(r *http.Request) (answer, error) {
	m, err := a.world.Machine(appOf(r), idOf(r))
	s := shapeOf(r)
	s.summary = false
	return answer{status: http.StatusOK, body: machineJSON(m, s)}, err
}

func (a *api) destroyMachine(r *http.Request) (answer, error) {
	q := r.URL.Query()
	return accepted, a.world.DestroyMachine(appOf(r), idOf(r), nonceOf(r), truth(q.Get("force")) || truth(q.Get("kill")))
}

func (a *api) startMachine(r *http.Request) (answer, error) {
	previous, err := a.world.StartMachine(appOf(r), idOf(r), nonceOf(r))
	var o object
	o.str("previous_state", previous)
	o.val("migrated", false)
	o.str("new_host", "")
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) stopMachine(r *http.Request) (answer, error) {
	var in struct {
		Signal  string               `json:"signal"`
		Timeout machineconf.Duration `json:"timeout"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	return accepted, a.world.StopMachine(appOf(r), idOf(r), nonceOf(r), in.Signal, time.Duration(in.Timeout))
}

func (a *api) restartMachine(r *http.Request) (answer, error) {
	q := r.URL.Query()
	timeout, err := machineconf.ParseDuration(q.Get("timeout"))
	if err != nil {
		return answer{}, badRequest(err.Error())
	}
	return accepted, a.world.RestartMachine(appOf(r), idOf(r), nonceOf(r), engine.RestartInput{
		ForceStop: truth(q.Get("force_stop")), Signal: q.Get("signal"), Timeout: timeout,
	})
}

func (a *api) suspendMachine(r *http.Request) (answer, error) {
	return accepted, a.world.SuspendMachine(appOf(r), idOf(r), nonceOf(r))
}

// signalMachine takes a number, as fly-go sends it, or a name, as the public API has it.
func (a *api) signalMachine(r *http.Request) (answer, error) {
	var in struct {
		Signal json.RawMessage `json:"signal"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	var name string
	var number int
	if json.Unmarshal(in.Signal, &number) != nil && json.Unmarshal(in.Signal, &name) != nil {
		return answer{}, badRequest("signal is required")
	}
	return accepted, a.world.SignalMachine(appOf(r), idOf(r), strings.ToUpper(name), number)
}

func (a *api) cordon(cordoned bool) handler {
	return func(r *http.Request) (answer, error) {
		return accepted, a.world.SetCordon(appOf(r), idOf(r), nonceOf(r), cordoned)
	}
}

func (a *api) wait(r *http.Request) (answer, error) {
	q := r.URL.Query()
	in := engine.WaitInput{States: list(q, "state"), Version: q.Get("version"), FromEvent: q.Get("from_event_id")}
	if in.Version == "" {
		in.Version = q.Get("instance_id")
	}
	if text := q.Get("timeout"); text != "" {
		timeout, err := machineconf.ParseDuration(text)
		if err != nil || timeout == 0 {
			timeout = -1 // Outside the range, which the engine refuses in Fly's words.
		}
		in.Timeout = timeout
	}
	got, err := a.world.Wait(r.Context(), appOf(r), idOf(r), in)
	var o object
	o.val("ok", true)
	o.str("state", got.State)
	o.str("version", got.Version)
	o.str("event_id", got.EventID)
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

// Limits of `GET …/events`.
const (
	defaultEvents = 20
	maxEvents     = 50
)

func (a *api) events(r *http.Request) (answer, error) {
	limit, err := number(r.URL.Query().Get("limit"))
	if err != nil {
		return answer{}, err
	}
	if limit == 0 {
		limit = defaultEvents
	}
	m, err := a.world.Machine(appOf(r), idOf(r))
	events := newestFirst(m.Events)
	return answer{status: http.StatusOK, body: array(events[:min(limit, maxEvents, len(events))], eventJSON)}, err
}

func (a *api) versions(r *http.Request) (answer, error) {
	m, err := a.world.Machine(appOf(r), idOf(r))
	rows := make([]state.Version, len(m.Versions))
	for i, v := range m.Versions {
		rows[len(rows)-1-i] = v
	}
	return answer{status: http.StatusOK, body: array(rows, func(v state.Version) []byte {
		var o object
		o.str("version", v.InstanceID)
		o.raw("user_config", v.Config)
		return o.bytes()
	})}, err
}

func (a *api) getLease(r *http.Request) (answer, error) {
	lease, err := a.world.Lease(appOf(r), idOf(r))
	return answer{status: http.StatusOK, body: leaseJSON(lease)}, err
}

// acquireLease takes ttl from the query, as fly-go sends it, or from the body, as the public API has it.
func (a *api) acquireLease(r *http.Request) (answer, error) {
	var in struct {
		TTL         int    `json:"ttl"`
		Description string `json:"description"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	if text := r.URL.Query().Get("ttl"); text != "" {
		ttl, err := number(text)
		if err != nil {
			return answer{}, err
		}
		in.TTL = ttl
	}
	lease, err := a.world.AcquireLease(appOf(r), idOf(r), nonceOf(r), in.TTL, in.Description)
	return answer{status: http.StatusCreated, body: leaseJSON(lease)}, err
}

func (a *api) releaseLease(r *http.Request) (answer, error) {
	return accepted, a.world.ReleaseLease(appOf(r), idOf(r), nonceOf(r))
}
