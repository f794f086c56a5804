# Fly keeps images under the name of an app.
resource "flyfleet_app" "images" {
  name = "acme-images"
}

resource "flyfleet_image" "tenant" {
  repository     = flyfleet_app.images.name
  base           = "debian:12-slim@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  control_server = "bin/flyfleet-controlserver"

  files = {
    "/etc/motd"            = { content = "welcome\n" }
    "/usr/local/bin/tool"  = { source = "build/tool", mode = "0755" }
    "/etc/tool/config.yml" = { source = "config.yml", mode = "0640", gid = 10000 }
  }

  labels = {
    "org.opencontainers.image.version" = "1.4.0"
  }
}
