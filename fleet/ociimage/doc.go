// Package ociimage builds container images without a container engine and pushes them to a registry.
//
// An image is a pure function of its [Spec] and of the bytes it names: same inputs, same digest, on any
// machine, umask, user, folder and day, and with any Go version. Nothing in it comes from the file system
// but file contents: modes and owners are those of the Spec, times are zero, entries are sorted, and no
// compressor runs. That is what lets a plan show the digest before anything is pushed.
//
// File contents are never held in memory: layers are read from the files as they are hashed, and read again as
// they are pushed. A file that changed in between is an error that names it.
package ociimage
