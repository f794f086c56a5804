package gateway_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// paperclipai/paperclip#8047, anthropics/claude-code#86707: secrets of a submission, of the server and in what a command
// prints are nowhere but in what was sealed: not in a table, an event or a log. The command puts them together, so that
// no input holds them.
func TestSecretsAreNowhere(t *testing.T) {
	r := newRig(t)
	r.known = []string{"server-own-2468"}
	r.executor()
	f := r.face()
	session := f.session(r.acme)
	submission := f.submit(r.acme, session, `run: printf '%s-%s ' tenant secret-13579 server own-2468 sk ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF; echo end`,
		func(s *runtimev1.SubmitRequest) { s.Credentials = map[string]string{"TOKEN": "tenant-secret-13579"} })
	f.settled(r.acme, submission.GetSubmissionId())
	_, err := r.store.Index(t.Context(), 100)
	r.ok(err)

	var all bytes.Buffer
	for _, e := range f.watch(r.acme, session, "?output=1", "").until(isSettled) {
		text, err := protojson.Marshal(e)
		r.ok(err)
		all.Write(text)
		all.Write(e.GetOutput().GetData())
		all.Write(e.GetEntry().GetBody().GetToolResult().GetContent())
	}
	if !bytes.Contains(all.Bytes(), []byte("[secret]")) || !bytes.Contains(all.Bytes(), []byte("end\n")) {
		t.Errorf("nothing was masked, or nothing was told: %s", &all)
	}
	all.Write(r.tables(t))
	all.WriteString(r.log.String())
	for _, secret := range []string{"tenant-secret-13579", "server-own-2468", "sk-ant-api03-abc", r.acme} {
		if at := bytes.Index(all.Bytes(), []byte(secret)); at >= 0 {
			t.Errorf("%q is in …%s…", secret, all.Bytes()[max(0, at-100):min(all.Len(), at+100)])
		}
	}
}

// tables is the text of every row, bytes as they are.
func (r *rig) tables(t *testing.T) []byte {
	t.Helper()
	return r.tablesOf(t, "printf")
}

// tablesOf is tables, which must hold something.
func (r *rig) tablesOf(t *testing.T, something string) []byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), r.url)
	r.ok(err)
	defer conn.Close(context.Background()) //nolint:errcheck // it was only read
	_, err = conn.Exec(t.Context(), "SET bytea_output = 'escape'")
	r.ok(err)
	var all []byte
	names, err := conn.Query(t.Context(), "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'")
	r.ok(err)
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	r.ok(err)
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), "SELECT x::text FROM "+table+" x")
		r.ok(err)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		r.ok(err)
		for _, text := range texts {
			all = append(all, text...)
		}
	}
	if !bytes.Contains(all, []byte(something)) {
		t.Fatal("the tables hold nothing of the session")
	}
	return all
}
