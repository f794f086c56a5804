package ociimage

// Labels of a tenant's image.
const (
	// LabelWire is the highest wire version of the control server in the image.
	LabelWire = "flyfleet.wire"
	// LabelVersion is the image's version as its maker calls it.
	LabelVersion = "org.opencontainers.image.version"
)

// ControlServerPath is where the control server lies in a tenant's image. It is outside /usr, which a local
// platform may cover with the host's tools.
const ControlServerPath = "/opt/flyfleet/bin/flyfleet-controlserver"

// TenantID is the user and group id of the unprivileged user "tenant" that commands run as.
const TenantID = 10000

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\ntenant:x:10000:10000:tenant:/workspace:/bin/sh\n"
	group  = "root:x:0:\ntenant:x:10000:\n"
)

// Tenant is the standard image of a tenant machine: the given control server, started as root, the users
// root and tenant, and /workspace leading to the volume. Callers add their base, files and labels to it;
// nothing of the calling program is in it, so that a newer caller does not change the image.
func Tenant(controlServer Source) Spec {
	return Spec{
		Base: Scratch,
		Dirs: []Dir{
			{Path: "/data"},
			{Path: "/dev"},
			{Path: "/proc"},
			{Path: "/root", Mode: 0o700},
			{Path: "/run"},
			{Path: "/sys"},
			{Path: "/tmp", Mode: 0o1777},
		},
		Files: []File{
			{Path: ControlServerPath, Source: controlServer, Mode: 0o755},
			{Path: "/etc/passwd", Source: FromBytes([]byte(passwd))},
			{Path: "/etc/group", Source: FromBytes([]byte(group))},
		},
		Links:        []Link{{Path: "/workspace", Target: "/data/workspace"}},
		Entrypoint:   []string{ControlServerPath, "serve"},
		Labels:       map[string]string{LabelWire: "1"},
		ExposedPorts: []string{"8080/tcp"},
		WorkDir:      "/",
	}
}
