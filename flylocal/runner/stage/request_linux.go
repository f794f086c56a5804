package stage

import (
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

const (
	// Name is the stage's argv[0], by which the executable knows its part.
	Name = "flylocal-stage"
	// ControlFD is the control line's descriptor in the stage and, inherited through bubblewrap, in the init.
	ControlFD = 3
	// InitPath is where a machine sees its init, as on Fly.
	InitPath = "/fly/init"
)

// Op says what the stage is asked to do.
type Op string

// The stage's operations. After Boot it becomes bubblewrap, after the others it ends.
const (
	OpBoot   Op = "boot"
	OpUnpack Op = "unpack"
	OpEmpty  Op = "empty"
)

// Request is the first and only message to a stage.
type Request struct {
	Op     Op
	Boot   *Boot   `json:",omitempty"`
	Unpack *Unpack `json:",omitempty"`
	// Empty is the directory whose content is removed.
	Empty *Source `json:",omitempty"`
}

// Source is a directory or file of the host.
type Source struct {
	// File is the index, among the files beside the request, of a detached mount of it; −1 when Path says it.
	File int
	// Path is absolute on the host.
	Path string
}

func (r *Request) sources() []*Source {
	var all []*Source
	if r.Empty != nil {
		all = append(all, r.Empty)
	}
	if r.Unpack != nil {
		all = append(all, &r.Unpack.Into)
	}
	if b := r.Boot; b != nil {
		all = append(all, &b.Image, &b.Writable, &b.Init)
		for i := range b.Mounts {
			all = append(all, &b.Mounts[i].Source)
		}
	}
	return all
}

// Unpack asks for an image's layers to be applied to an empty directory.
type Unpack struct {
	Into Source
	// Layers is the index of the pipe that carries them (rootfs.WriteLayers).
	Layers  int
	Options rootfs.Options
}

// Boot asks for a machine's file systems, then for bubblewrap.
type Boot struct {
	// Image is the unpacked root, never written to. Writable takes what the machine writes outside its volumes; what
	// it holds from an earlier boot is removed.
	Image, Writable Source
	// Init is the executable that becomes PID 1.
	Init Source
	// Mounts are the machine's volumes.
	Mounts []Mount
	// HostTools lends the host's /usr when the image has no shell.
	HostTools bool
	// CopyRoot makes the writable root a copy even where there is an overlay.
	CopyRoot bool
	// Owners says that the namespace has ids for owners other than root.
	Owners bool
	// Hostname is the machine's name for itself.
	Hostname string
	// Bubblewrap is the index of its executable, opened.
	Bubblewrap int
}

// Mount puts a source at a path of the machine.
type Mount struct {
	Source Source
	Path   string
}

// Reply answers a request.
type Reply struct {
	// Error is empty when all went well.
	Error string
	// Copied says that the kernel gave no overlay here, so that the image's root was copied.
	Copied bool `json:",omitempty"`
	// Unpacked reports an OpUnpack.
	Unpacked rootfs.Report
}
