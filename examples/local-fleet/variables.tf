variable "flyfleet_trust" {
  description = "Public root key of the fleet; flyfleet local env sets TF_VAR_flyfleet_trust."
  type        = string
}

variable "prefix" {
  description = "Name of the fleet, and the first part of the apps' names."
  type        = string
  default     = "local-fleet"
}

variable "tenants" {
  description = "Names of the tenants."
  type        = list(string)
  default     = ["ada", "bea", "cleo"]
}

variable "region" {
  description = "Fly region."
  type        = string
  default     = "fra"
}

variable "image_version" {
  description = "Another value is another image: change it, then plan."
  type        = string
  default     = "1"
}

variable "control_server" {
  description = "The control server's binary, as make build leaves it."
  type        = string
  default     = "../../bin/flyfleet-controlserver"
}

variable "deletion_protection" {
  description = "Protect the volumes. Off here, so that terraform destroy cleans up what was tried."
  type        = bool
  default     = false
}
