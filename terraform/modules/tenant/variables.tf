variable "app" {
  description = "Name of the tenant's app. App names are global on Fly."
  type        = string
  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.app))
    error_message = "app must be 1 to 63 lowercase letters, digits and dashes, and neither start nor end with a dash."
  }
}

variable "fleet" {
  description = "Name of the fleet, written to the machine's metadata: flyfleet machines and redeploy-fleet choose by it."
  type        = string
  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.fleet))
    error_message = "fleet must be 1 to 63 lowercase letters, digits and dashes."
  }
}

variable "tenant" {
  description = "Your name for the tenant, written to the machine's metadata. Default: the app's name."
  type        = string
  default     = null
}

variable "region" {
  description = "Fly region of volume and machine, such as fra. Neither can move."
  type        = string
}

variable "image" {
  description = "Image of the machine by digest, such as flyfleet_image.this.ref."
  type        = string
  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must be pinned by digest (…@sha256:…): new content under the same tag would be no change for Terraform."
  }
}

variable "trust" {
  description = "Public root keys (fftrust1.…, comma-separated) whose delegations the machine accepts: its FLYFLEET_TRUST."
  type        = string
  validation {
    condition     = startswith(var.trust, "fftrust1.")
    error_message = "trust must be the public form of a root key, fftrust1.<fleet>.<key>; flyfleet keygen root prints it."
  }
}

variable "runtime_network" {
  description = "Private network of the runtime. The tenant's flycast address is reached from there and from nowhere else."
  type        = string
  default     = "default"
}

variable "volume_size_gb" {
  description = "Size of the volume with the workspace, in GB. It can grow, never shrink."
  type        = number
  default     = 1
  validation {
    condition     = var.volume_size_gb >= 1 && var.volume_size_gb <= 500 && floor(var.volume_size_gb) == var.volume_size_gb
    error_message = "volume_size_gb must be a whole number from 1 to 500."
  }
}

variable "deletion_protection" {
  description = "Refuse every plan that would destroy or replace the volume, and with it the workspace."
  type        = bool
  default     = true
}

variable "guest" {
  description = "Size of the machine."
  type = object({
    cpu_kind  = string
    cpus      = number
    memory_mb = number
  })
  default = {
    cpu_kind  = "shared"
    cpus      = 1
    memory_mb = 512
  }
}

variable "env" {
  description = "More environment variables of the machine. No secrets: they would be in the state."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for name in keys(var.env) : !startswith(name, "FLYFLEET_")])
    error_message = "env must not set FLYFLEET_* variables: those are the module's."
  }
}

variable "metadata" {
  description = "More metadata of the machine."
  type        = map(string)
  default     = {}
  validation {
    condition     = alltrue([for name in keys(var.metadata) : !startswith(name, "flyfleet_")])
    error_message = "metadata must not set flyfleet_* keys: those are the module's."
  }
}

variable "image_owner" {
  description = "Who swaps the image: terraform, or rollout (flyfleet redeploy-fleet)."
  type        = string
  default     = "terraform"
  validation {
    condition     = contains(["terraform", "rollout"], var.image_owner)
    error_message = "image_owner must be terraform or rollout."
  }
}

variable "wire" {
  description = "Highest wire version of the image's control server."
  type        = number
  default     = 1
}

variable "busy" {
  description = "What a change does while commands run on the machine: wait for them, or interrupt them."
  type        = string
  default     = "wait"
  validation {
    condition     = contains(["wait", "interrupt"], var.busy)
    error_message = "busy must be wait or interrupt."
  }
}

variable "autostop" {
  description = "Leave it off: Fly's proxy sees connections, not commands, and would stop a machine whose command runs without one."
  type        = string
  default     = "off"
  validation {
    condition     = contains(["off", "stop", "suspend"], var.autostop)
    error_message = "autostop must be off, stop or suspend."
  }
}
