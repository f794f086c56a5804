// Package secrets keeps secrets out of what is stored and shown, and seals those that must be stored.
//
// A Redactor masks them at the one place where bytes enter the journal: values that are known, in the forms in
// which programs print them, and what has the shape of a key. A Sealer encrypts a submission's credentials
// for the database.
package secrets
