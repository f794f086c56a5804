//go:build linux

package controlserver_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// stranger calls Hello with a token of its own, over h2c.
func stranger(t *testing.T, m *machinetest.Machine, text string) error {
	t.Helper()
	service := wirev1connect.NewControlServiceClient(h2c(t), "http://"+m.Address, connect.WithGRPC())
	request := connect.NewRequest(&wirev1.HelloRequest{WireMin: 1, WireMax: 1})
	if text != "" {
		request.Header().Set("Authorization", "Bearer "+text)
	}
	_, err := service.Hello(limited(t), request)
	return err
}

func h2c(t *testing.T) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{}} //nolint:gosec // never used: cleartext
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// badTokens are tokens that no machine may take, with the words by which each is told apart.
func badTokens(t *testing.T, m *machinetest.Machine) map[string]struct{ text, says string } {
	t.Helper()
	sign := func(k token.SigningKey, app, machine string, now time.Time) string {
		text, err := k.Sign(app, machine, "test", machinetest.Scope, time.Minute, now)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	now := time.Now()
	otherRoot, err := token.NewRoot(machinetest.Fleet)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := otherRoot.Delegate("rt-evil", []string{"*"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(m.Key, machinetest.App, machinetest.ID, now)
	parts := strings.Split(good, ".")
	forged := forgeDelegation(t, stranger, m.Key)
	return map[string]struct{ text, says string }{
		"none":              {"", "no token"},
		"garbage":           {"garbage", "malformed"},
		"wrong signature":   {parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)), "wrong signature"},
		"changed claims":    {parts[0] + "." + strings.Split(sign(m.Key, machinetest.App, "other", now), ".")[1] + "." + parts[2], "wrong signature"},
		"expired":           {sign(m.Key, machinetest.App, machinetest.ID, now.Add(-time.Hour)), "expired"},
		"other machine":     {sign(m.Key, machinetest.App, "1234", now), "another machine"},
		"other app":         {sign(m.Key, "tenant-b", machinetest.ID, now), "another machine"},
		"unknown key":       {sign(stranger, machinetest.App, machinetest.ID, now), "unknown"},
		"forged delegation": {forged, "delegation is not signed"},
	}
}

// forgeDelegation signs a token with a stranger's key under a delegation that names our root and that
// the stranger signed.
func forgeDelegation(t *testing.T, stranger, ours token.SigningKey) string {
	t.Helper()
	genuine := strings.SplitN(ours.String(), ".", 3)[2]
	alien := strings.SplitN(stranger.String(), ".", 3)
	decode := func(s string) map[string]any {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	claims := decode(strings.Split(alien[2], ".")[1])
	claims["iss"] = decode(strings.Split(genuine, ".")[1])["iss"]
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	alienParts := strings.Split(alien[2], ".")
	delegation := alienParts[0] + "." + base64.RawURLEncoding.EncodeToString(b) + "." + alienParts[2]
	key, err := token.ParseSigningKey(alien[0] + "." + alien[1] + "." + delegation)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Sign(machinetest.App, machinetest.ID, "test", machinetest.Scope, time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestEveryBadTokenIsRefusedWithItsOwnWords(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	if err := stranger(t, m, m.Token(machinetest.Scope)); err != nil {
		t.Fatalf("a good token: %v", err)
	}
	for name, bad := range badTokens(t, m) {
		err := stranger(t, m, bad.text)
		if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_TOKEN || connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Fatalf("%s: got %v", name, err)
		}
		if !strings.Contains(err.Error(), bad.says) {
			t.Fatalf("%s: %q does not say %q", name, err, bad.says)
		}
		if bad.text != "" && strings.Contains(m.Log(), bad.text) {
			t.Fatalf("%s: the token is in the log", name)
		}
	}
}

// endless is a body of zeros that counts what was taken of it.
type endless struct {
	mu    sync.Mutex
	left  int64
	taken int64
}

func (e *endless) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	clear(p[:n])
	e.left -= n
	e.taken += n
	return int(n), nil
}

// post sends a body to Exec by Connect's unary-free form: an enveloped stream request.
func post(t *testing.T, c *http.Client, m *machinetest.Machine, text, contentType string, body io.Reader, length int64) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(limited(t), http.MethodPost, "http://"+m.Address+"/flyfleet.wire.v1.ControlService/Hello", body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = length
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer "+text)
	answer, err := c.Do(request)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	return answer.StatusCode, string(b)
}

func TestAbuseIsRefusedAndCostsNoMemory(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	const gib = 1 << 30
	good, bad := m.Token(machinetest.Scope), badTokens(t, m)
	fat := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	kinds := []func(i int){
		func(int) { _ = stranger(t, m, bad["wrong signature"].text) },
		func(int) { _ = stranger(t, m, bad["forged delegation"].text) },
		func(int) { _ = stranger(t, m, bad["expired"].text) },
		func(int) { _ = stranger(t, m, strings.Repeat("x", 7<<10)) },
		func(int) {
			// A stranger's body is not read at all.
			body := &endless{left: gib}
			status, text := post(t, h2c(t), m, bad["other machine"].text, "application/proto", body, gib)
			if status != http.StatusUnauthorized || !strings.Contains(text, "another machine") || body.taken > 1<<20 {
				t.Fatalf("got %d %s, %d bytes taken", status, text, body.taken)
			}
		},
		func(int) {
			body := &endless{left: gib}
			status, text := post(t, h2c(t), m, good, "application/proto", body, gib)
			if status != http.StatusTooManyRequests || !strings.Contains(text, "larger than") || body.taken > 1<<20 {
				t.Fatalf("got %d %s, %d bytes taken", status, text, body.taken)
			}
		},
		func(int) {
			// The same without its length told before.
			body := &endless{left: gib}
			status, text := post(t, h2c(t), m, good, "application/proto", body, -1)
			if status != http.StatusTooManyRequests || !strings.Contains(text, "larger than") || body.taken > 16<<20 {
				t.Fatalf("got %d %s, %d bytes taken", status, text, body.taken)
			}
		},
		func(int) {
			// HTTP/1.1: the connection may break under the sender, the refusal may still be read.
			request, _ := http.NewRequestWithContext(limited(t), http.MethodPost, "http://"+m.Address+"/flyfleet.wire.v1.ControlService/Hello", &endless{left: gib})
			request.ContentLength = gib
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+good)
			if answer, err := fat.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusTooManyRequests {
					t.Fatalf("got %d", answer.StatusCode)
				}
			}
		},
	}
	for _, kind := range kinds {
		kind(-1)
	}
	before := m.PeakMemory()
	for i := range 100 {
		kinds[i%len(kinds)](i)
	}
	if grown := m.PeakMemory() - before; grown >= 8<<20 {
		t.Fatalf("the server's peak memory grew by %d KiB", grown>>10)
	}
	if err := stranger(t, m, good); err != nil {
		t.Fatalf("afterwards a good token: %v", err)
	}
}

