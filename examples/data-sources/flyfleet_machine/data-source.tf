data "flyfleet_machine" "main" {
  app = "acme-tenant-ada"
}

output "state" {
  value = data.flyfleet_machine.main.state
}
