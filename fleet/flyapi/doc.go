// Package flyapi is the client of Fly's Machines API that the fleet engine, the provider and the commands share.
//
// Two layers stand on one door (the transport: authorization by request, pacing, 429, limits):
//
//	fly-go (typed)        apps read and delete, volumes read and change, secrets
//	raw JSON (this file's neighbours)   machines, leases, creates, org-wide lists, addresses, exec
//
// Machines go through the raw layer because fly-go decodes a config into a struct, which drops every field it
// does not know, and because it can send no current_version. Creates go through it because fly-go's transport
// repeats a POST after a 502 or 503, which makes a second machine when the first was made after all: here such
// an answer is followed by a look-up. Leases go through it because fly-go repeats a refused acquire for 60 s and
// hides the holder's name.
//
// A Client is safe for concurrent use.
package flyapi
