package upstream

import (
	"net/http"
	"slices"
	"strings"
)

// requestHeaders pass from a command to every upstream, answerHeaders back.
var (
	requestHeaders = []string{
		"Accept", "Accept-Language", "Content-Language", "Content-Type", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since",
	}
	answerHeaders = []string{
		"Allow", "Cache-Control", "Content-Disposition", "Content-Language", "Content-Type", "Date", "Etag", "Expires", "Last-Modified",
		"Ratelimit", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Retry-After",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	}
)

// ours: headers that belong to one connection, to a body's form, or to who is who. They are set here or not at all.
func ours(name string) bool {
	return slices.Contains([]string{
		"accept-encoding", "authorization", "connection", "content-encoding", "content-length", "cookie", "expect", "forwarded", "host",
		"idempotency-key", "keep-alive", "location", "origin", "proxy-authenticate", "proxy-authorization", "proxy-connection", "referer",
		"set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via", "www-authenticate",
		"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-idempotency-key", "x-real-ip",
	}, strings.ToLower(name))
}

// pick takes the headers that pass, but for those that Connection names as the connection's own.
func pick(from http.Header, names []string) map[string]string {
	picked := map[string]string{}
	for _, name := range names {
		values := from.Values(name)
		if len(values) == 0 || isConnections(from, name) {
			continue
		}
		picked[name] = strings.Join(values, ", ")
	}
	return picked
}

func isConnections(h http.Header, name string) bool {
	for _, line := range h.Values("Connection") {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}
