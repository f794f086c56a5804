package wire

// Names in Hello's list of features, of what a client asks for before it uses it. A server that lacks
// one refuses the field or call; a client degrades by the list, never by trying.
const (
	// FeatureStdin: STDIN_MODE_PIPE and WriteStdin.
	FeatureStdin = "stdin_pipe"
	// FeaturePty: spec.pty and Resize.
	FeaturePty = "pty"
	// FeatureWallTimeout: spec.wall_timeout_ms.
	FeatureWallTimeout = "wall_timeout"
)
