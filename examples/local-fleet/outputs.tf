output "image" {
  description = "The fleet's image by digest."
  value       = flyfleet_image.tenant.ref
}

output "apps" {
  description = "The tenants' apps: flyfleet exec <app> -- <command>"
  value       = { for name, t in module.tenant : name => t.app }
}
