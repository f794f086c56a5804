terraform import flyfleet_app.tenant acme-tenant-ada
