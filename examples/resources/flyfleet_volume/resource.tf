resource "flyfleet_volume" "data" {
  app     = flyfleet_app.tenant.name
  region  = "fra"
  name    = "data"
  size_gb = 3
}
