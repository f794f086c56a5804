terraform {
  required_version = ">= 1.11"
  required_providers {
    flyfleet = {
      source = "flyfleet/flyfleet"
    }
  }
}
