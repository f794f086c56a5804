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

# The digest is known in the plan: it is computed from the files here. The apply pushes it.
resource "flyfleet_image" "tenant" {
  repository = flyfleet_app.images.name
  base       = "scratch"

  files = {
    "/opt/flyfleet/bin/flyfleet-controlserver" = {
      source = var.control_server
      mode   = "0755"
    }
    "/etc/passwd"     = { content = "root:x:0:0:root:/root:/bin/sh\ntenant:x:10000:10000:tenant:/workspace:/bin/sh\n" }
    "/etc/group"      = { content = "root:x:0:\ntenant:x:10000:\n" }
    "/etc/image-info" = { content = "version ${var.image_version}\n" }
  }

  entrypoint = ["/opt/flyfleet/bin/flyfleet-controlserver", "serve"]
  labels = {
    "flyfleet.wire"                    = "1"
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
