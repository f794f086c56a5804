// Package machineconf reads the part of a machine's config that the platform acts on, and checks the limits that Fly
// checks. What it does not know it leaves alone: the config itself is kept as text (package rawjson).
package machineconf

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Config is the known part of a machine's config; field names are Fly's.
type Config struct {
	Image       string            `json:"image"`
	Env         map[string]string `json:"env"`
	Init        Init              `json:"init"`
	Guest       *Guest            `json:"guest"`
	Size        string            `json:"size"`
	Mounts      []Mount           `json:"mounts"`
	Services    []Service         `json:"services"`
	Checks      map[string]Check  `json:"checks"`
	Restart     *Restart          `json:"restart"`
	AutoDestroy bool              `json:"auto_destroy"`
	StopConfig  StopConfig        `json:"stop_config"`
	Files       []File            `json:"files"`
	Metadata    map[string]string `json:"metadata"`
	Schedule    string            `json:"schedule"`
}

// Init overrides what the image starts.
type Init struct {
	Exec       []string `json:"exec"`
	Entrypoint []string `json:"entrypoint"`
	Cmd        []string `json:"cmd"`
	SwapSizeMB *int     `json:"swap_size_mb"`
}

// Mount asks for a volume, by id or by name.
type Mount struct {
	Volume                 string `json:"volume"`
	Name                   string `json:"name"`
	Path                   string `json:"path"`
	ExtendThresholdPercent int    `json:"extend_threshold_percent"`
	AddSizeGB              int    `json:"add_size_gb"`
	SizeGBLimit            int    `json:"size_gb_limit"`
}

// Service is one routed port.
type Service struct {
	Protocol     string  `json:"protocol"`
	InternalPort int     `json:"internal_port"`
	Autostart    *bool   `json:"autostart"`
	Ports        []Port  `json:"ports"`
	Checks       []Check `json:"checks"`
}

// Port is an outside port, or a range of them.
type Port struct {
	Port      *int     `json:"port"`
	StartPort *int     `json:"start_port"`
	EndPort   *int     `json:"end_port"`
	Handlers  []string `json:"handlers"`
}

// Check is a health check.
type Check struct {
	Type        string        `json:"type"`
	Port        int           `json:"port"`
	Interval    Duration      `json:"interval"`
	Timeout     Duration      `json:"timeout"`
	GracePeriod Duration      `json:"grace_period"`
	Method      string        `json:"method"`
	Path        string        `json:"path"`
	Protocol    string        `json:"protocol"`
	SkipVerify  bool          `json:"tls_skip_verify"`
	ServerName  string        `json:"tls_server_name"`
	Headers     []CheckHeader `json:"headers"`
}

// CheckHeader is a header of an HTTP check.
type CheckHeader struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Restart says what happens when the process exits.
type Restart struct {
	Policy     string `json:"policy"`
	MaxRetries int    `json:"max_retries"`
}

// StopConfig says how a machine is stopped.
type StopConfig struct {
	Signal  string    `json:"signal"`
	Timeout *Duration `json:"timeout"`
}

// File is written into the machine before it boots.
type File struct {
	GuestPath  string  `json:"guest_path"`
	RawValue   *string `json:"raw_value"`
	SecretName *string `json:"secret_name"`
	Mode       uint32  `json:"mode"`
}

// Duration reads Go's text ("1m30s"), a text of digits (seconds, as the documents have it) and a number (nanoseconds, as
// fly-go's Duration has it).
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		var ns int64
		if err := json.Unmarshal(raw, &ns); err != nil {
			return fmt.Errorf("duration %s: want a text such as \"10s\"", raw)
		}
		*d = Duration(ns)
		return nil
	}
	parsed, err := ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// ParseDuration reads Go's text or whole seconds; an empty text is zero.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("duration %q: want a text such as \"10s\"", text)
	}
	return d, nil
}

// Parse reads a config. Its errors are for the client: they name the field.
func Parse(raw []byte) (*Config, error) {
	c := new(Config)
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

// Validate checks what Fly checks at create and update.
func (c *Config) Validate() error {
	if strings.TrimSpace(c.Image) == "" {
		return fmt.Errorf("config.image is required")
	}
	guest, err := c.ResolvedGuest()
	if err != nil {
		return err
	}
	if err := guest.Validate(); err != nil {
		return err
	}
	if len(c.Mounts) > 1 {
		return fmt.Errorf("config.mounts: a machine mounts at most one volume")
	}
	for _, m := range c.Mounts {
		if err := m.validate(); err != nil {
			return err
		}
	}
	for i, s := range c.Services {
		if s.InternalPort < 1 || s.InternalPort > 65535 {
			return fmt.Errorf("config.services[%d].internal_port must be between 1 and 65535", i)
		}
	}
	return c.validateRest()
}

func (c *Config) validateRest() error {
	if r := c.Restart; r != nil {
		switch r.Policy {
		case "", "no", "on-failure", "always", "spot-price":
		default:
			return fmt.Errorf("config.restart.policy %q is unknown", r.Policy)
		}
	}
	switch c.Schedule {
	case "", "hourly", "daily", "weekly", "monthly":
	default:
		return fmt.Errorf("config.schedule %q is unknown", c.Schedule)
	}
	for _, f := range c.Files {
		if !strings.HasPrefix(f.GuestPath, "/") {
			return fmt.Errorf("config.files: guest_path %q is not absolute", f.GuestPath)
		}
	}
	for _, check := range c.AllChecks() {
		if check.Type != "tcp" && check.Type != "http" {
			return fmt.Errorf("check %s: type must be tcp or http", check.Name)
		}
		if check.Port < 1 || check.Port > 65535 {
			return fmt.Errorf("check %s: port must be between 1 and 65535", check.Name)
		}
	}
	return nil
}

func (m Mount) validate() error {
	if m.Volume == "" && m.Name == "" {
		return fmt.Errorf("config.mounts: a mount needs a volume or a name")
	}
	if !strings.HasPrefix(m.Path, "/") || m.Path == "/" {
		return fmt.Errorf("config.mounts: path %q must be absolute and below /", m.Path)
	}
	if p := m.ExtendThresholdPercent; p != 0 && (p < 50 || p > 99) {
		return fmt.Errorf("config.mounts: extend_threshold_percent must be between 50 and 99")
	}
	if m.AddSizeGB < 0 || m.AddSizeGB > 100 {
		return fmt.Errorf("config.mounts: add_size_gb must be between 1 and 100")
	}
	if m.SizeGBLimit < 0 || m.SizeGBLimit > 500 {
		return fmt.Errorf("config.mounts: size_gb_limit must be at most 500")
	}
	return nil
}

// Stop answers the signal and the time after which a stopping machine is killed. Fly's defaults are SIGINT and 5
// seconds; at most 5 minutes are given.
func (c *Config) Stop() (signal string, timeout time.Duration) {
	signal, timeout = c.StopConfig.Signal, 5*time.Second
	if signal == "" {
		signal = "SIGINT"
	}
	if c.StopConfig.Timeout != nil {
		timeout = min(max(time.Duration(*c.StopConfig.Timeout), 0), 5*time.Minute)
	}
	return signal, timeout
}

// RestartPolicy answers the policy and its tries: without one it is on-failure with ten.
func (c *Config) RestartPolicy() (policy string, tries int) {
	policy, tries = "on-failure", 10
	if c.Restart != nil {
		if c.Restart.Policy != "" {
			policy = c.Restart.Policy
		}
		if c.Restart.MaxRetries > 0 {
			tries = c.Restart.MaxRetries
		}
	}
	return policy, tries
}
