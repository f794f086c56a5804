# Reached from the runtime's network alone: no tenant reaches another, and nothing is public.
resource "flyfleet_ip" "flycast" {
  app     = flyfleet_app.tenant.name
  type    = "private_v6"
  network = "runtime"
}
