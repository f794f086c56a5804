resource "flyfleet_app" "tenant" {
  name = "acme-tenant-ada"
}
