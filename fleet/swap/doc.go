// Package swap changes the image of one machine, and nothing else.
//
//	look ──► (nothing to do) unchanged
//	 │   └─► (host away, config incomplete, another's, …) skipped, nothing written
//	 ▼
//	drain: ask for running commands; idle closes the door, busy waits or interrupts
//	 │   └─► (still busy at the drain timeout) skipped, nothing written
//	 ▼
//	lease ──► (held by another) skipped, nothing written
//	 │
//	 ▼  under the lease, refreshed
//	look again ─► post ─► settled on the new instance ─► verify instance and digest ─► gates ─► swapped
//	                                                         └─► (Fly went back)  failed: reverted
//	                                                                     └─► failed: checks, probe, wire
//
// Whenever the door was closed and nothing was written, it is opened again. The decisions are pure functions
// (decide.go, probe.go); the engine is a thin driver around them. Update changes more than the image by a three-way
// merge, over the same road.
package swap
