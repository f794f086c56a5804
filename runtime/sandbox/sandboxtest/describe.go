package sandboxtest

import "strings"

var describeCases = []Case{
	{Name: "the epoch is not empty and stays", run: func(t *trial) {
		first, err := t.box.Describe(t.ctx)
		t.ok(err)
		second, err := t.box.In("elsewhere").Describe(t.ctx)
		t.ok(err)
		if first.Epoch == "" || first != second {
			t.Errorf("got %+v, then %+v", first, second)
		}
	}},
	{Name: "User is who runs the commands", run: func(t *trial) {
		d, err := t.box.Describe(t.ctx)
		t.ok(err)
		t.same("the user", d.User, strings.TrimSpace(t.sh(`id -un 2>/dev/null || id -u`)))
	}},
}
