package apikey

import "net/http"

// Transport sends requests under a key: in a header, never in an address, which is logged on the way.
type Transport struct {
	http.RoundTripper
	Key string
}

// RoundTrip is http.RoundTripper's.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.Key)
	return t.RoundTripper.RoundTrip(r)
}
