// Package redeploy is the verb that swaps the image of a fleet, or of one machine of it.
package redeploy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/rollout"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// The exit codes beside 0 and 2 (usage).
const (
	exitFailed  = 1
	exitSkipped = 3
)

// Command is `flyfleet redeploy-fleet`.
type Command struct {
	Image       string        `required:"" help:"Image to run, by digest, such as setup-fly-app prints."`
	Fleet       string        `help:"Fleet to swap (metadata flyfleet_fleet). Default: the only one of the organization, or the machine's."`
	Machine     string        `help:"Swap this machine alone."`
	Force       bool          `help:"Also swap machines whose image Terraform owns."`
	Concurrency int           `default:"8" help:"How many machines are swapped at a time."`
	Busy        string        `default:"wait" enum:"wait,interrupt" help:"What to do while commands run on a machine: wait for them, or interrupt them."`
	Drain       time.Duration `name:"drain-timeout" default:"10m" help:"How long to wait for commands before the machine is skipped."`
	OnCold      string        `default:"keep" enum:"keep,verify" help:"keep leaves machines that are not started as they are; verify starts each, judges it and stops it again."`
}

// Help is the long help.
func (*Command) Help() string {
	return `Every machine of the fleet is listed with what became of it and why. Only the image changes: environment, secrets, mounts and all else stay
as they are on the machine.

Exit code: 0 all run the image; 1 at least one swap failed, or the run could not begin; 3 none failed, but machines were skipped or could not be listed.`
}

// Run swaps the fleet.
func (r *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	if flyapi.DigestOf(r.Image) == "" {
		return fmt.Errorf("image %s has no digest: what a tag means can change between two machines; use repository@sha256:…, as flyfleet setup-fly-app prints it", r.Image)
	}
	api, err := s.Platform()
	if err != nil {
		return err
	}
	defer api.Close()
	selection := rollout.Selection{Fleet: r.Fleet, MachineID: r.Machine}
	if selection.Fleet == "" {
		if selection.Fleet, err = findFleet(ctx, api, r.Machine); err != nil {
			return err
		}
	}
	options := swap.Options{}
	if s.Wired() {
		if options.Hello, err = hello(s); err != nil {
			return err
		}
	}
	runner := rollout.New(api, swap.New(api, options), rollout.Options{
		Concurrency: r.Concurrency,
		Target: swap.Target{
			Force: r.Force, Busy: swap.Busy(r.Busy), OnCold: swap.Cold(r.OnCold), DrainTimeout: r.Drain,
		},
		Progress: func(o swap.Outcome) { c.Note("%s", line(o)) },
	})
	report, err := runner.Run(ctx, selection, r.Image)
	if err != nil {
		return err
	}
	if err := c.Result(report, func(w io.Writer) { table(w, report) }); err != nil {
		return err
	}
	switch report.ExitCode() {
	case rollout.ExitDone:
		return nil
	case rollout.ExitPartial:
		return &console.Exit{Code: exitSkipped}
	}
	return &console.Exit{Code: exitFailed}
}

// findFleet names the fleet of the machine, or the only one that there is.
func findFleet(ctx context.Context, api *flyapi.Client, machine string) (string, error) {
	list, err := api.OrgMachines(ctx)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for _, row := range list.Rows {
		fleet := row.Metadata[swap.MetadataFleet]
		if row.Gone() || (machine != "" && row.ID != machine) {
			continue
		}
		if fleet != "" {
			names[fleet] = true
		}
	}
	found := slices.Sorted(maps.Keys(names))
	switch {
	case len(found) == 1:
		return found[0], nil
	case machine != "":
		return "", fmt.Errorf("organization %s has no machine %s that belongs to a fleet; flyfleet machines --all lists the machines", api.Org(), machine)
	case len(found) == 0:
		return "", fmt.Errorf("organization %s has no machine of any fleet (metadata %s)", api.Org(), swap.MetadataFleet)
	}
	return "", fmt.Errorf("organization %s has several fleets; choose one with --fleet: %s", api.Org(), strings.Join(found, ", "))
}

// hello asks a machine over the wire who it is, as the last gate.
func hello(s *settings.Settings) (func(ctx context.Context, app, machine string) error, error) {
	key, err := s.Key()
	if err != nil {
		return nil, err
	}
	dial, err := s.Dial()
	if err != nil {
		return nil, err
	}
	return swap.HelloOver(dial, key, settings.Scope(key)), nil
}

// line is one outcome as it comes.
func line(o swap.Outcome) string {
	text := fmt.Sprintf("%s %s: %s", o.App, o.Machine, o.Status)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	for _, w := range o.Warnings {
		text += "; " + w
	}
	return text
}

func table(w io.Writer, report rollout.Report) {
	rows := make([][]string, 0, len(report.Machines))
	for _, o := range report.Machines {
		judged := string(o.Gate)
		if o.Interrupted > 0 {
			judged += fmt.Sprintf(", %d interrupted", o.Interrupted)
		}
		rows = append(rows, []string{o.App, o.Machine, string(o.Status), cmp.Or(o.StateAfter, o.StateBefore), judged, o.Reason})
	}
	console.Table(w, []string{"app", "machine", "outcome", "state", "judged by", "reason"}, rows)
	for _, region := range report.ErrorRegions {
		fmt.Fprintf(w, "region %s could not be asked: its machines are not in this list\n", region)
	}
	if report.Counts().Swapped > 0 {
		for _, note := range report.Notes {
			fmt.Fprintln(w, "note:", note)
		}
	}
	fmt.Fprintln(w, report.Summary())
}
