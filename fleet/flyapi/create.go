package flyapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// CreateRequest is a new machine.
type CreateRequest struct {
	// Name is the machine's, unique in its app. With a name a create that ended in doubt can be looked up; give one.
	Name   string
	Region string
	// Config goes out byte for byte.
	Config json.RawMessage
	// SkipLaunch leaves the machine stopped.
	SkipLaunch bool
	// SkipServiceRegistration creates it cordoned.
	SkipServiceRegistration bool
}

// CreateMachine makes a machine and returns Fly's answer; it does not wait for the boot.
//
// After a gateway error or a broken connection the machine may exist. Then the app's machines are read: one of that name
// whose config covers what was sent (ConfigCovers) is returned as the result; one that does not is the error that
// Fly would give for a taken name; none means that the create is sent again, once. Without a name nothing can be
// looked up, and the error says so.
func (c *Client) CreateMachine(ctx context.Context, app string, in CreateRequest) (*Machine, error) {
	body, err := createBody(in)
	if err != nil {
		return nil, fmt.Errorf("create machine %s of app %s: %w", in.Name, app, err)
	}
	r := request{
		op: "create machine " + in.Name, app: app, method: http.MethodPost, path: appPath(app, "machines"),
		body: body, waitsFor: callTimeout, concurrent: true,
	}
	for try := 1; ; try++ {
		m, err := c.machine(ctx, r)
		if m != nil {
			c.wrote(Write{Kind: WroteMachine, App: app, ID: m.ID})
		}
		if err == nil || !unsure(err) || ctx.Err() != nil {
			return m, err
		}
		if in.Name == "" {
			return nil, fmt.Errorf("a machine without a name may have been created in app %s; list them before trying again: %w", app, err)
		}
		if serr := sleep(ctx, backoff(try)); serr != nil {
			return nil, err
		}
		found, lerr := c.machineNamed(ctx, app, in.Name)
		if lerr != nil {
			return nil, fmt.Errorf("a machine %q may have been created in app %s, and looking for it failed too: %w", in.Name, app, errors.Join(err, lerr))
		}
		if found != nil {
			c.wrote(Write{Kind: WroteMachine, App: app, ID: found.ID})
			if ConfigCovers(found.Config(), in.Config) {
				return found, nil
			}
			return nil, &Error{
				Op: r.op, App: app, Status: http.StatusConflict,
				Text: fmt.Sprintf("already_exists: unique machine name violation, machine ID %s already exists with name %q", found.ID, in.Name),
			}
		}
		if try == 2 {
			return nil, err
		}
	}
}

func (c *Client) machineNamed(ctx context.Context, app, name string) (*Machine, error) {
	all, err := c.ListMachines(ctx, app)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Name == name && !m.Gone() {
			return m, nil
		}
	}
	return nil, nil
}

func createBody(in CreateRequest) ([]byte, error) {
	if !json.Valid(in.Config) {
		return nil, errors.New("the config to send is not JSON")
	}
	var b bytes.Buffer
	b.WriteString(`{"config":`)
	b.Write(in.Config)
	if in.Name != "" {
		b.WriteString(`,"name":`)
		b.Write(quote(in.Name))
	}
	if in.Region != "" {
		b.WriteString(`,"region":`)
		b.Write(quote(in.Region))
	}
	if in.SkipLaunch {
		b.WriteString(`,"skip_launch":true`)
	}
	if in.SkipServiceRegistration {
		b.WriteString(`,"skip_service_registration":true`)
	}
	b.WriteString(`}`)
	return b.Bytes(), nil
}

// ConfigCovers reports that everything in sent stands in remote with the same value: Fly fills in what was left out
// (config.guest) and adds nothing else to what was sent. A list must match element by element. Null equals absent.
func ConfigCovers(remote, sent json.RawMessage) bool {
	r, err1 := loose(remote)
	s, err2 := loose(sent)
	return err1 == nil && err2 == nil && covers(r, s)
}

func loose(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func covers(remote, sent any) bool {
	switch s := sent.(type) {
	case nil:
		return remote == nil
	case map[string]any:
		r, ok := remote.(map[string]any)
		if !ok {
			return len(s) == 0 && remote == nil
		}
		for k, v := range s {
			if !covers(r[k], v) {
				return false
			}
		}
		return true
	case []any:
		r, ok := remote.([]any)
		if !ok {
			return len(s) == 0 && remote == nil
		}
		if len(r) != len(s) {
			return false
		}
		for i := range s {
			if !covers(r[i], s[i]) {
				return false
			}
		}
		return true
	default:
		return remote == sent
	}
}
