package transfer

import (
	"syscall"
)

// plan is what a copy has to do. It is made from two listings alone.
type plan struct {
	directories []entry // parents first
	links       []entry
	files       []entry // whose content is to be copied
	same        []entry // of equal size, but another time: a hash tells
	touch       []entry // that are there with another mode or time
	kept        int     // files and links that are there as they should be
	bytes       int64   // of files and same
}

// draw compares the source's entries with what the target has under the same names. What cannot be copied is told to failed.
func draw(source, target []entry, failed func(name string, err error)) plan {
	var p plan
	for i, e := range source {
		t := target[i]
		switch {
		case e.kind == other:
			failed(e.name, errSpecial)
		case e.kind == directory:
			p.directories = append(p.directories, e)
		case t.kind == directory:
			failed(e.name, syscall.EISDIR)
		case t.kind == other:
			failed(e.name, errSpecialThere)
		case e.kind == link:
			if t.kind == link && t.target == e.target {
				p.kept++
				continue
			}
			p.links = append(p.links, e)
		default:
			p.file(e, t)
		}
	}
	return p
}

func (p *plan) file(e, t entry) {
	equal := t.kind == file && t.size == e.size
	switch {
	case equal && t.modified.Equal(e.modified):
		p.kept++
		if t.mode != e.mode {
			p.touch = append(p.touch, e)
		}
		return
	case equal:
		p.same = append(p.same, e)
	default:
		p.files = append(p.files, e)
	}
	p.bytes += e.size
}
