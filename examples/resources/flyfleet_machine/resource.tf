resource "flyfleet_machine" "main" {
  app    = flyfleet_app.tenant.name
  region = "fra"
  image  = flyfleet_image.tenant.ref

  guest = {
    cpu_kind  = "shared"
    cpus      = 1
    memory_mb = 512
  }

  # Additive: other variables and metadata of the machine are left as they are.
  env = {
    FLYFLEET_TRUST = var.flyfleet_trust
  }
  metadata = {
    flyfleet_fleet  = "acme"
    flyfleet_tenant = "ada"
  }

  # Another volume would mean another machine; the plan fails unless the mount says
  # replace_with_volume = true.
  mounts = {
    "/data" = { volume_id = flyfleet_volume.data.id }
  }

  # Bytes pass through; a connection wakes the machine, and only the API makes it cold.
  services = [{
    internal_port = 8080
    ports         = [{ port = 8080 }]
  }]

  checks = {
    control = {
      type     = "http"
      port     = 8080
      path     = "/healthz"
      interval = "15s"
      timeout  = "2s"
    }
  }

  stop_config = {
    signal  = "SIGTERM"
    timeout = "30s"
  }

  # Wait for running commands before an update, at most this long.
  busy          = "wait"
  drain_timeout = "10m"
}
