output "app" {
  description = "Name of the app."
  value       = flyfleet_app.this.name
}

output "machine_id" {
  description = "Fly's id of the machine."
  value       = flyfleet_machine.main.id
}

output "volume_id" {
  description = "Fly's id of the volume."
  value       = flyfleet_volume.data.id
}

output "address" {
  description = "Flycast address of the control server."
  value       = flyfleet_ip.flycast.address
}

output "endpoint" {
  description = "Where the control server is reached from the runtime's network."
  value       = "${flyfleet_app.this.name}.flycast:${local.control_port}"
}
