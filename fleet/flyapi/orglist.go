package flyapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// MachineRow is a machine in an organization-wide list: enough to know whether anything changed, not its config.
type MachineRow struct {
	App, ID, Name, State, Region string
	InstanceID                   string
	HostStatus                   string // "" when the list does not say
	// Image is config.image as it was asked for.
	Image string
	// Digest is what runs: image_ref.digest, or the digest in Image where the row carries no image_ref.
	Digest   string
	Guest    json.RawMessage
	Metadata map[string]string
	// UpdatedAt is zero when the row does not say.
	UpdatedAt time.Time
}

// Gone reports that the machine exists no more.
func (r MachineRow) Gone() bool { return r.State == StateDestroyed || r.State == "destroying" }

// MachineList is a whole organization's machines.
type MachineList struct {
	Rows []MachineRow
	// ErrorRegions are regions Fly could not ask: their machines are missing from Rows or old.
	ErrorRegions []string
}

const (
	orgPage  = 1000 // the most Fly takes
	maxPages = 500  // a cursor that never ends must not fill the memory
)

// ListOrgMachines reads all machines of the organization, page by page.
func (c *Client) ListOrgMachines(ctx context.Context) ([]MachineRow, error) {
	list, err := c.OrgMachines(ctx)
	return list.Rows, err
}

// OrgMachines is ListOrgMachines with the regions that could not be asked.
//
// The list is sorted by last change and read in pages, so a machine that changes in between may come twice; the later
// row wins.
func (c *Client) OrgMachines(ctx context.Context) (MachineList, error) {
	var out MachineList
	at := map[string]int{}
	err := c.orgPages(ctx, "machines", func(body json.RawMessage) error {
		var page struct {
			Machines     []machineRow `json:"machines"`
			ErrorRegions []string     `json:"error_regions"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		for _, row := range page.Machines {
			r := row.row()
			if i, seen := at[r.ID]; seen {
				out.Rows[i] = r
				continue
			}
			at[r.ID] = len(out.Rows)
			out.Rows = append(out.Rows, r)
		}
		for _, region := range page.ErrorRegions {
			if !slices.Contains(out.ErrorRegions, region) {
				out.ErrorRegions = append(out.ErrorRegions, region)
			}
		}
		return nil
	})
	if err != nil {
		return MachineList{}, err
	}
	return out, nil
}

type machineRow struct {
	App        string    `json:"app_name"`
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	State      string    `json:"state"`
	Region     string    `json:"region"`
	InstanceID string    `json:"instance_id"`
	HostStatus string    `json:"host_status"`
	ImageRef   ImageRef  `json:"image_ref"`
	UpdatedAt  string    `json:"updated_at"`
	Config     rowConfig `json:"config"`
	// IncompleteConfig comes in place of Config while the machine's host is away. A fleet is chosen by metadata, so
	// without it such a machine would be missing from a report instead of being named in it.
	IncompleteConfig *rowConfig `json:"incomplete_config"`
}

type rowConfig struct {
	Image    string                     `json:"image"`
	Guest    json.RawMessage            `json:"guest"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

func (m machineRow) row() MachineRow {
	config := m.Config
	if m.IncompleteConfig != nil && config.Image == "" {
		config = *m.IncompleteConfig
	}
	return MachineRow{
		App: m.App, ID: m.ID, Name: m.Name, State: m.State, Region: m.Region, InstanceID: m.InstanceID, HostStatus: m.HostStatus,
		Image: config.Image, Digest: orElse(m.ImageRef.Digest, DigestOf(config.Image)), Guest: config.Guest,
		Metadata: textsOf(config.Metadata), UpdatedAt: parseTime(m.UpdatedAt),
	}
}

// VolumeRow is a volume in an organization-wide list.
type VolumeRow struct {
	App string
	Volume
}

// ListOrgVolumes reads all volumes of the organization, page by page.
func (c *Client) ListOrgVolumes(ctx context.Context) ([]VolumeRow, error) {
	var out []VolumeRow
	err := c.orgPages(ctx, "volumes", func(body json.RawMessage) error {
		var page struct {
			Volumes []volumeRow `json:"volumes"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		for _, v := range page.Volumes {
			out = append(out, v.row())
		}
		return nil
	})
	return out, err
}

type volumeRow struct {
	App               string `json:"app_name"`
	ID                string `json:"id"`
	Name              string `json:"name"`
	State             string `json:"state"`
	Region            string `json:"region"`
	Zone              string `json:"zone"`
	SizeGB            int    `json:"size_gb"`
	Encrypted         bool   `json:"encrypted"`
	AttachedMachine   string `json:"attached_machine_id"`
	CreatedAt         string `json:"created_at"`
	SnapshotRetention int    `json:"snapshot_retention"`
	AutoBackup        bool   `json:"auto_backup_enabled"`
	HostStatus        string `json:"host_status"`
}

func (v volumeRow) row() VolumeRow {
	return VolumeRow{App: v.App, Volume: Volume{
		ID: v.ID, Name: v.Name, State: v.State, Region: v.Region, Zone: v.Zone, SizeGB: v.SizeGB, Encrypted: v.Encrypted,
		AttachedMachine: v.AttachedMachine, CreatedAt: parseTime(v.CreatedAt), SnapshotRetention: v.SnapshotRetention,
		AutoBackup: v.AutoBackup, HostStatus: v.HostStatus,
	}}
}

// orgPages reads /v1/orgs/{org}/{what} and hands each page to fn.
func (c *Client) orgPages(ctx context.Context, what string, fn func(json.RawMessage) error) error {
	op := "list the " + what + " of organization " + c.org
	if c.org == "" {
		return fmt.Errorf("list the %s of the organization: none is configured; set FLY_ORG or `org`", what)
	}
	cursor := ""
	for page := 1; page <= maxPages; page++ {
		r := request{
			op: op, method: http.MethodGet, path: join("/v1/orgs", c.org, what), idempotent: true, waitsFor: callTimeout,
			query: url.Values{"limit": {strconv.Itoa(orgPage)}},
		}
		if cursor != "" {
			r.query.Set("cursor", cursor)
		}
		resp, err := c.call(ctx, r)
		if err != nil {
			return err
		}
		var next struct {
			Cursor string `json:"next_cursor"`
		}
		if err := decode(r, resp, &next); err != nil {
			return err
		}
		if err := fn(resp.body); err != nil {
			return &Error{Op: op, Text: "read the answer", Err: err, RequestID: resp.header.Get(headerRequestID)}
		}
		if next.Cursor == "" || next.Cursor == cursor {
			return nil
		}
		cursor = next.Cursor
	}
	return &Error{Op: op, Text: fmt.Sprintf("more than %d pages; the list does not end", maxPages)}
}
