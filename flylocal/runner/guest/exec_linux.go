package guest

import (
	"errors"
	"os"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/children"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
)

// serveExec runs a command as root. The platform holds the pipes, so the init neither buffers nor bounds output.
func (g *guest) serveExec(talk *control.Conversation, argv []string) {
	c, ends, err := g.startExec(argv)
	if err == nil {
		err = talk.Send(Reply{PID: c.PID}, ends...)
		closeFiles(ends)
		if err != nil {
			g.procs.KillGroup(c)
			return
		}
	} else {
		_ = talk.Send(failure(err))
		return
	}
	go watchEnd(talk, func() { g.procs.KillGroup(c) })
	<-c.Done()
	sendEnd(talk, c)
}

// startExec starts the command and returns the platform's ends of its stdin, stdout and stderr.
func (g *guest) startExec(argv []string) (*children.Child, []*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.main == nil || len(argv) == 0 {
		return nil, nil, errors.New("a command needs a started machine and a name")
	}
	var near, far []*os.File
	defer func() { closeFiles(near) }()
	for i := range 3 {
		r, w, err := g.pipe(root)
		if err != nil {
			closeFiles(far)
			return nil, nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		far, near = append(far, r), append(near, w)
	}
	c, err := g.spawn(argv, root, near[0], near[1], near[2])
	if err != nil {
		closeFiles(far)
		return nil, nil, err
	}
	return c, far, nil
}
