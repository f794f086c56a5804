# Three tenants on the platform of this computer; the same files set up a fleet on Fly.
#
#   flyfleet local up --host-tools      in one terminal
#   eval "$(flyfleet local env)"        in another, then terraform init, plan, apply

terraform {
  required_version = ">= 1.11"
  required_providers {
    flyfleet = {
      source = "flyfleet/flyfleet"
    }
  }
}

# Where the platform is and who asks comes from the environment (FLY_API_TOKEN, FLY_ORG, …).
provider "flyfleet" {}

# Fly keeps images under the name of an app; this one holds the fleet's image and nothing else.
resource "flyfleet_app" "images" {
  name    = "${var.prefix}-images"
  network = "${var.prefix}-images"
}

# The digest is known in the plan: it is computed from what is here. The apply pushes the image.
resource "flyfleet_image" "tenant" {
  repository     = flyfleet_app.images.name
  base           = "scratch"
  control_server = var.control_server

  files = {
    "/etc/image-info" = { content = "version ${var.image_version}\n" }
  }

  labels = {
    "org.opencontainers.image.version" = var.image_version
  }
}

module "tenant" {
  source   = "../../terraform/modules/tenant"
  for_each = toset(var.tenants)

  app                 = "${var.prefix}-${each.key}"
  fleet               = var.prefix
  tenant              = each.key
  region              = var.region
  image               = flyfleet_image.tenant.ref
  trust               = var.flyfleet_trust
  deletion_protection = var.deletion_protection
}
