package transfer

import "fmt"

// Report is what a copy did.
type Report struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Files, Links: copied now. Kept: there already as they should be.
	Files       int `json:"files"`
	Directories int `json:"directories"`
	Links       int `json:"links"`
	Kept        int `json:"kept"`
	// Bytes of content that were sent now; Resumed, those that an earlier, cut copy had brought.
	Bytes   int64    `json:"bytes"`
	Resumed int64    `json:"resumed_bytes"`
	Seconds float64  `json:"seconds"`
	Failed  []Failed `json:"failed,omitempty"`
	// More counts failures beyond the first hundred.
	More int `json:"failed_more,omitempty"`
}

// Failed is one name that was not copied.
type Failed struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// mostFailed is how many failures a report lists.
const mostFailed = 100

func (r *Report) failed(name string, err error) {
	if len(r.Failed) >= mostFailed {
		r.More++
		return
	}
	r.Failed = append(r.Failed, Failed{Name: name, Error: err.Error()})
}

// Err sums failures up, nil when there were none.
func (r *Report) Err() error {
	n := len(r.Failed) + r.More
	switch n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s was not copied: %s", Printable(r.Failed[0].Name), r.Failed[0].Error)
	}
	return fmt.Errorf("%d names were not copied; the first: %s: %s", n, Printable(r.Failed[0].Name), r.Failed[0].Error)
}
