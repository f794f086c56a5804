// Package daemon puts a replica of the runtime together: the store, the executor, the HTTP listener. Its own
// paths are /healthz, /readyz, /version and /metrics; every other one is the gateway's (gateway.go). Where sessions
// work is chosen in machines.go.
package daemon
