package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Answer is what an upstream said, as a command gets it.
type Answer struct {
	Status  int
	Headers map[string]string
	Body    []byte
}

type answerHead struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Encode makes a line of JSON, and the body after it.
func (a Answer) Encode() ([]byte, error) {
	head, err := json.Marshal(answerHead{Status: a.Status, Headers: a.Headers})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), a.Body...), nil
}

// DecodeAnswer reads it.
func DecodeAnswer(data []byte) (Answer, error) {
	head, body, found := bytes.Cut(data, []byte("\n"))
	var h answerHead
	if !found || json.Unmarshal(head, &h) != nil || h.Status < 200 || h.Status > 599 {
		return Answer{}, errors.New("upstream: an answer that cannot be read")
	}
	return Answer{Status: h.Status, Headers: h.Headers, Body: body}, nil
}
