# What the module plans, and what it refuses. The provider is mocked: no platform is asked.
mock_provider "flyfleet" {}

variables {
  app    = "acme-ada"
  fleet  = "acme"
  region = "fra"
  image  = "registry.fly.io/acme@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
  trust  = "fftrust1.acme.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
}

run "a_tenant" {
  command = plan
  variables {
    env      = { LOG = "debug" }
    metadata = { plan = "gold" }
  }
  assert {
    condition     = flyfleet_app.this.network == "acme-ada"
    error_message = "The app must be on a network of its own."
  }
  assert {
    condition     = flyfleet_volume.data.deletion_protection
    error_message = "The volume must be protected unless somebody says otherwise."
  }
  assert {
    condition     = flyfleet_machine.main.env == tomap({ LOG = "debug", FLYFLEET_TRUST = var.trust })
    error_message = "The machine must trust the given roots and carry the given environment."
  }
  assert {
    condition = flyfleet_machine.main.metadata == tomap({
      plan = "gold", flyfleet_fleet = "acme", flyfleet_tenant = "acme-ada", flyfleet_wire = "1", flyfleet_image_owner = "terraform"
    })
    error_message = "The machine must be found by fleet, tenant, wire version and image owner."
  }
  assert {
    condition     = flyfleet_machine.main.services[0].autostart && flyfleet_machine.main.services[0].autostop == "off"
    error_message = "A connection must wake the machine, and nothing but the API make it cold."
  }
  assert {
    condition     = flyfleet_machine.main.services[0].ports[0].port == 8080 && flyfleet_machine.main.services[0].ports[0].handlers == null
    error_message = "The control port must be raw TCP."
  }
  assert {
    condition     = flyfleet_machine.main.checks["control"].path == "/healthz" && flyfleet_machine.main.checks["control"].type == "http"
    error_message = "Fly must check the control server."
  }
  assert {
    condition     = flyfleet_machine.main.stop_config == { signal = "SIGTERM", timeout = "30s" }
    error_message = "The control server must get time to end commands."
  }
  assert {
    condition     = flyfleet_ip.flycast.type == "private_v6" && flyfleet_ip.flycast.network == "default"
    error_message = "The runtime's network must reach the tenant, and no public one."
  }
}

run "autostop_is_warned_of" {
  command = plan
  variables {
    autostop = "suspend"
  }
  expect_failures = [check.autostop_is_off]
}

run "a_tag_is_refused" {
  command = plan
  variables {
    image = "registry.fly.io/acme:latest"
  }
  expect_failures = [var.image]
}

run "a_secret_key_is_no_trust" {
  command = plan
  variables {
    trust = "ffroot1.acme.AAAA"
  }
  expect_failures = [var.trust]
}

run "a_long_name_is_refused" {
  command = plan
  variables {
    app = "a-name-of-more-than-sixty-three-letters-that-fly-would-refuse-at-once"
  }
  expect_failures = [var.app]
}

run "a_half_gigabyte_is_refused" {
  command = plan
  variables {
    volume_size_gb = 1.5
  }
  expect_failures = [var.volume_size_gb]
}

run "the_modules_own_names_are_refused" {
  command = plan
  variables {
    env         = { FLYFLEET_TRUST = "mine" }
    metadata    = { flyfleet_fleet = "mine" }
    image_owner = "me"
    busy        = "kill"
  }
  expect_failures = [var.env, var.metadata, var.image_owner, var.busy]
}
