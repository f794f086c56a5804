// Package tools is what an agent can do: a registry of tools with their argument schemas, their class and their
// policy, and the built-in tools, which work on a sandbox.
//
// The class of a tool decides what happens to a call whose owner died (journalv1.EffectClass). A tool that does
// not say is opaque: it may have happened, and is never repeated.
//
// What a model is told is bounded (Cap), head and tail; bytes are kept as they are, also those that are no
// text.
package tools
