//go:build linux

package replicatest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// settingsEnv makes a process of the test binary a replica.
const settingsEnv = "FLYFLEET_TEST_REPLICA"

// settings are what a replica is told.
type settings struct {
	Name string
	URL  string
	TTL  time.Duration
	// Effects is the directory in which tools leave what they did.
	Effects string
	// Machine is where commands run; nil is nowhere.
	Machine *machineSettings
	// Ahead is how far the process's clock is, and SetBy how far it is set after SetAfter.
	Ahead, SetAfter, SetBy time.Duration
}

// clock is the process's.
func (s settings) clock() func() time.Time {
	begin := time.Now()
	return func() time.Time {
		now := time.Now()
		ahead := s.Ahead
		if now.Sub(begin) >= s.SetAfter {
			ahead += s.SetBy
		}
		return now.Add(ahead)
	}
}

// request is a line of a replica's standard input.
type request struct {
	// Decide is a card to allow; uuid.Nil asks for the status.
	Decide uuid.UUID
}

// status is the answer.
type status struct {
	executor.Status
	Goroutines int
	// Heap is what is in use after a collection, in bytes.
	Heap uint64
	// Opened and Closed places.
	Opened, Closed int64
	// Fenced runs ended because the session had another owner. Faults are how others failed.
	Fenced int64
	Faults []string
	// Error of what was asked.
	Error string
}

// child is a replica: the parts of the real one, with tools that leave traces and can stop or kill their process.
type child struct {
	settings settings
	store    *store.Store
	executor *executor.Executor
	driver   *driver.Driver
	agent    driver.Agent
	machines *machines

	mu     sync.Mutex
	fenced int64
	faults []string
}

// childMain is the life of a replica. It ends when its standard input does, so that none outlives the test.
func childMain(text string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c := new(child)
	if err := json.Unmarshal([]byte(text), &c.settings); err != nil {
		log.Error("settings", "error", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := c.open(ctx, log.With("replica", c.settings.Name)); err != nil {
		log.Error("open", "error", err)
		return 1
	}
	go c.answer()
	err := c.executor.Run(ctx)
	c.store.Close()
	if err != nil {
		log.Error("run", "error", err)
		return 1
	}
	return 0
}

func (c *child) open(ctx context.Context, log *slog.Logger) error {
	var err error
	if c.store, err = store.Open(ctx, store.Options{URL: c.settings.URL, TTL: c.settings.TTL, Now: c.settings.clock(), Log: log}); err != nil {
		return err
	}
	script, err := scripted.New(scripted.Config{})
	if err != nil {
		return err
	}
	registry, err := tools.New(nil, append(tools.Builtin(), traces(c.settings.Effects)...)...)
	if err != nil {
		return err
	}
	c.agent = driver.Agent{Agent: turn.Agent{Provider: script.Provider(), Model: "script"}, Model: script, Tools: registry}
	for _, tool := range registry.Tools() {
		c.agent.Agent.Tools = append(c.agent.Agent.Tools, model.ToolDef{Name: tool.Name, Description: tool.Description, Schema: tool.Schema})
	}
	if c.machines, err = newMachines(c.settings, log); err != nil {
		return err
	}
	if c.driver, err = driver.New(driver.Options{
		Store: c.store, Agents: c, Machines: c.machines, FailedWait: time.Second, Log: log,
	}); err != nil {
		return err
	}
	c.executor, err = executor.New(ctx, executor.Options{
		Store: c.store, Runner: c, Address: c.settings.Name, BeatEvery: c.settings.TTL / 5, Log: log,
	})
	return err
}

// Agent is the same, whatever its name.
func (c *child) Agent(string) (driver.Agent, error) { return c.agent, nil }

// Run is the driver's, with a look at how it ends.
func (c *child) Run(ctx context.Context, claim store.Claim, drain <-chan struct{}) error {
	err := c.driver.Run(ctx, claim, drain)
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, store.ErrFenced) {
		c.fenced++
	} else if err != nil {
		c.faults = append(c.faults, err.Error())
	}
	return err
}

// answer serves the test that started this process, and ends the process with it.
func (c *child) answer() {
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(c.status(nil))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked request
		err := json.Unmarshal(lines.Bytes(), &asked)
		if err == nil && asked.Decide != uuid.Nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err = c.store.Decide(ctx, store.Decision{
				Tenant: tenant, Approval: asked.Decide, Key: asked.Decide.String(), Approve: true, By: "a person",
			})
			cancel()
		}
		_ = out.Encode(c.status(err))
	}
	os.Exit(3)
}

func (c *child) status(err error) status {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := status{
		Status: c.executor.Status(), Goroutines: runtime.NumGoroutine(), Heap: memory.HeapAlloc,
		Opened: c.machines.opened.Load(), Closed: c.machines.closed.Load(), Fenced: c.fenced, Faults: c.faults,
	}
	if err != nil {
		now.Error = fmt.Sprint(err)
	}
	return now
}
