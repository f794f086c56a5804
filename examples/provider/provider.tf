terraform {
  required_providers {
    flyfleet = {
      source = "flyfleet/flyfleet"
    }
  }
}

# Where Fly is and who asks comes from the environment: FLY_API_TOKEN and FLY_ORG,
# or all of it from `eval "$(flyfleet local env)"` for the local platform.
provider "flyfleet" {}
