package machine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// Create implements resource.Resource. It finds or creates. An error is returned only while nothing remote exists, because
// Terraform destroys what a failed create left; after that a failure is a warning, and the next plan finishes in place.
func (r *machineResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	budget, diags := plan.Timeouts.Create(ctx, defaultCreate)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	until := time.Now().Add(budget)
	config, err := createConfig(plan)
	if err != nil {
		resp.Diagnostics.AddError("Machine not created", err.Error()+".")
		return
	}
	m, adopted, err := r.findOrCreate(ctx, plan, flyapi.CreateRequest{Name: plan.Name, Region: plan.Region, Config: config})
	if err != nil {
		resp.Diagnostics.AddError("Machine not created", err.Error()+".")
		return
	}
	if adopted {
		resp.Diagnostics.AddWarning("Machine adopted", fmt.Sprintf("Machine %s (%s of app %s) existed already, made by this configuration and equal to the plan: left by a create that was interrupted. It was adopted.",
			m.ID, plan.Name, plan.App))
	}
	plan.ID = types.StringValue(m.ID)
	open := openStep{InstanceID: m.InstanceID, Image: plan.Image.ValueString(), Why: "the create was not seen through"}
	rec := record{InstanceID: m.InstanceID, Open: &open}
	// Saved before anything can fail: a machine that Terraform does not know of is an orphan.
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
	now, o := r.seeThrough(ctx, plan, open, until)
	if now != nil {
		rec.InstanceID, rec.State, rec.Owner = now.InstanceID, now.State, now.Metadata()[mark.OwnerKey]
	}
	if o.finished() {
		rec.Open = nil
	} else {
		rec.Open.Why = o.why
		r.incomplete(resp, plan, o)
	}
	if o.note != "" {
		resp.Diagnostics.AddWarning("Machine runs, its checks do not pass", fmt.Sprintf("Machine %s (%s of app %s): %s.", m.ID, plan.Name, plan.App, o.note))
	}
	resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
	// Last of all: until here a killed create is found again, from here on the machine is this resource's.
	if err := r.account.Fly.SetMetadata(ctx, plan.App, m.ID, mark.CreateKey, mark.Done); err != nil {
		tflog.Warn(ctx, "the machine's create stays marked as open", map[string]any{"app": plan.App, "machine": m.ID, "error": err.Error()})
	}
}

func (r *machineResource) incomplete(resp *resource.CreateResponse, plan model, o outcome) {
	text := fmt.Sprintf("Machine %s (%s of app %s) was created, but %s.", plan.ID.ValueString(), plan.Name, plan.App, o.why)
	look := fmt.Sprintf(" `fly machine status %s -a %s` tells more.", plan.ID.ValueString(), plan.App)
	if r.account.Defaults.FailIncomplete {
		resp.Diagnostics.AddError("Machine not finished", text+look+" incomplete_create = \"fail\" makes this an error; the next apply replaces the machine.")
		return
	}
	resp.Diagnostics.AddWarning("Machine not finished", text+look+" Run `terraform apply` again: it finishes this machine in place.")
}

// findOrCreate creates the machine, or takes the one of that name that an interrupted create left behind.
func (r *machineResource) findOrCreate(ctx context.Context, plan model, in flyapi.CreateRequest) (m *flyapi.Machine, adopted bool, err error) {
	m, err = r.account.Fly.CreateMachine(ctx, plan.App, in)
	if err == nil {
		if !r.account.Claims.Take(m.ID) {
			return nil, false, fmt.Errorf("machine %s (%s of app %s) is another resource's of this configuration", m.ID, plan.Name, plan.App)
		}
		return m, false, nil
	}
	if !flyapi.IsNameTaken(err) && !flyapi.IsVolumeBound(err) {
		return nil, false, err
	}
	all, lerr := r.account.Fly.ListMachines(ctx, plan.App)
	if lerr != nil {
		return nil, false, fmt.Errorf("%w; and the app's machines could not be listed: %w", err, lerr)
	}
	for _, m := range all {
		if m.Name != plan.Name || m.Gone() {
			continue
		}
		why := unlike(m, plan)
		if why == "" && !r.account.Claims.Take(m.ID) {
			why = "it belongs to another resource of this configuration"
		}
		if why == "" {
			return m, true, nil
		}
		return nil, false, fmt.Errorf("machine %s is named %q in app %s already and was not adopted: %s. It was not touched. Give this one another name, destroy that one, or take it as it is with%s(%w)",
			m.ID, plan.Name, plan.App, why, importBlock(plan.App, m.ID), err)
	}
	return nil, false, err
}

