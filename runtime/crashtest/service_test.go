//go:build linux

package crashtest

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
)

const (
	// frontAddress is where commands find the runtime from within their machine's network.
	frontAddress = "[fdaa:0:9::8]:8090"
	callerPath   = "opt/crash/caller"
	callerArg    = "call-back"
	// credential is the tenant's, for the service; credentialPattern finds it, and not itself.
	credential        = "tenant-credential-86420"
	credentialPattern = "tenant[-]credential"
)

// wayBack is all that lies around the way back: machines that reach a front before each trial's replicas, as a load balancer
// is, and the service behind them.
type wayBack struct {
	fleet          *fleet
	machine        *computer
	front, service *httptest.Server
	mu             sync.Mutex
	trials         map[string]*asking
}

// startWayBack gives it, with one machine.
func startWayBack(t *testing.T) *wayBack {
	t.Helper()
	w := &wayBack{trials: map[string]*asking{}}
	w.front = httptest.NewServer(http.HandlerFunc(w.forward))
	t.Cleanup(w.front.Close)
	w.service = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.service.Close)
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = startFleetWith(
		t, []runner.Egress{{Inside: frontAddress, Outside: w.front.Listener.Addr().String()}},
		runnertest.Dir("opt", 0o755), runnertest.Dir(path.Dir(callerPath), 0o755), runnertest.File(callerPath, 0o755, string(own)),
	)
	w.machine = w.fleet.machine("tenant")
	return w
}

// of finds the trial that a path begins with.
func (w *wayBack) of(r *http.Request) *asking {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trials[name]
}

// unused connections are not kept: what is asked of a replica that dies is not asked again by the front's own library.
var unused = &http.Transport{DisableKeepAlives: true}

// forward passes a request on to the newest replica of its trial.
func (w *wayBack) forward(rw http.ResponseWriter, r *http.Request) {
	a := w.of(r)
	address := ""
	if a != nil {
		address = a.newest.Load().address()
	}
	if address == "" {
		http.Error(rw, "nobody is there", http.StatusServiceUnavailable)
		return
	}
	http.StripPrefix("/"+a.dir, &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: address}) },
		Transport: unused, ErrorLog: log.New(io.Discard, "", 0),
	}).ServeHTTP(rw, r)
}

// got is what the service had from a trial.
type got struct {
	mu sync.Mutex
	// hold is how many requests have their effect and no answer.
	hold     int
	requests int
	effects  int
	keys     map[string]int
	wrong    []string
}

// serve has an effect for each request; under a key, for each key. It shows whom it took the caller for, as some services do.
func (w *wayBack) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	a := w.of(r)
	if a == nil {
		http.NotFound(rw, r)
		return
	}
	as, key := r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key")
	a.got.mu.Lock()
	if err != nil || string(body) != "hello" || as != "Bearer "+credential || key == "" == a.call.keyed {
		a.got.wrong = append(a.got.wrong, fmt.Sprintf("%s %s as %q under %q: %q, %v", r.Method, r.URL, as, key, body, err))
	}
	a.got.requests++
	if a.got.keys[key]++; key == "" || a.got.keys[key] == 1 {
		a.got.effects++
	}
	held := a.got.hold > 0
	if held {
		a.got.hold--
	}
	a.got.mu.Unlock()
	if held {
		<-r.Context().Done()
		return
	}
	rw.Header().Set("ETag", `"`+as+`"`)
	fmt.Fprintf(rw, "done for %s", as)
}

// callBack is a program on a machine. what is its directory and the upstream. It says that it is there, waits to be let go, and
// asks until it has an answer; all that it sees on the way it keeps in a file.
func callBack(what string) {
	dir, upstream := path.Split(what)
	saw, err := os.Create(dir + "saw")
	if err == nil {
		_, err = fmt.Fprintln(saw, strings.Join(os.Environ(), "\n"))
	}
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, "ready")
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	for _, err := os.Stat(dir + "go"); err != nil; _, err = os.Stat(dir + "go") {
		<-tick.C
	}
	for range 1000 {
		if answer := askOnce(upstream, saw); answer != "" {
			fmt.Fprintln(os.Stdout, answer)
			os.Exit(0)
		}
		<-tick.C
	}
	fmt.Fprintln(os.Stdout, "no answer")
	os.Exit(1)
}

// askOnce gives the answer, or "" where the request is to be sent again.
func askOnce(upstream string, saw io.Writer) string {
	req, err := http.NewRequest(http.MethodPost, os.Getenv(driver.URLVariable)+"/"+upstream+"/thing", strings.NewReader("hello")) //nolint:noctx // as long as its command
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv(machinetoken.Variable))
	if upstream == "keyed" {
		req.Header.Set("Idempotency-Key", "the one")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintln(saw, err)
		return ""
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	fmt.Fprintln(saw, resp.Status, resp.Header, string(said), err)
	outcome := resp.Header.Get("Flyfleet-Outcome")
	if err != nil || outcome == "" && resp.StatusCode >= 500 {
		return ""
	}
	return fmt.Sprintf("answer: %d %s %s", resp.StatusCode, outcome, said)
}
