package machine

// ownerKey is the metadata key that says who swaps the machine's image.
const ownerKey = "flyfleet_image_owner"

// The owners of an image. Each warns or refuses before undoing the other.
const (
	ownerTerraform = "terraform"
	ownerRollout   = "rollout"
)
