// Package skew holds today's client and control server against peers of other versions. It has tests
// only: make skew.
//
// A machine's image and the runtime that speaks to it are deployed apart, so each meets the other's past
// and future. The frozen peers are version 1 of both ends as it was first agreed: they know the messages
// only from wire/testdata/frozen-v1.binpb, never from today's generated code, and carry their own digest,
// cursor and refusals. They change never; a change of the wire that they do not survive is a wrong change.
// The future peers are the same ones under a schema that has a new field in every message, a new event, a
// new call and new enum values, and they use all of them.
//
//	                 frozen server   today's server   future server
//	frozen client        ×                 ×
//	today's client       ×         (everywhere else)        ×
//	future client                          ×
package skew
