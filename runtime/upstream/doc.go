// Package upstream is what commands may reach on the way back: services that an operator named, each behind rules of who may
// do what, with the credential that a submission brought. A command never has the credential; it asks, and what may be
// done is done from here.
//
// A request is looked at in one spelling (Canonical), so that a rule cannot be passed by writing a path in another way. Its
// arguments (Request.Args) hold everything but the body, and the body's digest: who approves them approves those bytes.
package upstream
