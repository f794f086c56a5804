// Package merge edits machine configs as text, so that what is not meant to change does not change by a byte.
//
// Decoding a config into a struct drops the fields the struct does not know; decoding it into a map loses number text
// (1e400, 9007199254740993, 1.0), key order and white space. Each of these was a public report of its own: env wiped,
// then mounts, then metadata, one field at a time (flyctl#1469, #1543, PR#1073, PR#1211, PR#1571, PR#2070). So the text
// is scanned, the place of a value is found, and the bytes in that place are replaced.
//
// All functions are pure and never change their arguments.
package merge
