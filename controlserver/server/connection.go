//go:build linux

package server

import (
	"log/slog"
	"net/http"
	"time"
)

// HTTP is the server of the control port, not yet listening: HTTP/2 cleartext, and HTTP/1.1 for unary
// calls. A peer that is gone without a word is noticed after 25 s by its pings, one that takes nothing
// after 30 s. Neither streams nor idle connections have another limit, but for the 15 minutes after which
// a connection without calls is closed.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       15 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: MaxStreams,
			MaxReadFrameSize:     1 << 20,
			// Requests are small but for stdin; a stranger's bytes wait here until they are refused.
			MaxReceiveBufferPerStream:     512 << 10,
			MaxReceiveBufferPerConnection: 2 << 20,
			// A dead peer is cut in half a minute; the spool has what it did not read.
			SendPingTimeout:  15 * time.Second,
			PingTimeout:      10 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
}