func TestHundredSlowBodiesAreRefusedAndCostNoMemory(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{Env: []string{machinetest.BodyTimeEnv + "=2s"}})
	if err := stranger(t, m, m.Token(machinetest.Scope)); err != nil {
		t.Fatal(err)
	}
	before := m.PeakMemory()
	c := h2c(t)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			r, w := io.Pipe()
			defer func() { _ = w.Close() }()
			go func() { _, _ = w.Write([]byte("{")) }()
			status, text := post(t, c, m, m.Token(machinetest.Scope), "application/json", r, -1)
			if status != http.StatusGatewayTimeout || !strings.Contains(text, "took longer") {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	wg.Wait()
	if grown := m.PeakMemory() - before; grown >= 8<<20 {
		t.Fatalf("the server's peak memory grew by %d KiB", grown>>10)
	}
}

func TestUnaryCallsWorkByPlainJSONOverHTTP11(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := &http.Client{Transport: &http.Transport{}}
	status, text := post(t, c, m, m.Token(machinetest.Scope), "application/json", strings.NewReader(`{"wireMin":1,"wireMax":1}`), -1)
	if status != http.StatusOK || !strings.Contains(text, `"machine":"`+machinetest.ID+`"`) {
		t.Fatalf("got %d %s", status, text)
	}
	c.CloseIdleConnections()
}

