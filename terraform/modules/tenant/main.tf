# One tenant: an app on a network of its own, a volume with the workspace, a machine, and an address that the
# runtime's network alone can reach.

locals {
  control_port = 8080
}

resource "flyfleet_app" "this" {
  name    = var.app
  network = var.app
}

resource "flyfleet_volume" "data" {
  app                 = flyfleet_app.this.name
  name                = "data"
  region              = var.region
  size_gb             = var.volume_size_gb
  deletion_protection = var.deletion_protection
}

resource "flyfleet_machine" "main" {
  app    = flyfleet_app.this.name
  region = var.region
  image  = var.image
  guest  = var.guest
  busy   = var.busy

  env = merge(var.env, {
    FLYFLEET_TRUST = var.trust
  })

  metadata = merge(var.metadata, {
    flyfleet_fleet       = var.fleet
    flyfleet_tenant      = coalesce(var.tenant, var.app)
    flyfleet_wire        = tostring(var.wire)
    flyfleet_image_owner = var.image_owner
  })

  mounts = {
    "/data" = {
      volume_id = flyfleet_volume.data.id
    }
  }

  # Raw TCP: HTTP/2 without TLS passes through. A connection wakes the machine; nothing but the API makes it cold.
  services = [{
    internal_port = local.control_port
    protocol      = "tcp"
    autostart     = true
    autostop      = var.autostop
    ports         = [{ port = local.control_port }]
  }]

  checks = {
    control = {
      type         = "http"
      port         = local.control_port
      method       = "GET"
      path         = "/healthz"
      interval     = "5s"
      timeout      = "2s"
      grace_period = "5s"
    }
  }

  # Time for the control server to end running commands and to store how they ended.
  stop_config = {
    signal  = "SIGTERM"
    timeout = "30s"
  }
}

resource "flyfleet_ip" "flycast" {
  app     = flyfleet_app.this.name
  type    = "private_v6"
  network = var.runtime_network
}

check "autostop_is_off" {
  assert {
    condition     = var.autostop == "off"
    error_message = "autostop = \"${var.autostop}\" lets Fly's proxy stop ${var.app} while a command runs on it: the proxy sees connections, not commands. Leave it off; idle machines are made cold by whoever can see their commands."
  }
}