// outcome is how far a create came.
type outcome struct {
	// why says what was not reached; "" means the machine runs what was planned.
	why string
	// note is what a person should know of a machine that runs.
	note string
}

func (o outcome) finished() bool { return o.why == "" }

// seeThrough waits until the machine rests, and then for its checks, as long as there is time. The machine is nil when it
// could not be read.
func (r *machineResource) seeThrough(ctx context.Context, plan model, open openStep, until time.Time) (*flyapi.Machine, outcome) {
	app, id := plan.App, plan.ID.ValueString()
	err := r.account.Fly.WaitMachine(ctx, app, id, flyapi.WaitRequest{InstanceID: open.InstanceID, Budget: time.Until(until)})
	if err != nil && !flyapi.IsTimeout(err) {
		return nil, outcome{why: "waiting for it failed: " + err.Error()}
	}
	for {
		m, err := r.account.Fly.GetMachine(ctx, app, id)
		if err != nil {
			return nil, outcome{why: "reading it back failed: " + err.Error()}
		}
		o := judge(m, open)
		if o.finished() && o.note == "" && len(m.Checks) < len(plan.Checks) {
			o.note = fmt.Sprintf("%d of its %d checks have reported", len(m.Checks), len(plan.Checks))
		}
		if !o.finished() && m.Settled() {
			return m, o
		}
		if o.note == "" && o.finished() || time.Now().After(until) {
			return m, o
		}
		if err := pause(ctx, pollEvery); err != nil {
			return m, outcome{why: "waiting for it was cut short: " + err.Error()}
		}
	}
}

const pollEvery = 500 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// judge says how far a created machine came.
func judge(m *flyapi.Machine, open openStep) outcome {
	want := flyapi.DigestOf(open.Image)
	switch {
	case m.Gone():
		return outcome{why: "it is gone: its state is " + m.State}
	case !m.Settled():
		return outcome{why: "it is still " + m.State}
	case m.State == flyapi.StateFailed:
		return outcome{why: "it failed to start: the image could not be pulled, or its program not be run"}
	case want != "" && m.ImageRef.Digest != "" && m.ImageRef.Digest != want:
		return outcome{why: fmt.Sprintf("it runs %s instead of %s", m.ImageRef, open.Image)}
	case m.State != flyapi.StateStarted:
		return outcome{why: fmt.Sprintf("it is %s, not started%s", m.State, exit(m))}
	}
	for _, c := range m.Checks {
		if c.Status != "passing" {
			return outcome{note: fmt.Sprintf("check %s is %s", c.Name, c.Status)}
		}
	}
	return outcome{}
}

func exit(m *flyapi.Machine) string {
	for _, e := range m.Events {
		if e.Type == "exit" {
			if e.OOMKilled {
				return " (its program ran out of memory)"
			}
			return fmt.Sprintf(" (its program ended with code %d)", e.ExitCode)
		}
	}
	return ""
}

// startAgain waits for a machine whose create was left open, and starts it where it came to rest without running.
func (r *machineResource) startAgain(ctx context.Context, app, id string, until time.Time) error {
	if err := r.account.Fly.WaitMachine(ctx, app, id, flyapi.WaitRequest{Budget: time.Until(until)}); err != nil {
		return err
	}
	return r.account.Fly.WithLease(ctx, app, id, func(ctx context.Context, lease flyapi.Lease) error {
		m, err := r.account.Fly.GetMachine(ctx, app, id)
		if err != nil || m.State == flyapi.StateStarted {
			return err
		}
		if err := r.account.Fly.StartMachine(ctx, app, id, lease); err != nil {
			var e *flyapi.Error
			if errors.As(err, &e) && e.Status == http.StatusPreconditionFailed {
				return fmt.Errorf("it does not start from the state %s: %w", m.State, err)
			}
			return err
		}
		return r.account.Fly.WaitMachine(ctx, app, id, flyapi.WaitRequest{States: []string{flyapi.StateStarted}, InstanceID: m.InstanceID, Budget: time.Until(until)})
	})
}