func TestHealthIsOpenAndTellsVersionsOnly(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	answer, err := http.Get("http://" + m.Address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var got map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(got)
	if want := `{"build":"dev","state":"serving","status":"ok","wire":{"max":1,"min":1}}`; string(b) != want {
		t.Fatalf("got %s", b)
	}
}

func TestScopesDoNotSeeEachOther(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	one, two := m.Client(machinetest.ClientOptions{}), m.Client(machinetest.ClientOptions{Scope: "s/two"})
	exec := begin(t, one, shell("exec sleep 1000"))
	if _, err := two.Attach(limited(t), exec.id, client.Follow{}, client.Writers(nil, nil)); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC {
		t.Fatalf("attach: %v", err)
	}
	if _, err := two.Signal(limited(t), exec.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC {
		t.Fatalf("signal: %v", err)
	}
	list, err := two.RPC().List(limited(t), connect.NewRequest(&wirev1.ListRequest{Scope: "s/two"}))
	if err != nil || len(list.Msg.GetExecs()) != 0 {
		t.Fatalf("list: %v, %v", list, err)
	}
	_, err = two.RPC().List(limited(t), connect.NewRequest(&wirev1.ListRequest{Scope: machinetest.Scope}))
	if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_SCOPE {
		t.Fatalf("list of the other scope: %v", err)
	}
	if _, err := one.Signal(limited(t), exec.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP); err != nil {
		t.Fatal(err)
	}
	exec.wait(t)
}

func TestHigherFenceEndsTheOldOwnerForGood(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	old, next := m.Client(machinetest.ClientOptions{Fence: 3}), m.Client(machinetest.ClientOptions{Fence: 4})
	exec := begin(t, old, shell("exec sleep 1000"))
	// Any call with the higher fence is the takeover.
	if got := listedFence(t, next, 4); len(got) != 1 {
		t.Fatalf("the new owner sees %v", got)
	}
	<-exec.done
	if refusal, ok := wire.AsError(exec.err); !ok || refusal.Reason != wirev1.ErrorReason_ERROR_REASON_SUPERSEDED || refusal.Fence != 4 {
		t.Fatalf("the old owner's stream: %v", exec.err)
	}
	refused := func(c *client.Client) {
		t.Helper()
		_, err := c.Run(limited(t), client.Command{Spec: shell("echo ran >stale")}, client.Writers(nil, nil))
		if refusal, ok := wire.AsError(err); !ok || refusal.Reason != wirev1.ErrorReason_ERROR_REASON_FENCED || refusal.Fence != 4 {
			t.Fatalf("a start of the old owner: %v", err)
		}
		if _, err := c.Signal(limited(t), exec.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_FENCED {
			t.Fatalf("a signal of the old owner: %v", err)
		}
	}
	refused(old)
	if got := listed(t, next, exec.id); got.GetState() != wirev1.ExecState_EXEC_STATE_RUNNING {
		t.Fatalf("the exec is %v", got)
	}
	other := m.Client(machinetest.ClientOptions{Scope: "op/alice"})
	if got := run(t, other, shell("cat stale; echo beside")); got.stdout != "beside\n" {
		t.Fatalf("got %q", got.stdout)
	}
	m.Signal(syscall.SIGKILL)
	_ = m.Wait()
	_ = syscall.Kill(-int(exec.got.Started.GetPid()), syscall.SIGKILL)
	again := machinetest.Start(t, machinetest.Options{Data: m.Data, Root: &m.Root})
	refused(again.Client(machinetest.ClientOptions{Fence: 3}))
}

func listedFence(t *testing.T, c *client.Client, fence uint64) []*wirev1.ExecInfo {
	t.Helper()
	answer, err := c.RPC().List(limited(t), connect.NewRequest(&wirev1.ListRequest{Scope: machinetest.Scope, Fence: fence}))
	if err != nil {
		t.Fatal(err)
	}
	return answer.Msg.GetExecs()
}

func TestOperatorCallsAreLoggedByKeyAndSubject(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	key, err := m.Root.Delegate("op-alice", []string{"tenant-a"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Address: m.Address, Scope: "op/alice", Tokens: client.SignWith(key, machinetest.App, machinetest.ID, "laptop", "op/alice")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run(t, c, shell("echo $1", "private-argument"))
	eventually(t, "the log", func() bool {
		return strings.Contains(m.Log(), `"rpc":"Exec","key":"op-alice","subject":"laptop","scope":"op/alice"`)
	})
	if strings.Contains(m.Log(), "private-argument") {
		t.Fatal("the log quotes argv")
	}
}

func TestBothAddressFamiliesAnswer(t *testing.T) {
	if !hasIPv6() {
		t.Log("this host has no IPv6 loopback: one family is all there is")
	}
	m := machinetest.Start(t, machinetest.Options{Env: []string{"FLYFLEET_LISTEN=[::]:0"}})
	_, port, err := net.SplitHostPort(m.Address)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"127.0.0.1"}
	if hasIPv6() {
		hosts = append(hosts, "::1")
	}
	for _, host := range hosts {
		m.Address = net.JoinHostPort(host, port)
		if err := stranger(t, m, m.Token(machinetest.Scope)); err != nil {
			t.Fatalf("%s: %v", host, err)
		}
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}

func TestWrongStartIsAnErrorAtOnce(t *testing.T) {
	for name, x := range map[string]struct {
		env  []string
		says string
	}{
		"no trust":       {[]string{"FLYFLEET_TRUST="}, "FLYFLEET_TRUST"},
		"secret trust":   {[]string{"FLYFLEET_TRUST=ffroot1.f.AAAA"}, "secret key"},
		"no machine":     {[]string{"FLY_MACHINE_ID="}, "FLY_MACHINE_ID"},
		"bad address":    {[]string{"FLYFLEET_LISTEN=nowhere"}, "FLYFLEET_LISTEN"},
		"port in use":    {[]string{"FLYFLEET_LISTEN=" + occupied(t)}, "address already in use"},
		"data is a file": {[]string{"FLYFLEET_DATA=/dev/null"}, "workspace"},
		"run is a file":  {[]string{"FLYFLEET_RUN=/dev/null/x"}, "run directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := machinetest.Launch(t, machinetest.Options{Env: x.env})
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Fatalf("want an error with %q, got %v", x.says, err)
			}
			if strings.Contains(err.Error(), "AAAA") {
				t.Fatal("the error quotes the secret")
			}
		})
	}
}

func TestSecondServerOnOneSpoolIsRefused(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	_, err := machinetest.Launch(t, machinetest.Options{Data: m.Data, Root: &m.Root})
	if err == nil || !strings.Contains(err.Error(), "held by another control server") {
		t.Fatalf("got %v", err)
	}
}

func occupied(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
