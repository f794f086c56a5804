// Package provider is the Terraform provider flyfleet/flyfleet: its configuration and the list of what it offers. Each
// resource is a package beside this file.
package provider
