// Package design holds the pages for people who change the code, and the tests that keep two of them true:
// architecture.md (import directions) and parity.md (each requirement names tests that exist).
package design
