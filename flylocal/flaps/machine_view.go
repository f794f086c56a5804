package flaps

import (
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// shape says which parts of a machine an answer shows.
type shape struct {
	summary bool
	nonce   bool
	org     bool
}

// machineJSON writes a machine. Its config goes out as the bytes that came in. A machine whose host is not ok has no
// config, only what other sources know of it, in incomplete_config.
func machineJSON(m engine.MachineView, s shape) []byte {
	var o object
	o.str("id", m.ID)
	o.str("name", m.Name)
	o.str("state", m.State)
	o.str("region", m.Region)
	if s.org {
		o.str("app_name", m.App)
	}
	o.val("image_ref", m.Image)
	o.str("instance_id", m.InstanceID)
	o.str("private_ip", m.PrivateIP.String())
	o.time("created_at", m.CreatedAt)
	o.time("updated_at", m.UpdatedAt)
	switch {
	case s.org && m.HostStatus == "ok":
		o.raw("config", reduced(m.Config))
	case s.summary:
	case m.HostStatus != "ok":
		o.raw("incomplete_config", reduced(m.Config))
	default:
		o.raw("config", m.Config)
	}
	if !s.summary && !s.org {
		o.raw("events", array(newestFirst(m.Events), eventJSON))
		if len(m.Checks) > 0 {
			o.raw("checks", array(m.Checks, checkJSON))
		}
		if s.nonce && m.Held != nil {
			o.str("nonce", m.Held.Nonce)
		}
	}
	if !s.summary {
		o.str("host_status", m.HostStatus)
	}
	o.val("cordoned", m.Cordoned)
	return o.bytes()
}

// reduced keeps of a config what Fly knows without asking the machine's host.
// Assumption: which fields those are is not documented; these are the ones that lists are used for.
func reduced(config []byte) []byte {
	var o object
	for _, key := range []string{"image", "metadata", "guest", "mounts"} {
		if value, ok := rawjson.Get(config, key); ok {
			o.raw(key, value)
		}
	}
	return o.bytes()
}

func newestFirst(events []state.Event) []state.Event {
	out := make([]state.Event, len(events))
	for i, e := range events {
		out[len(events)-1-i] = e
	}
	return out
}

func eventJSON(e state.Event) []byte {
	var o object
	o.str("id", e.ID)
	o.str("type", e.Type)
	o.str("status", e.Status)
	o.str("source", e.Source)
	o.val("timestamp", e.Timestamp.UnixMilli())
	if x := e.Exit; x != nil {
		var exit, request object
		exit.val("exit_code", x.Code)
		exit.val("guest_exit_code", x.Code)
		exit.val("guest_signal", x.Signal)
		exit.val("signal", x.Signal)
		exit.val("oom_killed", x.OOMKilled)
		exit.val("requested_stop", x.RequestedStop)
		exit.val("restarting", x.Restarting)
		// fly-go decodes a time here; older documents show a number, which it refuses.
		exit.str("exited_at", x.At.Format(time.RFC3339Nano))
		request.raw("exit_event", exit.bytes())
		request.val("restart_count", x.RestartCount)
		o.raw("request", request.bytes())
	}
	return o.bytes()
}

func checkJSON(c engine.CheckView) []byte {
	var o object
	o.str("name", c.Name)
	o.str("status", c.Status)
	o.str("output", c.Output)
	o.time("updated_at", c.UpdatedAt)
	return o.bytes()
}
